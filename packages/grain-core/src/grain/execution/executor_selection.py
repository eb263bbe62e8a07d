"""Selection of an executor by name, from options and settings.

The built-in names are `inline`, `threads` and `processes`. Other names are those of installed plugins,
whose target is called with `num_workers` (None for a number that suits the executor) and with those of
`max_worker_restarts`, `task_timeout` and `worker_memory_limit` that the user has given, if it takes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from grain._config import config
from grain._lazy import LazyModule, PluginRegistry
from grain.execution.executor import Executor
from grain.execution.process_executor import ProcessExecutor
from grain.options import MultiprocessingOptions

# Most programs use worker processes.
if TYPE_CHECKING:
    import inspect

    from grain.execution import inline_executor, thread_executor
else:
    inspect = LazyModule("inspect")
    inline_executor = LazyModule("grain.execution.inline_executor")
    thread_executor = LazyModule("grain.execution.thread_executor")

BUILT_IN = ("inline", "processes", "threads")

WorkerInit = Callable[[int, int], None]


class Selected(NamedTuple):
    """An executor, and the function that its job calls first in each worker."""

    executor: Executor
    worker_init_fn: WorkerInit | None


def select_executor(options: MultiprocessingOptions, worker_init_fn: WorkerInit | None) -> Selected:
    """Return the executor of the options, or else of the setting.

    >>> from grain.options import MultiprocessingOptions
    >>> select_executor(MultiprocessingOptions(3, executor="threads"), None).executor.capacity
    3
    """
    chosen = config.executor if options.executor is None else options.executor
    if not isinstance(chosen, str):
        _refuse_limits(options, f"executor {chosen!r}", "give it to the executor itself")
        return Selected(chosen, worker_init_fn)
    if chosen == "processes":
        executor = ProcessExecutor(_count(options), worker_init_fn, **_limits(options))
        return Selected(executor, None)
    if chosen in BUILT_IN:
        _refuse_limits(options, f"executor {chosen!r}", 'use executor="processes"')
        if chosen == "inline":
            return Selected(inline_executor.InlineExecutor(), worker_init_fn)
        return Selected(thread_executor.ThreadExecutor(_count(options)), worker_init_fn)
    make = PluginRegistry.installed.executor(chosen, BUILT_IN)
    limits = {name: value for name, value in _limits(options).items() if value is not None}
    if limits and not _takes(make, limits):
        _refuse_limits(options, f"executor {chosen!r}", 'use executor="processes"')
    return Selected(make(num_workers=options.num_workers, **limits), worker_init_fn)


def _takes(make: Callable[..., Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether the target of a plugin can be called with these arguments, as far as that is known."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return True
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    return arguments.keys() <= parameters.keys()


def _limits(options: MultiprocessingOptions) -> dict[str, Any]:
    names = ("max_worker_restarts", "task_timeout", "worker_memory_limit")
    return {name: getattr(options, name) for name in names}


def _refuse_limits(options: MultiprocessingOptions, what: str, instead: str) -> None:
    for name, value in _limits(options).items():
        if value is not None:
            raise ValueError(
                f"MultiprocessingOptions({name}={value!r}) applies to worker processes, and {what} does "
                f"not take it from the options: leave it out, or {instead}."
            )


def _count(options: MultiprocessingOptions) -> int:
    """Return the number of workers; by default that of the processors of this process, at most 16."""
    if options.num_workers is not None:
        return options.num_workers
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(available or 1, 16))
