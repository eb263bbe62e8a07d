"""Pipelines on the command line: `train.py`, `train.py:dataset`, `package.module:make_dataset`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from grain.cli.command import CommandError, UsageError
from grain.cli.output import stdout_to_stderr
from grain.cli.source_reader import reason
from grain.dataset.node import DatasetNode

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
HELP = (
    "a script or module, with the name of a dataset, a DataLoader, or a function that returns one:"
    " train.py, train.py:dataset, package.module:make_dataset"
)


@dataclass(frozen=True)
class PipelineTarget:
    """A pipeline as named on the command line.

    Attributes:
        text: The argument.
        place: The path of a script, or the name of a module.
        attribute: The name in it; None to look for the only dataset.
    """

    text: str
    place: str
    attribute: str | None

    @property
    def is_script(self) -> bool:
        """Whether the place is a file."""
        return self.place.endswith(".py")


def parse_target(text: str) -> PipelineTarget | None:
    """Return the pipeline that an argument names; None if it is a path or URI of data.

    >>> parse_target("train.py:ds")
    PipelineTarget(text='train.py:ds', place='train.py', attribute='ds')
    >>> parse_target("package.data:make().") is None, parse_target("data.parquet") is None
    (True, True)
    """
    if "://" in text:
        return None
    if text.endswith(".py"):
        return PipelineTarget(text, text, None)
    place, colon, attribute = text.rpartition(":")
    if not colon or not _DOTTED.fullmatch(attribute) or os.path.exists(text):
        return None
    if place.endswith(".py") or _DOTTED.fullmatch(place):
        return PipelineTarget(text, place, attribute)
    return None


def load_pipeline(target: PipelineTarget) -> Any:
    """Return the dataset that a target names; raise `CommandError` for wrong input."""
    with stdout_to_stderr():
        module = _module(target)
        if target.attribute is None:
            return _only_dataset(module, target)
        value: Any = module
        for name in target.attribute.split("."):
            if not hasattr(value, name):
                raise CommandError(
                    f"{target.place} has no {target.attribute!r}; {_listed(module, target)}"
                )
            value = getattr(value, name)
        return _dataset(value, target)


def _module(target: PipelineTarget) -> ModuleType:
    try:
        if target.is_script:
            return _script(target.place)
        if "" not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(target.place)
    except CommandError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{target.place}.".startswith(f"{error.name}."):
            raise CommandError(
                f"There is no module {target.place!r} that Python finds from this folder. Give the"
                f" path of a script, such as train.py:{target.attribute or 'dataset'}."
            ) from None
        raise _failed(target, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(target, error) from error


def _script(path: str) -> ModuleType:
    """Import a script as a module, so that its part for `__main__` does not run."""
    if not os.path.isfile(path):
        raise CommandError(f"{path} is not a file.")
    folder, file = os.path.split(os.path.abspath(path))
    # As if the script were run: its folder comes first, for itself and for worker processes.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = file.removesuffix(".py")
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = f"script_{re.sub(r'[^0-9a-zA-Z_]', '_', name)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _failed(target: PipelineTarget, error: BaseException) -> CommandError:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    kind = type(error).__name__
    text = reason(error)
    said = text if text.startswith(kind) else f"{kind}: {text}"
    advice = ""
    if isinstance(error, SystemExit):
        advice = ' Put the part that runs the program below `if __name__ == "__main__":`.'
    return CommandError(f"{target.place} cannot be imported: {said}{where}.{advice}")


def _is_pipeline(value: Any) -> bool:
    return isinstance(value, DatasetNode) or isinstance(
        getattr(value, "dataset", None), DatasetNode
    )


def _datasets(module: ModuleType) -> dict[str, Any]:
    """Return the datasets of a module, without those that another one of them reads."""
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, type) and _is_pipeline(value)
    }
    inner: set[int] = set()
    for value in found.values():
        top = value if isinstance(value, DatasetNode) else value.dataset
        pending = list(top.parents) if top is value else [top]
        while pending:
            node = pending.pop()
            if id(node) not in inner:
                inner.add(id(node))
                pending.extend(node.parents)
    outer: dict[int, str] = {}
    for name, value in found.items():
        if id(value) not in inner:
            outer[id(value)] = name
    return {name: found[name] for name in outer.values()}


def _only_dataset(module: ModuleType, target: PipelineTarget) -> Any:
    datasets = _datasets(module)
    if len(datasets) == 1:
        return _dataset(next(iter(datasets.values())), target)
    raise CommandError(f"{target.place}: {_listed(module, target)}")


def _listed(module: ModuleType, target: PipelineTarget) -> str:
    names = sorted(_datasets(module))
    if names:
        choices = ", ".join(f"{target.place}:{name}" for name in names[:8])
        return f"give one of its datasets: {choices}."
    return (
        "it has no dataset at the top level. Name a function without arguments that returns one:"
        f" {target.place}:make_dataset."
    )


def _dataset(value: Any, target: PipelineTarget) -> Any:
    if not _is_pipeline(value) and callable(value) and not isinstance(value, type):
        missing = [
            parameter.name
            for parameter in inspect.signature(value).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if missing:
            raise UsageError(
                f"{target.text} needs the arguments {', '.join(missing)}. Name a function without"
                " arguments."
            )
        try:
            value = value()
        except Exception as error:
            raise _failed(target, error) from error
    if isinstance(value, DatasetNode):
        return value
    if _is_pipeline(value):
        return value.dataset
    raise CommandError(
        f"{target.text} is of type {type(value).__name__}; expected a MapDataset, an IterDataset, a"
        " DataLoader, or a function that returns one."
    )
