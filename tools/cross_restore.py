"""Writes checkpoints with the `grain` that is installed, or restores those of another.

`write FOLDER` saves pipelines of many kinds at several steps with Orbax, and notes what follows.
`restore FOLDER` restores all of that and compares; it prints a table, and fails on what is not known
to be impossible. `record FILE` writes the states alone into one file, as tests keep them.
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
    """The distribution that `import grain` comes from, and its version."""
    for name in (pipelines.HERE, pipelines.THERE):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise SystemExit("No distribution of grain is installed.")


def taken(iterator: Any) -> list[Any]:
    """The elements that are compared."""
    return [pipelines.as_json(e) for e in itertools.islice(iterator, pipelines.AFTER)]


def closed(iterator: Any) -> None:
    """Ends the workers of an iterator, where it can."""
    getattr(iterator, "close", lambda: None)()


def at_steps(name: str) -> Iterator[tuple[int, Any]]:
    """An iterator of a pipeline at each step, which may then be used up."""
    for step in pipelines.steps(name):
        iterator = iter(pipelines.PIPELINES[name]())
        for _ in range(step):
            next(iterator)
        yield step, iterator
        closed(iterator)


def write(folder: pathlib.Path) -> None:
    """Saves all pipelines with Orbax."""
    for name in pipelines.PIPELINES:
        expected = {}
        with ocp.CheckpointManager(folder / name) as manager:
            for step, iterator in at_steps(name):
                args = ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator))
                manager.save(step, args=args)
                expected[step] = taken(iterator)
        (folder / f"{name}.json").write_text(json.dumps(expected))


def record(file: pathlib.Path) -> None:
    """Saves all pipelines with the handler alone: for each step its file, and what follows."""
    recorded: dict[str, dict[int, Any]] = {}
    for name in pipelines.PIPELINES:
        for step, iterator in at_steps(name):
            with tempfile.TemporaryDirectory() as folder:
                grain.checkpoint.CheckpointHandler().save(pathlib.Path(folder), iterator)
                text = (pathlib.Path(folder) / "process_0-of-1.json").read_text()
            entry = {"file": text, "following": taken(iterator)}
            recorded.setdefault(name, {})[step] = entry
    lines = [
        f'"{name}": {{\n'
        + ",\n".join(f'  "{step}": {json.dumps(entry)}' for step, entry in steps.items())
        + "\n}"
        for name, steps in recorded.items()
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def restore(folder: pathlib.Path, who: str) -> int:
    """Restores all pipelines; returns how many failed."""
    failed = 0
    for name, make in pipelines.PIPELINES.items():
        expected = json.loads((folder / f"{name}.json").read_text())
        problems = {}
        with ocp.CheckpointManager(folder / name) as manager:
            for step in pipelines.steps(name):
                problem = restored(manager, step, iter(make()), expected[str(step)])
                if problem:
                    problems[step] = problem
        reason = pipelines.LIMITS.get((who, name))
        if problems and reason is None:
            outcome, failed = "FAILED", failed + 1
        elif reason is not None and not problems:
            outcome, failed = "FAILED: it was said to be impossible", failed + 1
        else:
            outcome = "same" if not problems else f"cannot: {reason}"
        print(f"  {name:28} {outcome}")
        for step, problem in problems.items():
            print(f"    after {step}: {problem}")
    return failed


def restored(manager: Any, step: int, iterator: Any, expected: list[Any]) -> str:
    """Restores one step; returns what is wrong, if anything."""
    try:
        args = ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(iterator))
        manager.restore(step, args=args)
        following = taken(iterator)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        closed(iterator)
    return "" if following == expected else f"gave {following}, expected {expected}"


def main() -> int:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "restore", "record"])
    parser.add_argument("place", type=pathlib.Path)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    who, version = installed()
    print(f"{given.action} with {who} {version}, Orbax {ocp.__version__}")
    if who == pipelines.THERE:
        # Its workers ask for flags that only a program of that framework parses.
        importlib.import_module("absl.flags").FLAGS.mark_as_parsed()
    place = given.place.absolute()
    if given.action == "restore":
        return 1 if restore(place, who) else 0
    (write if given.action == "write" else record)(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
