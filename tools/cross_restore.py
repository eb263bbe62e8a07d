"""Write checkpoints with the installed `grain`, or restore those of another.

`write FOLDER` saves many pipelines at several steps with Orbax, and the elements that follow.
`restore FOLDER` restores all of them and compares; it prints a table, and fails on differences that are
not known limits. `record FILE` writes only the states into one file, as tests keep them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import json
import logging
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "packages/grain-core/tests/checkpoint"))

import orbax.checkpoint as ocp
import pipelines

import grain


def installed() -> tuple[str, str]:
    """Return the distribution of `import grain`, and its version."""
    for name in (pipelines.HERE, pipelines.THERE):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise SystemExit("No distribution of grain is installed.")


def take(iterator: Any) -> list[Any]:
    """Return the elements that are compared."""
    return [pipelines.as_json(e) for e in itertools.islice(iterator, pipelines.AFTER)]


def close(iterator: Any) -> None:
    """Close an iterator, if it can be closed."""
    getattr(iterator, "close", lambda: None)()


def at_steps(name: str) -> Iterator[tuple[int, Any]]:
    """Yield an iterator of a pipeline at each step, which the caller may exhaust."""
    for step in pipelines.steps(name):
        iterator = iter(pipelines.PIPELINES[name]())
        for _ in range(step):
            next(iterator)
        yield step, iterator
        close(iterator)


def write(folder: pathlib.Path) -> None:
    """Save all pipelines with Orbax."""
    for name in pipelines.PIPELINES:
        expected = {}
        with ocp.CheckpointManager(folder / name) as manager:
            for step, iterator in at_steps(name):
                args = ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator))
                manager.save(step, args=args)
                expected[step] = take(iterator)
        (folder / f"{name}.json").write_text(json.dumps(expected))


def record(file: pathlib.Path) -> None:
    """Save all pipelines with only the handler: for each step its file, and the following elements."""
    recorded: dict[str, dict[int, Any]] = {}
    for name in pipelines.PIPELINES:
        for step, iterator in at_steps(name):
            with tempfile.TemporaryDirectory() as folder:
                grain.checkpoint.CheckpointHandler().save(pathlib.Path(folder), iterator)
                text = (pathlib.Path(folder) / "process_0-of-1.json").read_text()
            entry = {"file": text, "following": take(iterator)}
            recorded.setdefault(name, {})[step] = entry
    lines = [
        f'"{name}": {{\n'
        + ",\n".join(f'  "{step}": {json.dumps(entry)}' for step, entry in steps.items())
        + "\n}"
        for name, steps in recorded.items()
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def restore(folder: pathlib.Path, distribution: str) -> int:
    """Restore all pipelines; return the number of failures."""
    failed = 0
    for name, make in pipelines.PIPELINES.items():
        expected = json.loads((folder / f"{name}.json").read_text())
        problems = {}
        with ocp.CheckpointManager(folder / name) as manager:
            for step in pipelines.steps(name):
                problem = restore_step(manager, step, iter(make()), expected[str(step)])
                if problem:
                    problems[step] = problem
        reason = pipelines.LIMITS.get((distribution, name))
        if problems and reason is None:
            outcome, failed = "FAILED", failed + 1
        elif reason is not None and not problems:
            outcome, failed = "FAILED: expected to be impossible", failed + 1
        else:
            outcome = "same" if not problems else f"cannot: {reason}"
        print(f"  {name:28} {outcome}")
        for step, problem in problems.items():
            print(f"    after {step}: {problem}")
    return failed


def restore_step(manager: Any, step: int, iterator: Any, expected: list[Any]) -> str:
    """Restore one step; return the problem, if any."""
    try:
        args = ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(iterator))
        manager.restore(step, args=args)
        following = take(iterator)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        close(iterator)
    return "" if following == expected else f"got {following}, expected {expected}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "restore", "record"])
    parser.add_argument("path", type=pathlib.Path)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    distribution, version = installed()
    print(f"{given.action} with {distribution} {version}, Orbax {ocp.__version__}")
    if distribution == pipelines.THERE:
        # Its workers need flags that only a program of that framework parses.
        importlib.import_module("absl.flags").FLAGS.mark_as_parsed()
    path = given.path.absolute()
    if given.action == "restore":
        return 1 if restore(path, distribution) else 0
    (write if given.action == "write" else record)(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
