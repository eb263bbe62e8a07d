"""Loaders: `DataLoader` and `mp_prefetch` return the records of the source, with workers too."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from grain.dataset.base import MapDataset
from grain.loader.data_loader import DataLoader
from grain.options import MultiprocessingOptions, ReadOptions
from grain.plugins.spec import Capability
from grain.samplers import IndexSampler
from grain.testing.compare import expect_same, expect_same_all, snapshot
from grain.testing.sampling import MOST_STREAM_ELEMENTS, sample_steps
from grain.testing.subject import NotApplicable, Subject

_SHARDS = 3
_WORKERS = 2


def check_loader_order(subject: Subject) -> None:
    """Check that a `DataLoader` returns the records in the order of its sampler.

    Fix the failures listed above first: they are usually the cause.
    """
    source = subject.fresh()
    _expect_records(source)
    expected = _in_sampled_order(source)
    with iter(_loader(subject, source, 0)) as iterator:
        expect_same_all(expected, _first(iterator), "a loader without workers")


def check_loader_resume(subject: Subject) -> None:
    """Check that a `DataLoader` resumes from each of its states with the same records.

    Records must depend on their index alone, and `repr(source)`, which is in the state, on the data.
    """
    _expect_records(subject.fresh())
    with iter(_loader(subject, subject.fresh(), 0)) as iterator:
        states, elements = [iterator.get_state()], []
        for element in itertools.islice(iterator, MOST_STREAM_ELEMENTS):
            elements.append(snapshot(element))
            states.append(iterator.get_state())
    for step in sample_steps(len(states)):
        # A new source, as after a restart.
        with iter(_loader(subject, subject.fresh(), 0)) as resumed:
            try:
                resumed.set_state(states[step])
            except Exception as error:
                raise AssertionError(
                    f"the state after {step} records was refused: {error}"
                ) from error
            rest = _first(resumed, MOST_STREAM_ELEMENTS - step)
        expect_same_all(elements[step:], rest, f"resumed after {step} records")


def check_loader_workers(subject: Subject) -> None:
    """Check that a `DataLoader` with two worker processes returns the same records and the same states.

    An unpickled source must read the same records in a new process; it must not count its readers.
    """
    source = subject.fresh()
    _expect_records(source)
    inline, parallel = (iter(_loader(subject, source, count)) for count in (0, _WORKERS))
    expected, elements = [], []
    try:
        for step, element in enumerate(itertools.islice(inline, MOST_STREAM_ELEMENTS)):
            expected.append(snapshot(element))
            try:
                elements.append(snapshot(next(parallel)))
            except StopIteration:
                break
            except Exception as error:
                raise AssertionError(f"a worker process failed: {error!r}") from error
            same = inline.get_state() == parallel.get_state()
            assert same, f"the states after {step + 1} records differ between 0 and 2 workers."
        elements += _first(parallel, MOST_STREAM_ELEMENTS - len(elements))
    finally:
        for iterator in (inline, parallel):
            iterator.close()
    expect_same_all(expected, elements, f"a loader with {_WORKERS} workers")


def check_shards_partition_records(subject: Subject) -> None:
    """Check that the shards of a source partition its records.

    Records must depend on their index alone, not on the records read before.
    """
    whole = subject.fresh()
    shards = [MapDataset.source(subject.fresh())[shard::_SHARDS] for shard in range(_SHARDS)]
    count = sum(map(len, shards))
    assert count == len(whole), f"{_SHARDS} shards of {len(whole)} records have {count} records."
    if len(whole) > MOST_STREAM_ELEMENTS:
        for index, element in zip(subject.indices, subject.elements, strict=True):
            actual = shards[index % _SHARDS][index // _SHARDS]
            expect_same(element, actual, f"record {index}, in shard {index % _SHARDS}")
        return
    elements = [snapshot(whole[index]) for index in range(len(whole))]
    for number, shard in enumerate(shards):
        actual = list(shard.to_iter_dataset(_read_options(subject)))
        expect_same_all(elements[number::_SHARDS], actual, f"shard {number} of {_SHARDS}")


def check_stream_workers(subject: Subject) -> None:
    """Check that `mp_prefetch` with two worker processes returns the same stream, and resumes mid-stream.

    The dataset must pickle, and its iterator's state must restore in a new process.
    """
    options = MultiprocessingOptions(num_workers=_WORKERS)
    iterator = iter(subject.fresh().mp_prefetch(options))
    elements = []
    middle: Any = None
    try:
        for element in itertools.islice(iterator, subject.stream_limit):
            elements.append(snapshot(element))
            if len(elements) == (len(subject.elements) + 1) // 2:
                middle = iterator.get_state()
    except Exception as error:
        raise AssertionError(f"a worker process failed: {error!r}") from error
    finally:
        iterator.close()
    expect_same_all(subject.elements, elements, f"a stream with {_WORKERS} workers")
    if middle is not None:
        resumed = iter(subject.fresh())
        resumed.set_state(middle)
        step = (len(subject.elements) + 1) // 2
        rest, expected = subject.rest(resumed, step), subject.elements[step:]
        expect_same_all(expected, rest, f"resumed without workers from a state of {_WORKERS}")


def _loader(subject: Subject, source: Any, workers: int) -> DataLoader:
    return DataLoader(
        data_source=source,
        sampler=_sampler(source),
        worker_count=workers,
        read_options=_read_options(subject),
    )


def _sampler(source: Any) -> IndexSampler:
    return IndexSampler(num_records=len(source), num_epochs=1, shuffle=True, seed=7)


def _read_options(subject: Subject) -> ReadOptions:
    if subject.case.can(Capability.THREAD_SAFE):
        return ReadOptions()
    return ReadOptions(num_threads=0, prefetch_buffer_size=0)


def _in_sampled_order(source: Any) -> list[Any]:
    sampler = _sampler(source)
    keys = [sampler[n].record_key for n in range(min(len(source), MOST_STREAM_ELEMENTS))]
    return [snapshot(source[key]) for key in keys]


def _first(iterator: Iterable[Any], count: int = MOST_STREAM_ELEMENTS) -> list[Any]:
    return list(map(snapshot, itertools.islice(iterator, count)))


def _expect_records(source: Any) -> None:
    if not len(source):
        raise NotApplicable("no sampler accepts an empty source")
