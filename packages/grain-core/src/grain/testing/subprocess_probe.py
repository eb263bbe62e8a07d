"""The other process: one new interpreter per case, whose observations serve several checks.

It is started with another hash seed, makes the case's source itself, and loads a pickled one.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from grain.plugins.discovery import read_plugin
from grain.plugins.settings import Settings
from grain.testing.apply import apply_all
from grain.testing.case import Case, CaseKind
from grain.testing.compare import snapshot
from grain.version import __version__

_SECONDS = 120
_PROGRAM = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from grain.testing.subprocess_probe import main\n"
    "main(sys.argv[2], sys.argv[3])\n"
)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the other process saw of one instance.

    Attributes:
        elements: What it gave, pickled.
        text: Its repr.
        error: What went wrong instead, with a traceback.
    """

    elements: bytes = b""
    text: str = ""
    error: str = ""

    def read(self, what: str) -> list[Any]:
        """The elements; raises an AssertionError when there are none because of an error."""
        if self.error:
            raise AssertionError(f"{what} failed there:\n{self.error}")
        elements: list[Any] = pickle.loads(self.elements)
        return elements


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """All that the other process saw.

    Attributes:
        made: The instance that it made itself.
        sent: The instance that it was sent as a pickle.
        eager_imports: For a plugin, what merely listing it imported.
    """

    made: Observation
    sent: Observation
    eager_imports: tuple[str, ...] = ()


def probe_subprocess(
    case: Case, directory: str | None, indices: Sequence[int] | None
) -> ProbeResult:
    """Starts the other process and waits for what it saw."""
    job: dict[str, Any] = {"indices": None if indices is None else list(indices)}
    place = () if directory is None else (directory,)
    job["case"] = _dumps((case.kind, case.make, place, list(case.inputs)))
    kept = None  # alive as long as the other process reads: some sources are attached to it
    if case.kind is not CaseKind.PLUGIN:
        try:
            kept = case.make(*place)
            job["instance"] = _dumps(kept)
        except Exception:
            job["error"] = traceback.format_exc(limit=-3)
    with tempfile.TemporaryDirectory(prefix="grain-probe-") as folder:
        given, seen = os.path.join(folder, "job"), os.path.join(folder, "seen")
        with open(given, "wb") as file:
            pickle.dump(job, file)
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), given, seen]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": _another_hash_seed()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode or not os.path.exists(seen):
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            error = f"The other process ended with exit code {done.returncode}. It said:\n{said}"
            return ProbeResult(made=Observation(error=error), sent=Observation(error=error))
        with open(seen, "rb") as file:
            observed: ProbeResult = pickle.load(file)
    del kept
    return observed


def main(given: str, seen: str) -> None:
    """What runs in the other process."""
    with open(given, "rb") as file:
        job = pickle.load(file)
    kind, make, place, inputs = pickle.loads(job["case"])
    if kind is CaseKind.PLUGIN:
        observed = ProbeResult(
            made=Observation(), sent=Observation(), eager_imports=_eager_imports(make)
        )
    else:

        def look(instance: Callable[[], Any]) -> Observation:
            return _look(instance, kind, job["indices"], inputs)

        # First what was sent: what the other made may leave something behind that helps it.
        error = job.get("error")
        sent = Observation(error=error) if error else look(lambda: pickle.loads(job["instance"]))
        observed = ProbeResult(sent=sent, made=look(lambda: make(*place)))
    with open(seen, "wb") as answer:
        pickle.dump(observed, answer)


def _look(
    make: Callable[[], Any], kind: CaseKind, indices: Sequence[int], inputs: Sequence[Any]
) -> Observation:
    try:
        instance = make()
        if kind is CaseKind.MAP_SOURCE:
            elements = [snapshot(instance[index]) for index in indices]
        elif kind is CaseKind.TRANSFORM:
            elements = [snapshot(result) for result in apply_all(instance, copy.deepcopy(inputs))]
        else:
            elements = [snapshot(element) for element in instance]
        return Observation(elements=_dumps(elements), text=repr(instance))
    except Exception:
        return Observation(error=traceback.format_exc(limit=-3))


def _dumps(value: Any) -> bytes:
    """By value where there is no module to import it from, as in a notebook."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _eager_imports(make: Callable[[], Any]) -> tuple[str, ...]:
    plugin = read_plugin(make(), settings=Settings(), core=__version__)
    return plugin.eager_imports


def _another_hash_seed() -> str:
    """A hash seed that is not this process's, whatever that is."""
    return "20260" if os.environ.get("PYTHONHASHSEED") != "20260" else "20261"
