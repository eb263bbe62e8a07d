"""Ctrl-C while the text of a sampler or a source is made: later states have the same text as before."""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import grain
from grain.dataset.fingerprint.complete_text import complete_text

from ..helpers.pipelines import INLINE


@dataclasses.dataclass(frozen=True)
class Order:
    """Options of a user's sampler."""

    count: int
    shard: grain.sharding.ShardOptions


@dataclasses.dataclass
class DataclassSampler:
    """A sampler with the `repr` of dataclasses, which shows another one."""

    order: Order

    @property
    def _shard_options(self) -> grain.sharding.ShardOptions:
        return self.order.shard

    def __getitem__(self, index: int) -> grain.RecordMetadata:
        if index >= self.order.count:
            raise IndexError
        return grain.RecordMetadata(index=index, record_key=index)


class PlainSampler(DataclassSampler):
    """A sampler whose own `repr` shows a dataclass."""

    def __repr__(self) -> str:
        return f"PlainSampler of {[self.order]}"


@dataclasses.dataclass(frozen=True)
class DataclassSource:
    """A source with the `repr` of dataclasses."""

    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class Named:
    """A source whose own `repr` shows a dataclass."""

    def __init__(self, of: DataclassSource):
        self.of = of

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, index: int) -> int:
        return self.of[index]

    def __repr__(self) -> str:
        return f"Named({self.of!r})"


SHARD = grain.sharding.NoSharding()
SAMPLERS_AND_SOURCES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "this library's": lambda: (
        grain.samplers.IndexSampler(12, shuffle=True, seed=1, num_epochs=1),
        grain.sources.RangeDataSource(0, 12, 1),
    ),
    "dataclasses": lambda: (DataclassSampler(Order(12, SHARD)), DataclassSource(12)),
    "showing dataclasses": lambda: (PlainSampler(Order(12, SHARD)), Named(DataclassSource(12))),
}


def interrupted(at: int, function: Callable[..., Any], *arguments: Any) -> bool:
    """Call a function, interrupted where a signal can be handled for the `at`-th time."""
    left = at

    def interrupt(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if not left:
                raise KeyboardInterrupt

    hook = interrupt
    gc.disable()  # The interpreter drops an interrupt of a callback of the collector.
    sys.setprofile(hook)
    try:
        function(*arguments)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return False


def texts(iterator: Any) -> tuple[bytes, dict[str, Any]]:
    return iterator.get_state(), iterator.state_dict()


@pytest.mark.parametrize("call", ["get_state", "set_state", "state_dict"])
@pytest.mark.parametrize("name", SAMPLERS_AND_SOURCES)
def test_later_states_are_the_same_wherever_a_call_is_interrupted(name: str, call: str) -> None:
    sampler, source = SAMPLERS_AND_SOURCES[name]()

    def fresh() -> Any:
        made = grain.DataLoader(data_source=source, sampler=sampler, read_options=INLINE)
        iterator = iter(made)
        next(iterator)
        return iterator

    good = texts(fresh())
    assert b"..." not in good[0]
    arguments = (good[0],) if call == "set_state" else ()
    at = 1
    while True:
        iterator = fresh()
        struck = interrupted(at, getattr(iterator, call), *arguments)
        assert texts(iterator) == good, f"after an interrupt at {at}"
        iterator.set_state(good[0])
        assert texts(fresh()) == good, f"another iterator, after an interrupt at {at}"
        if not struck:
            break
        at += 1
    assert at > 10


class Adding(grain.transforms.Map):
    """A transform whose own `repr` shows a dataclass."""

    def __init__(self, order: Order):
        self.order = order

    def map(self, element: Any) -> Any:
        return element

    def __repr__(self) -> str:
        return f"Adding({self.order!r})"


def test_fingerprints_of_datasets_are_the_same_wherever_one_is_interrupted() -> None:
    ds = grain.MapDataset.source(Named(DataclassSource(5))).map(Adding(Order(5, SHARD)))
    good = iter(ds.to_iter_dataset(INLINE)).state_dict()
    at, struck = 1, True
    while struck:
        iterator = iter(ds.to_iter_dataset(INLINE))
        struck = interrupted(at, iterator.state_dict)
        assert iterator.state_dict() == good
        at += 1
    assert at > 10


def test_the_texts_of_shards_and_ranges_are_those_of_dataclasses() -> None:
    class Subclass(grain.sharding.ShardOptions):
        pass

    shard = grain.sharding.ShardOptions(1, 3, True)
    assert repr(shard) == "ShardOptions(shard_index=1, shard_count=3, drop_remainder=True)"
    assert repr(SHARD) == "NoSharding(shard_index=0, shard_count=1, drop_remainder=False)"
    assert repr(Subclass(0, 1)).startswith(f"{Subclass.__qualname__}(shard_index=0, ")
    assert (
        repr(grain.sources.RangeDataSource(0, 9, 2)) == "RangeDataSource(start=0, stop=9, step=2)"
    )


class Abbreviated:
    """An object whose text has dots, and which counts where it is made."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __repr__(self) -> str:
        self.threads.append(threading.get_ident())
        return "Abbreviated(1, 2, ...)"


def test_a_text_with_dots_of_its_own_is_kept() -> None:
    value = Abbreviated()
    assert complete_text(value) == "Abbreviated(1, 2, ...)"
    assert complete_text(value, str) == "Abbreviated(1, 2, ...)"
    assert value.threads[0] == threading.get_ident()


def test_an_error_of_the_second_text_is_raised() -> None:
    class Once(Abbreviated):
        def __repr__(self) -> str:
            if self.threads:
                raise ValueError("no text")
            return super().__repr__()

    with pytest.raises(ValueError, match="no text"):
        complete_text(Once())


def test_a_text_with_dots_needs_no_thread_where_none_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr("_thread.start_new_thread", fail)
    assert complete_text(Abbreviated()) == "Abbreviated(1, 2, ...)"
