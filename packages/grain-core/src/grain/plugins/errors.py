"""The errors of using a plugin: each says who, which version, why, and what mends it."""

from __future__ import annotations


class PluginError(ImportError):
    """A name, URI or plugin could not be given."""


class UnknownNameError(PluginError):
    """Nobody, installed or published, provides the name."""


class PluginNotInstalledError(PluginError):
    """A published plugin provides the name, and is not installed."""


class PluginUnusableError(PluginError):
    """The plugin is installed, and is failed, incompatible or blocked."""


class DuplicatePluginError(PluginError):
    """Several plugins claim the name, so none gets it."""


class PluginAttributeError(AttributeError):
    """The form a `PluginError` takes when a module's attribute is read, so that `hasattr` works."""


def sentence(text: str) -> str:
    """`text` with a full stop at its end, for putting foreign messages into ours.

    Example:
        >>> sentence("No module named 'pyarrow'"), sentence("Stop!")
        ("No module named 'pyarrow'.", 'Stop!')
    """
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def one_line(error: BaseException, limit: int = 300) -> str:
    r"""The type and the message of an exception on one line, for a reason column.

    Example:
        >>> one_line(ValueError("bad\n  very bad")), one_line(KeyError())
        ('ValueError: bad very bad', 'KeyError')
    """
    try:
        text = str(error)
    except Exception as unsaid:  # even saying what it is may fail
        text = f"its message cannot be had ({type(unsaid).__name__})"
    name = type(error).__name__
    # Control characters would act on the terminal.
    message = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in " ".join(text.split())
    )
    if len(message) > limit:
        message = f"{message[:limit]}…"
    return f"{name}: {message}" if message else name
