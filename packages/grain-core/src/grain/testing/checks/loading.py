"""Loaders: `DataLoader` and `mp_prefetch` return the records of the source, with workers too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.dataset.base import MapDataset
from grain.loader.data_loader import DataLoader
from grain.options import MultiprocessingOptions, ReadOptions
from grain.plugins.spec import Capability
from grain.samplers import IndexSampler
from grain.testing.compare import expect_same_all, snapshot
from grain.testing.subject import Subject

_SHARDS = 3
_WORKERS = 2
_MOST_STATES = 24


def check_loader_order(subject: Subject) -> None:
    """Check that a `DataLoader` returns the records in the order of its sampler.

    Fix the failures listed above first: they are usually the cause.
    """
    source = subject.fresh()
    if not len(source):
        return  # no sampler takes an empty source
    expected = _in_sampled_order(source)
    expect_same_all(expected, list(_loader(subject, source, 0)), "a loader without workers")


def check_loader_resume(subject: Subject) -> None:
    """Check that a `DataLoader` resumes from each of its states with the same records.

    Records must depend on their index alone, and `repr(source)`, which is in the state, on the data.
    """
    if not len(subject.fresh()):
        return
    iterator = iter(_loader(subject, subject.fresh(), 0))
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(snapshot(element))
        states.append(iterator.get_state())
    for step in _spread(len(states)):
        # A new source, as after a restart.
        resumed = iter(_loader(subject, subject.fresh(), 0))
        try:
            resumed.set_state(states[step])
        except Exception as error:
            raise AssertionError(f"the state after {step} records was refused: {error}") from error
        expect_same_all(elements[step:], list(resumed), f"resumed after {step} records")


def check_loader_workers(subject: Subject) -> None:
    """Check that a `DataLoader` with two worker processes returns the same records and the same states.

    An unpickled source must read the same records in a new process; it must not count its readers.
    """
    source = subject.fresh()
    if not len(source):
        return
    inline, parallel = (iter(_loader(subject, source, count)) for count in (0, _WORKERS))
    expected, elements = [], []
    try:
        for step, element in enumerate(inline):
            expected.append(snapshot(element))
            try:
                elements.append(snapshot(next(parallel)))
            except StopIteration:
                break
            except Exception as error:
                raise AssertionError(f"a worker process failed: {error!r}") from error
            same = inline.get_state() == parallel.get_state()
            assert same, f"the states after {step + 1} records differ between 0 and 2 workers."
        elements += [snapshot(element) for element in parallel]
    finally:
        for iterator in (inline, parallel):
            iterator.close()
    expect_same_all(expected, elements, f"a loader with {_WORKERS} workers")


def check_shards_partition_records(subject: Subject) -> None:
    """Check that the shards of a source partition its records.

    Records must depend on their index alone, not on the records read before.
    """
    whole = subject.fresh()
    elements = [snapshot(whole[index]) for index in range(len(whole))]
    for shard in range(_SHARDS):
        dataset = MapDataset.source(subject.fresh())[shard::_SHARDS]
        actual = list(dataset.to_iter_dataset(_read_options(subject)))
        expect_same_all(elements[shard::_SHARDS], actual, f"shard {shard} of {_SHARDS}")


def check_stream_workers(subject: Subject) -> None:
    """Check that `mp_prefetch` with two worker processes returns the same stream, and resumes mid-stream.

    The dataset must pickle, and its iterator's state must restore in a new process.
    """
    options = MultiprocessingOptions(num_workers=_WORKERS)
    iterator = iter(subject.fresh().mp_prefetch(options))
    elements = []
    middle: Any = None
    try:
        for element in iterator:
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
        rest = list(map(snapshot, resumed))
        expected = subject.elements[(len(subject.elements) + 1) // 2 :]
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
    keys = [sampler[position].record_key for position in range(len(source))]
    return [snapshot(source[key]) for key in keys]


def _spread(count: int) -> Sequence[int]:
    """Return all steps, or a spread of many that includes the last."""
    if count <= _MOST_STATES:
        return range(count)
    return [*range(0, count - 1, -(-count // _MOST_STATES)), count - 1]
