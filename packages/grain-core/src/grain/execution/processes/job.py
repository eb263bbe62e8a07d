"""The work of a pool, and how it is pickled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

from grain.execution.processes import array_pickling
from grain.execution.processes.unpicklable import NameOwner, explain_unpicklable


class Job(Protocol):
    """The work of a pool; pickled once and loaded by every worker."""

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Return the function that computes a task; called once in each worker.

        The function may return a `concurrent.futures.Future`: the worker then takes further tasks and sends
        the result when the future is done. The function also receives the definitions of the pool, as the
        tasks `(number, "define", part)` and `(number, "release")`, whose results are ignored.
        """


def pickle_for_workers(
    value: object, name: str, name_owner: NameOwner | None
) -> array_pickling.Pickled:
    """Pickle a job, or what belongs to it; the error names the part that cannot be pickled."""
    try:
        return array_pickling.dumps_job(value)
    except Exception as error:
        raise TypeError(explain_unpicklable(value, name, error, name_owner)) from error


def warn_if_large(job: array_pickling.Pickled, limit: int) -> None:
    """Warn if a job holds many Python objects; its arrays exist once for all workers."""
    if len(job.stream) > limit:
        warnings.warn(
            f"The pipeline holds {len(job.stream) / 1e6:,.0f} MB of Python objects, which every worker "
            "process loads and keeps. Keep large data in numpy arrays, np.memmap or files: workers share "
            "those.",
            RuntimeWarning,
            stacklevel=2,
        )
