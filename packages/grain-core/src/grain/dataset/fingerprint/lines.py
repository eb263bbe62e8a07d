"""What a pipeline does, line by line: kept beside a state, so that a changed pipeline is noticed.

A line has a kind, by which a change of it can be allowed. Who computes (workers, threads, buffers)
changes no element and is not described.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np

from grain.dataset.fingerprint.operation_text import ARGUMENTS, call_text
from grain.dataset.fingerprint.stable_text import stable_line, stable_text

KINDS = ("source", "file", "sampler", "shard", "operation", "component", "weights")

# With more files than these, or more datasets in one, their number and a digest stand for them.
_MOST_FILES = 256
_LINE = re.compile(r"((?:\[.*?\] )*)(\w+): (.*)")
_PLACE = re.compile(r"\[(.*?)\] ")


class Line(NamedTuple):
    """One line of a description.

    Attributes:
      kind: one of `KINDS`.
      text: what it says.
      place: the component of each mixture that it belongs to, outermost first.
    """

    kind: str
    text: str
    place: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "".join(f"[{_as_name(name)}] " for name in self.place) + f"{self.kind}: {self.text}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads what `str` wrote.

        >>> Line.parse("[a] source: range(0, 3)")
        Line(kind='source', text='range(0, 3)', place=('a',))
        """
        found = _LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"A line of a description is `kind: text`, got {text!r}.")
        names = _PLACE.findall(found[1])
        return cls(found[2], found[3], tuple(_from_name(name) for name in names))


def _as_name(name: str) -> str:
    if name and name.isprintable() and not set(name) & set('[]"\\'):
        return name
    return json.dumps(name).replace("[", "\\u005b").replace("]", "\\u005d")


def _from_name(name: str) -> str:
    return str(json.loads(name)) if name.startswith('"') else name


def describe(dataset: Any) -> list[Line]:
    """The lines of a dataset, from its sources to its last operation.

    >>> import grain
    >>> for line in describe(grain.MapDataset.range(9).shuffle(seed=1).batch(2)):
    ...     print(line)
    source: range(0, 9)
    operation: shuffle(seed=1)
    operation: batch(batch_size=2)
    """
    return list(_lines(dataset))


def describe_source(source: Any) -> list[Line]:
    """The lines of a data source."""
    if isinstance(source, (list, tuple, str, bytes, dict)):
        return [Line("source", f"{type(source).__qualname__} of {len(source)}")]
    if isinstance(source, range):
        return [Line("source", repr(source))]
    if isinstance(source, np.ndarray):
        return [Line("source", f"array(shape={source.shape}, dtype={source.dtype})")]
    count = f", {len(source)} records" if hasattr(type(source), "__len__") else ""
    files = getattr(source, "paths", None)
    # Their text may be a digest of files; paths say which of them it is.
    more = _file_lines(files) if _is_files(files) else []
    return [Line("source", stable_text(source) + count), *more]


def _is_files(files: Any) -> TypeGuard[Sequence[Any]]:
    return (
        isinstance(files, (list, tuple))
        and bool(files)
        and all(isinstance(file, str) or hasattr(file, "__fspath__") for file in files)
    )


def _file_lines(files: Sequence[Any]) -> list[Line]:
    if len(files) > _MOST_FILES:
        return [Line("file", stable_text([str(file) for file in files]))]
    return [Line("file", stable_line(str(file))) for file in files]


def _lines(dataset: Any) -> Iterator[Line]:
    name = _known_name(dataset)
    if name in _SPECIAL:
        yield from _SPECIAL[name](dataset)
        return
    if len(dataset._parents) == 1:
        yield from _lines(dataset._parents[0])
    else:
        yield from _at_places(enumerate(dataset._parents))
    if not dataset._parents:
        yield from _unknown_source(dataset)
    elif name in ARGUMENTS:
        yield Line("operation", call_text(*ARGUMENTS[name](dataset)))
    elif name is None:
        yield Line("operation", _own_text(dataset))
    else:
        yield Line("operation", name)


def _known_name(dataset: Any) -> str | None:
    """The class of this library that an operation is or extends; None for a class of one's own."""
    for kind in type(dataset).__mro__:
        if kind.__name__ in _SPECIAL or kind.__name__ in ARGUMENTS:
            return kind.__name__
    kind = type(dataset)
    return kind.__name__ if kind.__module__.startswith("grain.") else None


def _own_text(dataset: Any) -> str:
    """A dataset class of a user's own: what it says of itself, or its name."""
    kind: Any = type(dataset)
    if dataclasses.is_dataclass(dataset):
        given = [f for f in dataclasses.fields(dataset) if f.repr and not f.name.startswith("_")]
        return call_text(kind.__qualname__, {f.name: getattr(dataset, f.name) for f in given})
    if not kind.__str__.__module__.startswith("grain.") or kind.__repr__ is not object.__repr__:
        return stable_line(str(dataset))
    return str(kind.__qualname__)


