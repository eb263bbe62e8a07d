"""The plugin registry: plugins are discovered once, kept as records, and raise only when they are used."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from grain.plugins.diagnostics import (
    DuplicatePluginError,
    PluginError,
    PluginUnusableError,
    Space,
    UnknownNameError,
    absent,
    fix_text,
    listed,
    one_line,
    record_of,
    sentence,
    unopenable,
    unusable,
)
from grain.plugins.discovery import Candidate, Settings, find_candidates, read_cases, read_plugin
from grain.plugins.first_party import KNOWN_NAMES, KNOWN_PLUGINS, OWN_NAMES, KnownPlugin
from grain.plugins.install_commands import repair_hint
from grain.plugins.mentions import mentions
from grain.plugins.metadata import ISOLATED, Distribution, installed_distributions, load_object
from grain.plugins.names import Claim, Claims, PluginAttributes
from grain.plugins.spec import SOURCE_KINDS, Capability, Kind, Plugin, PluginSpec, Status
from grain.plugins.uris import Uri
from grain.version import __version__

Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Found:
    """The result of one discovery."""

    settings: Settings
    candidates: dict[Key, Candidate]


class PluginManager:
    """Registry that discovers plugins, resolves their names, and imports their targets.

    Programs use the default one through the functions of `grain.plugins`; others are for tests.

    Args:
        settings: Returns the settings; called once, when plugins are first needed.
        distributions: Returns the installed distributions; called once, with the settings.
        core: The version of grain-core that plugins' requirements are checked against.
    """

    def __init__(
        self,
        *,
        settings: Callable[[], Settings] = lambda: Settings.from_environment(os.environ),
        distributions: Callable[[], Iterable[Distribution]] = installed_distributions,
        core: str = __version__,
    ) -> None:
        self._read_settings = settings
        self._read_distributions = distributions
        self._core = core
        self._lock = threading.RLock()
        self._discovering = False
        self._found: _Found | None = None
        self._records: dict[Key, Plugin] = {}
        self._registered: dict[str, Plugin] = {}
        self._faults: dict[Key, dict[str, Plugin]] = {}
        self._claims: Claims | None = None

    # Listing.

    def plugins(self) -> tuple[Plugin, ...]:
        """Return every plugin with its status, sorted by name; never raises for a broken plugin."""
        with self._lock:
            self._discover()
            claims = self._indexed()
            plugins = [plugin for _, plugin in sorted(self._all().items())]
            return tuple(p if p.status is Status.FAILED else claims.judge(p) for p in plugins)

    def problems(self) -> list[str]:
        """Return a line for each problem: the provider, the reason, and the command that fixes it."""
        settings, plugins = self._discover().settings, self.plugins()
        return [
            f"{plugin.name!r} of {plugin.provider} is {plugin.status}: {sentence(plugin.reason)}"
            + fix_text(plugin)
            for plugin in plugins
            if plugin.is_problem
        ] + settings.unmatched((plugin.name, plugin.distribution) for plugin in plugins)

    def not_installed(self) -> list[KnownPlugin]:
        """Return the published plugins that are not installed."""
        plugins = self.plugins()
        return [known for known in KNOWN_PLUGINS if record_of(known, plugins) is None]

    def public_names(self, kinds: Collection[Kind] | None = None) -> list[str]:
        """Return the names that installed plugins add, sorted, without contested ones."""
        claims = self._ready()
        return [
            name
            for name in claims.names(Space.PUBLIC)
            if not claims.is_contested(Space.PUBLIC, name)
            and _is_of(claims.find(Space.PUBLIC, name), kinds)
        ]

    # Resolving.

    def resolve(self, name: str, kinds: Collection[Kind] | None = None) -> Any:
        """Import and return the object of a public name, such as `"ParquetDataSource"`.

        With `kinds`, a name of another kind counts as unknown.
        """
        other = UnknownNameError(f"{name!r} is not of kind {listed(sorted(kinds or ()))}.")
        if kinds is not None and not SOURCE_KINDS & set(kinds) and name in KNOWN_NAMES:
            raise other  # all published plugins are sources
        claim = self._find(Space.PUBLIC, name, repr(name))
        if not _is_of(claim, kinds):
            raise other
        return self._load(repr(name), claim)

    def executor(self, name: str, built_in: Collection[str] = ()) -> Callable[..., Any]:
        """Import and return the function or class that makes the executor of this name.

        Args:
            name: Name of a spec of kind `EXECUTOR`.
            built_in: Names that need no plugin, for the error message.
        """
        claim = self._claim(Space.SPEC, name)
        what = f"executor {name!r}"
        if claim is None or not _is_of(claim, (Kind.EXECUTOR,)):
            specs = [spec for plugin in self.plugins() for spec in plugin.specs]
            names = {spec.name for spec in specs if spec.kind is Kind.EXECUTOR}
            installed = sorted({*built_in, *names})
            raise absent(
                what, Space.SPEC, name, plugins=self.plugins(), names=lambda space: installed
            )
        make: Callable[..., Any] = self._load(what, claim)
        return make

    def spec(self, name: str) -> PluginSpec:
        """Return the spec of a spec name or of a public name; imports nothing."""
        claim = self._claim(Space.SPEC, name) or self._find(Space.PUBLIC, name, repr(name))
        assert claim.spec is not None
        return claim.spec

    def open(self, uri: str | os.PathLike[str], /, **options: Any) -> Any:
        """Open the source of a URI or path, chosen by scheme or suffix, never by contents."""
        text = _text_of(uri)
        claim, path = self._choose(Uri.parse(text))
        target = self._load(f"the source for {text!r}", claim)
        from_uri = getattr(target, "from_uri", None)
        if from_uri is not None:
            return from_uri(text, **options)
        return target(path, **options)

    def source_spec(self, uri: str | os.PathLike[str], /) -> PluginSpec:
        """Return the spec of the source that `open` would choose; imports nothing."""
        claim, _ = self._choose(Uri.parse(_text_of(uri)))
        assert claim.spec is not None
        return claim.spec

    def writer(self, uri: str | os.PathLike[str], /) -> tuple[Callable[..., int], str]:
        """Return the function that writes files of the format of a URI or path, and the path for it."""
        text = _text_of(uri)
        written = sorted(
            suffix
            for plugin in self.plugins()
            for spec in plugin.specs
            if spec.writer
            for suffix in spec.suffixes
        )
        try:
            claim, path = self._choose(Uri.parse(text))
        except UnknownNameError:
            raise UnknownNameError(
                f"No installed plugin writes {text!r}. Suffixes that can be written: "
                f"{listed(written)}."
            ) from None
        assert claim.spec is not None
        if not claim.spec.writer:
            raise PluginUnusableError(
                f"{claim.plugin.provider} (plugin {claim.plugin.name!r}) reads {text!r} and has no"
                f" writer for it. Suffixes that can be written: {listed(written)}."
            )
        return self._load(f"the writer of {text!r}", claim, claim.spec.writer), path

    def decoder(self, uri: str | os.PathLike[str], /) -> Callable[[Any], Any] | None:
        """Return the function that decodes a source's records into elements, or None."""
        text = _text_of(uri)
        claim, _ = self._choose(Uri.parse(text))
        if claim.spec is None or not claim.spec.decoder:
            return None
        decode: Callable[[Any], Any] = self._load(
            f"the decoder of {text!r}", claim, claim.spec.decoder
        )
        return decode

    def conformance_cases(self, name: str) -> list[Any]:
        """Return the conformance cases of the plugin of this name."""
        plugin = self._find(Space.PLUGIN, name, f"plugin {name!r}").plugin
        candidate = self._scan().candidates.get(plugin.key)
        if candidate is None:  # registered by code, without hooks
            return []
        try:
            return read_cases(candidate.load())
        except ISOLATED as error:
            raise PluginUnusableError(
                f"The conformance cases of {plugin.provider} (plugin {name!r}) cannot be read:"
                f" {sentence(one_line(error))}"
            ) from error

    def load_all(self) -> tuple[Plugin, ...]:
        """Import every target, and return every plugin with its status afterwards."""
        for plugin in self.plugins():
            for spec in plugin.specs:
                for target in filter(None, (spec.target, spec.writer, spec.decoder)):
                    # A failure is recorded in the plugin's status.
                    with contextlib.suppress(PluginError):
                        self._load(repr(spec.name), Claim(plugin, spec), target)
        return self.plugins()

    # Registering.

    def register(self, spec: PluginSpec) -> None:
        """Add a spec that no package announces; registering the same spec again has no effect."""
        if not isinstance(spec, PluginSpec):
            raise TypeError(f"register() got {spec!r}, expected a grain.plugins.PluginSpec.")
        plugin = Plugin(name=spec.name, module=spec.target, specs=(spec,))
        with self._lock:
            if spec.name in self._registered:
                if self._registered[spec.name].specs == plugin.specs:
                    return
                raise DuplicatePluginError(
                    f"register() got another spec called {spec.name!r};"
                    f" call unregister({spec.name!r}) first."
                )
            everything = {**self._all(), plugin.key: plugin}
            judged = Claims(everything.values(), OWN_NAMES).judge(plugin)
            if judged.status is Status.DUPLICATE:
                raise DuplicatePluginError(
                    f"register() refuses {spec.name!r}: {sentence(judged.reason)}"
                    " Register it under other names."
                )
            self._registered[spec.name] = plugin
            self._claims = None

    def unregister(self, name: str) -> None:
        """Remove the spec that `register` added under this name."""
        with self._lock:
            if name not in self._registered:
                raise UnknownNameError(
                    f"unregister() got {name!r}. Registered: {listed(sorted(self._registered))}."
                )
            self._faults.pop(self._registered.pop(name).key, None)
            self._claims = None

    def refresh(self) -> None:
        """Discard what was discovered, so that the next use discovers plugins again."""
        importlib.invalidate_caches()
        with self._lock:
            self._found = None
            self._records = {}
            self._faults = {}
            self._claims = None

    # Internals.

    def _scan(self) -> _Found:
        """Find the entry points of plugins; runs none of their code."""
        with self._lock:
            if self._found is None:
                settings = self._read_settings()
                found = {c.key: c for c in find_candidates(self._read_distributions())}
                self._found = _Found(settings, found)
            return self._found

    def _discover(self, names: Collection[str] | None = None) -> _Found:
        """Read the specs of all plugins, or of those that may claim one of these names."""
        with self._lock:
            found = self._scan()
            for key, candidate in found.candidates.items():
                if key in self._records:
                    continue
                if names is None or candidate.name in names or mentions(candidate.module, names):
                    self._records[key] = self._read(candidate, found.settings)
                    self._claims = None
            return found

    def _read(self, candidate: Candidate, settings: Settings) -> Plugin:
        if self._discovering:
            raise PluginError(
                "A plugin used the plugin registry while plugins were being discovered. The module"
                " of its entry point may only return specs; move the rest into the module of"
                " its target."
            )
        self._discovering = True
        try:
            return read_plugin(candidate, settings=settings, core=self._core)
        finally:
            self._discovering = False

    def _all(self) -> dict[Key, Plugin]:
        return {**self._records, **{plugin.key: plugin for plugin in self._registered.values()}}

    def _indexed(self) -> Claims:
        with self._lock:
            if self._claims is None:
                self._claims = Claims(self._all().values(), OWN_NAMES)
            return self._claims

    def _ready(self, names: Collection[str] | None = None) -> Claims:
        """Return the claims of all plugins, or at least of those that may claim one of these names."""
        if self._scan().settings.strict and (problems := self.problems()):
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise PluginError(
                f"GRAIN_PLUGINS_STRICT is set, and these plugins have problems:\n{lines}\n"
                "See `grain plugins check`."
            )
        self._discover(names)
        return self._indexed()

    def _claim(self, space: Space, name: str) -> Claim | None:
        claim = self._ready([name]).find(space, name)
        return self._ready().find(space, name) if claim is None else claim

    def _find(self, space: Space, name: str, what: str) -> Claim:
        claim = self._claim(space, name)
        if claim is None:
            raise absent(what, space, name, plugins=self.plugins(), names=self._indexed().names)
        return claim

    def _choose(self, uri: Uri) -> tuple[Claim, str]:
        """Return the claim that opens the URI, and the path for its target."""
        for names in (uri.naming_texts(), None):
            claims = self._ready(names)
            for scheme, path in uri.readings():
                if (claim := claims.find(Space.SCHEME, scheme)) is not None:
                    return claim, path
            suffix = uri.suffix(claims.names(Space.SUFFIX))
            claim = claims.find(Space.SUFFIX, suffix)
            if claim is not None and claim.spec is not None:
                break
        else:
            raise unopenable(uri, plugins=self.plugins(), names=claims.names)
        assert claim is not None
        assert claim.spec is not None
        if uri.scheme == "file":
            return claim, uri.local_path()
        if uri.scheme and Capability.REMOTE_PATHS not in claim.spec.capabilities:
            raise PluginUnusableError(
                f"{claim.plugin.provider} reads {suffix} files from local paths only, and got"
                f" {uri.text!r}. Copy or mount the files, and give their path."
            )
        return claim, uri.text

    def _load(self, what: str, claim: Claim, target: str = "") -> Any:
        """Import the target of a spec, or its writer or decoder."""
        plugin, spec = claim.plugin, claim.spec
        assert spec is not None
        reference = target or spec.target
        try:
            loaded = load_object(reference)
        except ISOLATED as error:
            fault = replace(
                plugin,
                status=Status.FAILED,
                reason=f"importing {reference} raised {one_line(error)}",
                fix=repair_hint(plugin.distribution or "", spec.install),
                error=error,
            )
            self._record(plugin, reference, fault)
            raise unusable(what, fault) from error
        self._record(plugin, reference, None)
        return loaded

    def _record(self, plugin: Plugin, target: str, fault: Plugin | None) -> None:
        """Record the outcome of importing a target; a plugin with a broken target is failed."""
        with self._lock:
            faults = self._faults.setdefault(plugin.key, {})
            faults.pop(target, None)
            if fault is not None:
                faults[target] = fault
            loaded = replace(plugin, status=Status.LOADED, reason="", fix="", error=None)
            current = next(reversed(faults.values()), loaded)
            if plugin.key in self._records:
                self._records[plugin.key] = current
            elif plugin.name in self._registered:
                self._registered[plugin.name] = current


