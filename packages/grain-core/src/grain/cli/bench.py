"""`grain bench URI`: throughput of a source, in the read modes of pipelines."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from grain._lazy import LazyModule
from grain.cli import source_reader
from grain.cli.command import Command, CommandError, at_least
from grain.cli.output import counted, print_json, printable, table
from grain.cli.progress import Progress
from grain.cli.source_reader import INPUT_ERRORS, SourceReader, reason
from grain.tree import nbytes

# Lazy: no other command needs pipelines.
_grain = LazyModule("grain")

_SAMPLE = 32
# The interval between two looks at the clock.
_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class ReadMode:
    """A way to read the source.

    Attributes:
        order: `sequential` or `shuffled`.
        batch: The batch size; 0 for single elements.
        threads: The number of prefetch threads.
        workers: The number of worker processes.
    """

    order: str
    batch: int = 0
    threads: int = 0
    workers: int = 0

    @property
    def label(self) -> str:
        """The mode in words.

        Example:
            >>> ReadMode(order="shuffled", batch=32, threads=16).label
            'shuffled, batches of 32, 16 threads'
        """
        parts = [self.order]
        if self.batch:
            parts.append(f"batches of {self.batch}")
        for number, noun in ((self.threads, "thread"), (self.workers, "worker")):
            if number:
                parts.append(counted(number, noun))
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Measurement of one mode.

    Attributes:
        mode: The read mode.
        elements: The number of elements read after the first element or batch.
        seconds: The time to read these elements.
        first_seconds: The time to the first element or batch, starting of workers included.
        failure: Why the mode could not be measured; empty otherwise.
    """

    mode: ReadMode
    elements: int = 0
    seconds: float = 0.0
    first_seconds: float = 0.0
    failure: str = ""

    @property
    def rate(self) -> float:
        """Elements per second; 0 for a failure."""
        return self.elements / self.seconds if self.seconds > 0 else 0.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    source_reader.add_arguments(parser)
    parser.add_argument("--batch", type=at_least(1), default=32, metavar="N", help="the batch size")
    parser.add_argument(
        "--threads",
        type=at_least(0),
        default=16,
        metavar="N",
        help="prefetch threads; 0 skips this mode",
    )
    parser.add_argument(
        "--workers",
        type=at_least(0),
        default=min(4, _cores()),
        metavar="N",
        help="worker processes; 0 skips this mode (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=at_least(0.01, float),
        default=2.0,
        metavar="S",
        help="how long to read in each mode (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measure every mode; return 1 when all of them fail."""
    # Raw records: decoding is a cost of the pipeline, not of the source.
    reader = source_reader.open_reader(
        arguments.uri, arguments.options, arguments.columns, raw=True
    )
    try:
        sample = list(reader.elements(count=_SAMPLE))
        if not sample:
            raise CommandError(f"{reader.uri} is empty: nothing to measure.")
        modes = _modes(reader, arguments)
        measured = []
        with Progress("measuring") as progress:
            for number, mode in enumerate(modes, 1):
                progress.say(f"{mode.label} ({number} of {len(modes)})")
                measured.append(_measure(reader, mode, arguments.seconds))
    finally:
        reader.close()
    element_bytes = nbytes(sample) / len(sample)
    if arguments.json:
        print_json(
            {
                "uri": reader.uri,
                "source": type(reader.source).__name__,
                "length": reader.length,
                "element_bytes": element_bytes,
                "cases": [_as_data(each) for each in measured],
            }
        )
    else:
        length = "unknown" if reader.length is None else f"{reader.length:,}"
        print(
            f"{printable(reader.uri)}: {type(reader.source).__name__}, {length} elements of about"
            f" {element_bytes:,.0f} bytes"
        )
        header = ("READ", "ELEMENTS/S", "MB/S", "FIRST AFTER")
        print(table(header, [_row(each, element_bytes) for each in measured]))
    return 1 if all(each.failure for each in measured) else 0


def _modes(reader: SourceReader, arguments: argparse.Namespace) -> list[ReadMode]:
    batch = arguments.batch
    if reader.length is not None:
        batch = min(batch, reader.length)
    order = "shuffled" if reader.by_index else "sequential"
    modes = [ReadMode(order="sequential")]
    if reader.by_index:
        modes.append(ReadMode(order="shuffled"))
    modes.append(ReadMode(order=order, batch=batch))
    if arguments.threads and reader.by_index:
        modes.append(ReadMode(order=order, batch=batch, threads=arguments.threads))
    if arguments.workers:
        modes.append(ReadMode(order=order, batch=batch, workers=arguments.workers))
    return modes


def _measure(reader: SourceReader, mode: ReadMode, seconds: float) -> Measurement:
    size = mode.batch or 1
    try:
        started = time.perf_counter()
        with iter(_pipeline(reader, mode)) as iterator:
            next(iterator)
            first = time.perf_counter()
            count, now = _read_for(iterator, seconds, first)
    except (*INPUT_ERRORS, TypeError, RuntimeError) as error:
        return Measurement(mode=mode, failure=reason(error))
    return Measurement(
        mode=mode,
        elements=count * size,
        seconds=now - first,
        first_seconds=first - started,
    )


def _read_for(iterator: Iterator[Any], seconds: float, started: float) -> tuple[int, float]:
    """Read for some time; return the number of items and the time of the last read."""
    count, chunk = 0, 1
    while True:
        before = time.perf_counter()
        deque(itertools.islice(iterator, chunk), maxlen=0)
        now = time.perf_counter()
        count += chunk
        if now - started >= seconds:
            return count, now
        if now - before < _POLL_SECONDS:
            chunk *= 2
        elif chunk > 1:
            chunk //= 2


def _pipeline(reader: SourceReader, mode: ReadMode) -> Any:
    if reader.by_index:
        by_index = _grain.MapDataset.source(reader.source)
        if mode.order == "shuffled":
            by_index = by_index.shuffle(seed=0)
        if reader.columns is not None:
            by_index = by_index.map(functools.partial(_pick, reader.columns))
        if mode.batch:
            by_index = by_index.batch(mode.batch, drop_remainder=True)
        options = _grain.ReadOptions(num_threads=mode.threads)
        dataset = by_index.repeat().to_iter_dataset(options, allow_nones=True)
    else:
        dataset = reader.source.repeat()
        if reader.columns is not None:
            dataset = dataset.map(functools.partial(_pick, reader.columns))
        if mode.batch:
            dataset = dataset.batch(mode.batch)
    if mode.workers:
        dataset = dataset.mp_prefetch(_grain.MultiprocessingOptions(num_workers=mode.workers))
    return dataset


def _pick(columns: tuple[str, ...], element: dict[str, Any]) -> dict[str, Any]:
    return {name: element[name] for name in columns}


def _row(measured: Measurement, element_bytes: float) -> tuple[str, str, str, str]:
    if measured.failure:
        return measured.mode.label, "-", "-", measured.failure
    return (
        measured.mode.label,
        f"{measured.rate:,.0f}",
        f"{measured.rate * element_bytes / 1e6:,.1f}",
        f"{measured.first_seconds:.3f} s",
    )


def _as_data(measured: Measurement) -> dict[str, Any]:
    data = asdict(measured)
    return {**data.pop("mode"), **data, "elements_per_second": measured.rate}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


COMMAND = Command(
    name="bench",
    summary="Measure the throughput of a source.",
    run=run,
    arguments=arguments,
)