def _at_places(parts: Iterable[tuple[Any, Any]]) -> Iterator[Line]:
    each = list(parts)
    placed = (
        line._replace(place=(str(name), *line.place))
        for name, dataset in each
        for line in _lines(dataset)
    )
    if len(each) <= _MOST_FILES:
        yield from placed
    else:
        yield Line("source", f"{len(each)} datasets: {stable_text([str(line) for line in placed])}")


# --- sources, and what reads from several datasets or none ---------------------------------------


def _unknown_source(dataset: Any) -> Iterator[Line]:
    kind = type(dataset)
    files = getattr(dataset, "_paths", getattr(dataset, "paths", None))
    if _is_files(files):
        yield Line("source", kind.__qualname__)
        yield from _file_lines(files)
        return
    # The length of an iter dataset may cost the reading of it.
    count = f", {len(dataset)} records" if hasattr(dataset, "__getitem__") else ""
    yield Line("source", _own_text(dataset) + count)


def _sampled(dataset: Any) -> Iterator[Line]:
    yield from describe_source(dataset._records._source)
    yield Line("sampler", stable_text(dataset._sampler))
    shard = dataset._shard
    yield Line("shard", f"{shard.shard_index} of {shard.shard_count}")


def _mixed_iter(dataset: Any) -> Iterator[Line]:
    names, weights = dataset._names, dataset._proportions
    yield from _at_places(zip(names or range(len(weights)), dataset._parents, strict=True))
    if names is None:
        yield Line("operation", f"mix(weights={stable_text(weights)})")
        return
    yield Line("component", f"mix of {', '.join(map(_as_name, names))}")
    yield Line("weights", stable_text(dict(zip(names, weights, strict=True))))


def _mixed_map(dataset: Any) -> Iterator[Line]:
    names = dataset._names or range(len(dataset._parents))
    yield from _at_places(zip(names, dataset._parents, strict=True))
    yield Line("operation", f"mix(weights={stable_text(list(dataset._mixture.weights))})")


def _changed_map(dataset: Any) -> Iterator[Line]:
    yield from _lines(dataset._before)
    since = f"from {dataset._index}"
    known = _components(dataset._before)
    yield from _at_places(
        (f"{name}, {since}", part)
        for name, part in _own_components(dataset).items()
        if name not in known or describe(known[name]) != describe(part)
    )
    yield Line("component", f"{since}: mix of {', '.join(map(_as_name, dataset._names))}")
    weights = dict(zip(dataset._names, dataset._mixture.weights, strict=True))
    yield Line("weights", f"{since}: {stable_text(weights)}")


def _own_components(mixed: Any) -> dict[str, Any]:
    """The components of a mixture, those of its last stretch if it changes, by name."""
    return dict(zip(mixed._names, mixed._parents[-len(mixed._names) :], strict=True))


def _components(mixed: Any) -> dict[str, Any]:
    """The components of all stretches of a mixture, as they were last."""
    earlier = _components(mixed._before) if hasattr(mixed, "_before") else {}
    return earlier | _own_components(mixed)


def _interleaved(dataset: Any) -> Iterator[Line]:
    datasets = dataset._datasets
    if isinstance(datasets, (list, tuple)):
        yield from _at_places(enumerate(datasets))
    elif hasattr(datasets, "_parents"):
        yield from _lines(datasets)
    else:
        yield Line("source", f"{type(datasets).__qualname__} of {len(datasets)} datasets")
    yield Line("operation", call_text("interleave", {"cycle_length": dataset._cycle_length}))


def _elastic(dataset: Any) -> Iterator[Line]:
    # Which share of each batch is whose may change from one run to the next.
    yield from _lines(dataset._ds)
    made = dataset._make
    arguments = {
        "global_batch_size": dataset._global_batch_size,
        "remainder": made.remainder,
        "batch_fn": made.batch_fn,
    }
    yield Line("operation", call_text("elastic", arguments))


def _to_iter(dataset: Any) -> Iterator[Line]:
    yield from _lines(dataset._parent)
    if dataset._allow_nones:
        yield Line("operation", "to_iter_dataset(allow_nones=True)")


def _transparent(dataset: Any) -> Iterator[Line]:
    yield from _lines(dataset._parent)


_SPECIAL: dict[str, Callable[[Any], Iterator[Line]]] = {
    "SourceMapDataset": lambda ds: iter(describe_source(ds._source)),
    "RangeMapDataset": lambda ds: iter([Line("source", repr(ds._range))]),
    "TFRecordIterDataset": lambda ds: iter([Line("file", str(ds._path))]),
    "SampledMapDataset": _sampled,
    "MixedMapDataset": _mixed_map,
    "ChangedMapDataset": _changed_map,
    "MixedIterDataset": _mixed_iter,
    "InterleaveIterDataset": _interleaved,
    "ElasticIterator": _elastic,
    "PrefetchIterDataset": _to_iter,
    "PlacedIterDataset": _transparent,
    "ProcessPrefetchIterDataset": _transparent,
    "ThreadPrefetchIterDataset": _transparent,
    "TunedIterDataset": _transparent,
    "WithOptionsIterDataset": _transparent,
}