def _text_of(uri: str | os.PathLike[str]) -> str:
    text = os.fspath(uri)
    if not isinstance(text, str):
        raise TypeError(f"open() got {uri!r}, expected a URI or path as str or os.PathLike.")
    return text


def _is_of(claim: Claim | None, kinds: Collection[Kind] | None) -> bool:
    return kinds is None or (
        claim is not None and claim.spec is not None and claim.spec.kind in kinds
    )


@functools.cache
def default_manager() -> PluginManager:
    """Return the registry of this process, which all functions of `grain.plugins` use."""
    return PluginManager()


def attributes_of(
    module: str,
    *,
    kinds: Collection[Kind] | None = None,
    only: Collection[str] | None = None,
) -> PluginAttributes:
    """Return the plugins' names for a module's `__getattr__` and `__dir__`.

    Args:
        module: The module's name.
        kinds: Only things of these kinds become attributes; None for all.
        only: Only these names become attributes.

    Example:
        names = attributes_of(__name__, kinds=SOURCE_KINDS)

        def __getattr__(name):
            return names.get(name)

        def __dir__():
            return names.list()
    """
    return PluginAttributes(module, default_manager, kinds=kinds, only=only)


@functools.cache
def attributes_for(module: str) -> PluginAttributes:
    """Return the plugins' names that a module of the core has."""
    return {
        "grain": attributes_of("grain", only=KNOWN_NAMES),
        "grain.experimental": attributes_of("grain.experimental", only=["ParquetIterDataset"]),
        "grain.python": attributes_of("grain.python", kinds=SOURCE_KINDS),
        "grain.sources": attributes_of("grain.sources", kinds=SOURCE_KINDS),
        "grain.transforms": attributes_of("grain.transforms", kinds={Kind.TRANSFORM}),
    }[module]
