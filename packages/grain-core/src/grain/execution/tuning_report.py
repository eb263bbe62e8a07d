"""What was measured while options were chosen, as values and as a table."""

from __future__ import annotations

import dataclasses

from grain.execution.measurement import Measurement
from grain.options import MultiprocessingOptions, ReadOptions

_MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """Options that may be tried.

    Attributes:
      workers: worker processes.
      worker_buffer: how many elements each of them may be ahead.
      threads: reading threads, in each process.
      buffer: how many elements are read ahead, in each process.
    """

    workers: int
    worker_buffer: int
    threads: int
    buffer: int

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """For `IterDataset.mp_prefetch`."""
        return MultiprocessingOptions(
            num_workers=self.workers, per_worker_buffer_size=self.worker_buffer
        )

    @property
    def read_options(self) -> ReadOptions:
        """For `MapDataset.to_iter_dataset`."""
        return ReadOptions(num_threads=self.threads, prefetch_buffer_size=self.buffer)

    def kept(self) -> int:
        """How many elements are kept ready at the most."""
        return max(1, self.workers) * self.buffer + self.workers * self.worker_buffer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A candidate, and what came of it.

    Attributes:
      candidate: what was to be tried.
      measured: what was seen; None where it was not tried, or failed.
      memory: bytes of worker processes and of the elements kept ready; None where it is not known.
      verdict: why it was not chosen, or that it was.
    """

    candidate: Candidate
    measured: Measurement | None = None
    memory: int | None = None
    verdict: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TuningReport:
    """All that was tried, in order.

    Attributes:
      trials: the candidates.
      chosen: the one that was taken; None if the dataset has no elements.
      seconds: how long the measuring took.
    """

    trials: tuple[Trial, ...]
    chosen: Candidate | None
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
