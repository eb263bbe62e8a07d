"""Probe of a case in a subprocess: one new interpreter per case, whose observations serve several checks.

The subprocess has a different hash seed. It reads an instance that arrives as a pickle and an instance
that it makes itself.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from grain.plugins.discovery import Settings, read_plugin
from grain.testing.case import Case, CaseKind
from grain.testing.compare import snapshot
from grain.testing.transform_calls import apply_all
from grain.version import __version__

# Below the time limit of the check that waits for the subprocess.
_TIMEOUT_FRACTION = 0.9
_PROGRAM = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from grain.testing.subprocess_probe import main\n"
    "main(sys.argv[2], sys.argv[3])\n"
)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Result of reading one instance in the subprocess.

    Attributes:
        elements: The elements, pickled.
        text: The instance's repr, or the fingerprint of a dataset.
        error: The traceback, when making or reading the instance failed.
    """

    elements: bytes = b""
    text: str = ""
    error: str = ""

    def read(self, what: str) -> list[Any]:
        """Return the elements; raise an AssertionError when reading failed."""
        if self.error:
            raise AssertionError(f"{what} failed in a new process:\n{self.error}")
        elements: list[Any] = pickle.loads(self.elements)
        return elements


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """All observations of one subprocess.

    Attributes:
        made: The instance made by the subprocess.
        sent: The instance unpickled by the subprocess.
        eager_imports: For a plugin, the modules that listing the plugin imported.
    """

    made: Observation
    sent: Observation
    eager_imports: tuple[str, ...] = ()


def probe_subprocess(
    case: Case, directory: str | None, indices: Sequence[int] | None, stream_limit: int
) -> ProbeResult:
    """Start the subprocess and return its observations."""
    job: dict[str, Any] = {
        "indices": None if indices is None else list(indices),
        "stream_limit": stream_limit,
    }
    timeout = _TIMEOUT_FRACTION * case.check_timeout
    arguments = () if directory is None else (directory,)
    job["case"] = _dumps_by_value((case.kind, case.make, arguments, list(case.inputs)))
    kept = None  # stays alive while the subprocess reads: shared memory may belong to the instance
    if case.kind is not CaseKind.PLUGIN:
        try:
            kept = case.make(*arguments)
            job["instance"] = _dumps_by_value(kept)
        except Exception:
            job["error"] = traceback.format_exc(limit=-3)
    with tempfile.TemporaryDirectory(prefix="grain-probe-") as folder:
        job_path, result_path = os.path.join(folder, "job"), os.path.join(folder, "result")
        with open(job_path, "wb") as file:
            pickle.dump(job, file)
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), job_path, result_path]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONHASHSEED": _different_hash_seed()},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _failed(f"The process did not end within {timeout:.3g} s.")
        if done.returncode or not os.path.exists(result_path):
            output = done.stderr.decode(errors="replace").strip()[-2000:]
            return _failed(f"The process ended with exit code {done.returncode}:\n{output}")
        with open(result_path, "rb") as file:
            result: ProbeResult = pickle.load(file)
    del kept
    return result


def main(job_path: str, result_path: str) -> None:
    """Run in the subprocess: read the job, and write the observations."""
    with open(job_path, "rb") as file:
        job = pickle.load(file)
    kind, make, arguments, inputs = pickle.loads(job["case"])
    if kind is CaseKind.PLUGIN:
        imports = _eager_imports(make)
        result = ProbeResult(made=Observation(), sent=Observation(), eager_imports=imports)
    else:

        def observe(instance: Callable[[], Any]) -> Observation:
            return _observe(instance, kind, job, inputs)

        # The pickled instance first: `make` may set module state that hides what a pickle lacks.
        error = job.get("error")
        sent = Observation(error=error) if error else observe(lambda: pickle.loads(job["instance"]))
        result = ProbeResult(sent=sent, made=observe(lambda: make(*arguments)))
    with open(result_path, "wb") as output:
        pickle.dump(result, output)


def _observe(
    make: Callable[[], Any], kind: CaseKind, job: Mapping[str, Any], inputs: Sequence[Any]
) -> Observation:
    try:
        instance = make()
        if kind.is_indexed:
            elements = [snapshot(instance[index]) for index in job["indices"]]
        elif kind is CaseKind.TRANSFORM:
            elements = [snapshot(result) for result in apply_all(instance, copy.deepcopy(inputs))]
        else:
            elements = [snapshot(each) for each in itertools.islice(instance, job["stream_limit"])]
        text = fingerprint_text(instance) if kind.is_dataset else repr(instance)
        return Observation(elements=_dumps_by_value(elements), text=text)
    except Exception:
        return Observation(error=traceback.format_exc(limit=-3))


def fingerprint_text(dataset: Any) -> str:
    """Return the fingerprint of a dataset as text; empty for an object that is no dataset."""
    return "\n".join(map(str, dataset.fingerprint())) if hasattr(dataset, "fingerprint") else ""


def _failed(error: str) -> ProbeResult:
    return ProbeResult(made=Observation(error=error), sent=Observation(error=error))


def dumps(value: Any) -> bytes:
    """Pickle as for worker processes: cloudpickle takes what pickle refuses, such as a lambda."""
    try:
        return pickle.dumps(value)
    except Exception:
        return _dumps_by_value(value)


def _dumps_by_value(value: Any) -> bytes:
    """Pickle by value where there is no module to import from, as in a notebook."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _eager_imports(make: Callable[[], Any]) -> tuple[str, ...]:
    plugin = read_plugin(make(), settings=Settings(), core=__version__)
    return plugin.eager_imports


def _different_hash_seed() -> str:
    return "20260" if os.environ.get("PYTHONHASHSEED") != "20260" else "20261"
