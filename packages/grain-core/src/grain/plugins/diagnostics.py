"""The errors of using plugins, and their messages: the provider, its status, the reason and the fix."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator

from grain.plugins.first_party import KNOWN_PLUGINS, KnownPlugin
from grain.plugins.format_pointers import pointer_for
from grain.plugins.install_commands import install_hint, upgrade_command
from grain.plugins.metadata import normalise, visible
from grain.plugins.spec import Plugin, Status
from grain.plugins.uris import Uri

FIX = " To fix it: "
"""The text between a problem and the command that fixes it."""

_MOST_UNREAD = 4
"""How many broken plugins an error about something else names."""


class Space(enum.StrEnum):
    """The spaces in which names must be unique."""

    PLUGIN = "plugin name"
    SPEC = "spec name"
    PUBLIC = "public name"
    SCHEME = "URI scheme"
    SUFFIX = "file suffix"


NamesIn = Callable[[Space], list[str]]
"""Returns the names that usable plugins claim in a space."""


class PluginError(ImportError):
    """A name, URI or plugin cannot be resolved."""


class UnknownNameError(PluginError):
    """No installed or published plugin provides the name."""


class PluginNotInstalledError(PluginError):
    """A published plugin provides the name, and it is not installed."""


class PluginUnusableError(PluginError):
    """The plugin is installed, but it is failed, incompatible or blocked."""


class DuplicatePluginError(PluginError):
    """Several plugins claim the name, so it is refused to all of them."""


class PluginAttributeError(AttributeError):
    """A `PluginError` raised for a module's attribute, in a form that lets `hasattr` work."""


def sentence(text: str) -> str:
    """Return `text` with a full stop at its end.

    Example:
        >>> sentence("No module named 'pyarrow'"), sentence("Stop!")
        ("No module named 'pyarrow'.", 'Stop!')
    """
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def one_line(error: BaseException, limit: int = 300) -> str:
    r"""Return the type and the message of an exception on one line.

    Example:
        >>> one_line(ValueError("bad\n  very bad")), one_line(KeyError())
        ('ValueError: bad very bad', 'KeyError')
    """
    try:
        text = str(error)
    except Exception as failure:  # a foreign `__str__` may fail too
        text = f"its message cannot be read ({type(failure).__name__})"
    name = type(error).__name__
    message = visible(" ".join(text.split()))
    if len(message) > limit:
        message = f"{message[:limit]}…"
    return f"{name}: {message}" if message else name


def record_of(known: KnownPlugin, plugins: Iterable[Plugin]) -> Plugin | None:
    """Return the installed plugin of a published distribution, or None."""
    for plugin in plugins:
        if normalise(plugin.distribution or "") == known.distribution:
            return plugin
    return None


def unusable(what: str, plugin: Plugin) -> PluginError:
    """Return the error for something that a broken or blocked plugin would provide."""
    error = PluginUnusableError(
        f"{_capital(what)} comes from {plugin.provider} (plugin {plugin.name!r}),"
        f" which is {plugin.status}: {sentence(plugin.reason)}{fix_text(plugin)}"
    )
    error.__cause__ = plugin.error
    return error


def absent(
    what: str, space: Space, name: str, *, plugins: Collection[Plugin], names: NamesIn
) -> PluginError:
    """Return the error for a name that no usable plugin claims."""
    for found in plugins if space is Space.PLUGIN else ():
        if found.name == name and _is_unread(found):
            return unusable(what, found)
        if found.name == name:
            return PluginUnusableError(
                f"{_capital(what)} comes from {found.provider} and provides nothing: the hooks in"
                f" {found.module} return no PluginSpec."
            )
    for known in _known_by(space, name):
        plugin = record_of(known, plugins)
        if plugin is None:
            return PluginNotInstalledError(
                f"{_capital(what)} comes from {known.distribution}, which is not installed."
                f" Install it with: {install_hint(known)}"
            )
        if _is_unread(plugin):
            return unusable(what, plugin)
        return PluginUnusableError(
            f"{_capital(what)} comes from {known.distribution}, but the installed"
            f" {plugin.provider} does not provide it. Get a version that does with:"
            f" {upgrade_command(known.distribution)}"
        )
    return _unread(what, plugins) or UnknownNameError(
        f"No installed plugin provides {what}. Installed: {listed(names(space))}."
    )


def unopenable(uri: Uri, *, plugins: Collection[Plugin], names: NamesIn) -> PluginError:
    """Return the error for a URI whose scheme and suffix no usable plugin claims."""
    what = f"the source for {uri.text!r}"
    for scheme, _ in uri.readings():
        if any(_known_by(Space.SCHEME, scheme)):
            return absent(what, Space.SCHEME, scheme, plugins=plugins, names=names)
    if suffix := uri.suffix([suffix for known in KNOWN_PLUGINS for suffix in known.suffixes]):
        return absent(what, Space.SUFFIX, suffix, plugins=plugins, names=names)
    pointer = pointer_for(uri.text)
    return _unread(what, plugins) or UnknownNameError(
        f"No installed plugin opens {uri.text!r}.{pointer and f' But {pointer}'}"
        f" Schemes that can be opened: {listed(names(Space.SCHEME))};"
        f" suffixes: {listed(names(Space.SUFFIX))}."
        " See `grain plugins list`, or write the source yourself: any object with `__len__` and"
        " `__getitem__` is a source."
    )


def listed(names: Iterable[str]) -> str:
    """Return names as the end of a sentence; `none` when there are none."""
    return ", ".join(map(repr, names)) or "none"


def fix_text(plugin: Plugin) -> str:
    """Return what to do about a plugin, to be put after the reason."""
    if plugin.status is Status.BLOCKED:
        return " To use it, change that variable."
    return f"{FIX}{plugin.fix}" if plugin.fix else ""


def _unread(what: str, plugins: Iterable[Plugin]) -> PluginError | None:
    """Return the error that names the plugins without specs: one of them may provide it."""
    unread = [plugin for plugin in plugins if _is_unread(plugin)]
    if not unread:
        return None
    texts = [
        f"{plugin.provider} (plugin {plugin.name!r}) is {plugin.status}:"
        f" {sentence(plugin.reason)}{fix_text(plugin)}"
        for plugin in unread
    ]
    if len(texts) > _MOST_UNREAD:
        texts[_MOST_UNREAD:] = [f"And {len(texts) - _MOST_UNREAD} more: see `grain plugins check`."]
    error = PluginUnusableError(
        f"No usable plugin provides {what}. The specs of these could not be read: "
        + " ".join(texts)
    )
    error.__cause__ = unread[0].error if len(unread) == 1 else None
    return error


def _is_unread(plugin: Plugin) -> bool:
    return not plugin.specs and plugin.status is not Status.AVAILABLE


def _known_by(space: Space, name: str) -> Iterator[KnownPlugin]:
    for known in KNOWN_PLUGINS:
        names = {
            Space.PLUGIN: (known.name,),
            Space.SPEC: (known.name,),
            Space.PUBLIC: known.public_names,
            Space.SCHEME: known.schemes,
            Space.SUFFIX: known.suffixes,
        }[space]
        if name in names:
            yield known


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
