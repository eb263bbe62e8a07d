"""The report of autotuning, as values and as a table."""

from __future__ import annotations

import dataclasses

from grain.execution.measurement import ReadMeasurement
from grain.options import MultiprocessingOptions, ReadOptions

_MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningCandidate:
    """Options to try.

    Attributes:
        workers: Number of worker processes.
        worker_buffer: Elements that each worker may compute ahead.
        threads: Reading threads in each process.
        buffer: Elements read ahead in each process.
    """

    workers: int
    worker_buffer: int
    threads: int
    buffer: int

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """Options for `IterDataset.mp_prefetch`."""
        return MultiprocessingOptions(
            num_workers=self.workers, per_worker_buffer_size=self.worker_buffer
        )

    @property
    def read_options(self) -> ReadOptions:
        """Options for `MapDataset.to_iter_dataset`."""
        return ReadOptions(num_threads=self.threads, prefetch_buffer_size=self.buffer)

    def kept(self) -> int:
        """Return the most elements kept ready."""
        return max(1, self.workers) * self.buffer + self.workers * self.worker_buffer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A candidate and its measurement.

    Attributes:
        candidate: The options.
        measured: The measurement; None if the candidate was not tried, or failed.
        memory: Bytes of worker processes and of the elements kept ready; None if unknown.
        verdict: Why the candidate was not chosen, or that it was.
    """

    candidate: TuningCandidate
    measured: ReadMeasurement | None = None
    memory: int | None = None
    verdict: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TuningReport:
    """All trials in order; printed as a table.

    Attributes:
        trials: The trials.
        chosen: The candidate that was chosen; None if the dataset has no elements.
        seconds: Seconds that all measurements took.
    """

    trials: tuple[Trial, ...]
    chosen: TuningCandidate | None
    seconds: float

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        heading = ("workers", "worker buffer", "threads", "buffer", "elements/s", "MB", "")
        rows = [heading, *map(_row, self.trials)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heading) - 1)]
        lines = [
            "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False))])
            + (f"  {row[-1]}" if row[-1] else "")
            for row in rows
        ]
        lines.append(f"{len(self.trials)} candidates in {self.seconds:.1f} s")
        return "\n".join(lines)


def _row(trial: Trial) -> tuple[str, ...]:
    candidate, measured = trial.candidate, trial.measured
    return (
        str(candidate.workers),
        str(candidate.worker_buffer) if candidate.workers else "-",
        str(candidate.threads),
        str(candidate.buffer),
        "-" if measured is None else f"{measured.rate:.4g}",
        "-" if trial.memory is None else f"{trial.memory / _MEGABYTE:.1f}",
        trial.verdict,
    )
