"""`grain bench URI`: how many elements per second a source gives, read in the ways pipelines read it."""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from grain.cli import source_reader
from grain.cli.command import Command, CommandError, at_least
from grain.cli.output import print_json, table
from grain.cli.progress import Progress
from grain.cli.source_reader import MISTAKES, SourceReader, reason
from grain.tree import nbytes

_SAMPLE = 32
# The clock is looked at about so often.
_GLANCE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class ReadMode:
    """One way to read the source.

    Attributes:
        order: `sequential` or `shuffled`.
        batch: Elements in a batch; 0 for single elements.
        threads: Threads that read ahead.
        workers: Worker processes.
    """

    order: str
    batch: int = 0
    threads: int = 0
    workers: int = 0

    @property
    def label(self) -> str:
        """The case for a person.

        Example:
            >>> ReadMode(order="shuffled", batch=32, threads=16).label
            'shuffled, batches of 32, 16 threads'
        """
        parts = [self.order]
        if self.batch:
            parts.append(f"batches of {self.batch}")
        for number, noun in ((self.threads, "thread"), (self.workers, "worker")):
            if number:
                parts.append(f"{number} {noun}{'' if number == 1 else 's'}")
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What came of a case.

    Attributes:
        case: How the source was read.
        elements: How many elements were read after the first one or the first batch.
        seconds: How long they took.
        first_seconds: How long the first one took, from making the iterator, workers included.
        failure: Why it could not be measured; empty otherwise.
    """

    case: ReadMode
    elements: int = 0
    seconds: float = 0.0
    first_seconds: float = 0.0
    failure: str = ""

    @property
    def rate(self) -> float:
        """Elements per second; 0 where nothing was measured."""
        return self.elements / self.seconds if self.seconds > 0 else 0.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    source_reader.add_arguments(parser)
    parser.add_argument(
        "--batch", type=at_least(1), default=32, metavar="N", help="elements in a batch"
    )
    parser.add_argument(
        "--threads", type=at_least(0), default=16, metavar="N", help="threads; 0 leaves that out"
    )
    parser.add_argument(
        "--workers",
        type=at_least(0),
        default=min(4, _cores()),
        metavar="N",
        help="worker processes; 0 leaves that out (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=at_least(0.01, float),
        default=2.0,
        metavar="S",
        help="how long to read in each way (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measures every case; 1 when reading single elements already fails."""
    # Records as they are: what decoding costs is the pipeline's, not the source's.
    opened = source_reader.open_reader(
        arguments.uri, arguments.options, arguments.columns, raw=True
    )
    try:
        sample = list(opened.elements(count=_SAMPLE))
        if not sample:
            raise CommandError(f"{opened.uri} is empty: there is nothing to measure.")
        cases = _cases(opened, arguments)
        measured = []
        with Progress("measuring") as progress:
            for number, case in enumerate(cases, 1):
                progress.say(f"{case.label} ({number} of {len(cases)})")
                measured.append(_measure(opened, case, arguments.seconds))
    finally:
        opened.close()
    element_bytes = nbytes(sample) / len(sample)
    if arguments.json:
        print_json(
            {
                "uri": opened.uri,
                "source": type(opened.source).__name__,
                "length": opened.length,
                "element_bytes": element_bytes,
                "cases": [_as_data(each) for each in measured],
            }
        )
    else:
        length = "unknown" if opened.length is None else f"{opened.length:,}"
        print(
            f"{opened.uri}: {type(opened.source).__name__}, {length} elements of about"
            f" {element_bytes:,.0f} bytes"
        )
        header = ("READ", "ELEMENTS/S", "MB/S", "FIRST AFTER")
        print(table(header, [_row(each, element_bytes) for each in measured]))
    return 1 if all(each.failure for each in measured) else 0


def _cases(opened: SourceReader, arguments: argparse.Namespace) -> list[ReadMode]:
    batch = arguments.batch
    if opened.length is not None:
        batch = min(batch, opened.length)
    order = "shuffled" if opened.by_index else "sequential"
    cases = [ReadMode(order="sequential")]
    if opened.by_index:
        cases.append(ReadMode(order="shuffled"))
    cases.append(ReadMode(order=order, batch=batch))
    if arguments.threads and opened.by_index:
        cases.append(ReadMode(order=order, batch=batch, threads=arguments.threads))
    if arguments.workers:
        cases.append(ReadMode(order=order, batch=batch, workers=arguments.workers))
    return cases


def _measure(opened: SourceReader, case: ReadMode, seconds: float) -> Measurement:
    size = case.batch or 1
    try:
        started = time.perf_counter()
        with iter(_pipeline(opened, case)) as iterator:
            next(iterator)
            first = time.perf_counter()
            count, now = _read_for(iterator, seconds, first)
    except (*MISTAKES, TypeError, RuntimeError) as error:
        return Measurement(case=case, failure=reason(error))
    return Measurement(
        case=case,
        elements=count * size,
        seconds=now - first,
        first_seconds=first - started,
    )


def _read_for(iterator: Iterator[Any], seconds: float, started: float) -> tuple[int, float]:
    """Reads for some time; gives how much was read, and when that was."""
    count, stretch = 0, 1
    while True:
        before = time.perf_counter()
        deque(itertools.islice(iterator, stretch), maxlen=0)
        now = time.perf_counter()
        count += stretch
        if now - started >= seconds:
            return count, now
        if now - before < _GLANCE_SECONDS:
            stretch *= 2
        elif stretch > 1:
            stretch //= 2


def _pipeline(opened: SourceReader, case: ReadMode) -> Any:
    # Loaded here: the other commands need no pipelines.
    grain = importlib.import_module("grain")
    if opened.by_index:
        by_index = grain.MapDataset.source(opened.source)
        if case.order == "shuffled":
            by_index = by_index.shuffle(seed=0)
        if opened.columns is not None:
            by_index = by_index.map(functools.partial(_picked, opened.columns))
        if case.batch:
            by_index = by_index.batch(case.batch, drop_remainder=True)
        options = grain.ReadOptions(num_threads=case.threads)
        dataset = by_index.repeat().to_iter_dataset(options, allow_nones=True)
    else:
        dataset = opened.source.repeat()
        if opened.columns is not None:
            dataset = dataset.map(functools.partial(_picked, opened.columns))
        if case.batch:
            dataset = dataset.batch(case.batch)
    if case.workers:
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=case.workers))
    return dataset


def _picked(columns: tuple[str, ...], element: dict[str, Any]) -> dict[str, Any]:
    return {name: element[name] for name in columns}


def _row(measured: Measurement, element_bytes: float) -> tuple[str, str, str, str]:
    if measured.failure:
        return measured.case.label, "-", "-", measured.failure
    return (
        measured.case.label,
        f"{measured.rate:,.0f}",
        f"{measured.rate * element_bytes / 1e6:,.1f}",
        f"{measured.first_seconds:.3f} s",
    )


def _as_data(measured: Measurement) -> dict[str, Any]:
    data = asdict(measured)
    return {**data.pop("case"), **data, "elements_per_second": measured.rate}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


COMMAND = Command(
    name="bench",
    summary="Measure how many elements per second a source gives.",
    run=run,
    arguments=arguments,
)
