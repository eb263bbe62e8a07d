"""Why a name or URI cannot be given: who would provide it, how that one stands, what mends it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from grain.plugins.checkout import install_command
from grain.plugins.claims import Claims, Space
from grain.plugins.errors import (
    PluginError,
    PluginNotInstalledError,
    PluginUnusableError,
    UnknownNameError,
    sentence,
)
from grain.plugins.known import KNOWN_PLUGINS, KnownPlugin
from grain.plugins.record import Plugin, Status
from grain.plugins.settings import normalise
from grain.plugins.uris import Uri

# As many broken plugins are named in an error about something else.
_MOST_UNREAD = 4


def record_of(known: KnownPlugin, plugins: Iterable[Plugin]) -> Plugin | None:
    """The installed plugin that a published one is, or None when it is not installed."""
    for plugin in plugins:
        if normalise(plugin.distribution or "") == known.distribution:
            return plugin
    return None


def unusable(what: str, plugin: Plugin) -> PluginError:
    """The error for something that an installed plugin would provide if it were in order."""
    error = PluginUnusableError(
        f"{_capital(what)} comes from {plugin.provider} (plugin {plugin.name!r}),"
        f" which is {plugin.status}: {sentence(plugin.reason)}{mending(plugin)}"
    )
    error.__cause__ = plugin.error
    return error


def absent(
    what: str, space: Space, name: str, *, plugins: Collection[Plugin], claims: Claims
) -> PluginError:
    """The error for a name that no usable plugin claims."""
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
                f" Install it with: {install_command(known)}"
            )
        if _is_unread(plugin):
            return unusable(what, plugin)
        return PluginUnusableError(
            f"{_capital(what)} comes from {known.distribution}, but the installed"
            f" {plugin.provider} does not provide it. Get a version that does with:"
            f" pip install --upgrade {known.distribution}"
        )
    return _unread(what, plugins) or UnknownNameError(
        f"No installed plugin provides {what}. Installed: {listed(claims.names(space))}."
    )


def unopenable(uri: Uri, *, plugins: Collection[Plugin], claims: Claims) -> PluginError:
    """The error for a URI whose scheme and suffix no usable plugin claims."""
    what = f"the source for {uri.text!r}"
    for scheme, _ in uri.readings():
        if any(_known_by(Space.SCHEME, scheme)):
            return absent(what, Space.SCHEME, scheme, plugins=plugins, claims=claims)
    if suffix := uri.suffix([suffix for known in KNOWN_PLUGINS for suffix in known.suffixes]):
        return absent(what, Space.SUFFIX, suffix, plugins=plugins, claims=claims)
    return _unread(what, plugins) or UnknownNameError(
        f"Nothing that is installed opens {uri.text!r}."
        f" Schemes that can be opened: {listed(claims.names(Space.SCHEME))};"
        f" suffixes: {listed(claims.names(Space.SUFFIX))}."
        " See `grain plugins list`, or make the source yourself: anything with `__len__` and"
        " `__getitem__` is one."
    )


def listed(names: Iterable[str]) -> str:
    """Names for the end of a sentence; `none` when there are none."""
    return ", ".join(map(repr, names)) or "none"


def mending(plugin: Plugin) -> str:
    """What to do about it, as the end of a sentence that began with the reason."""
    if plugin.status is Status.BLOCKED:
        return " To use it, change that variable."
    return f" To mend it: {plugin.mend}" if plugin.mend else ""


def _unread(what: str, plugins: Iterable[Plugin]) -> PluginError | None:
    """Names the plugins that could not be asked: one of them may be the one that is wanted."""
    unread = [plugin for plugin in plugins if _is_unread(plugin)]
    if not unread:
        return None
    told = [
        f"{plugin.provider} (plugin {plugin.name!r}) is {plugin.status}:"
        f" {sentence(plugin.reason)}{mending(plugin)}"
        for plugin in unread
    ]
    if len(told) > _MOST_UNREAD:
        told[_MOST_UNREAD:] = [f"And {len(told) - _MOST_UNREAD} more: see `grain plugins check`."]
    error = PluginUnusableError(
        f"No usable plugin provides {what}. These could not be asked whether they do: "
        + " ".join(told)
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
