"""Switches of observation: for a block of code, for one dataset, and for the whole process."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from grain._config import config
from grain.dataset.context import current_context
from grain.dataset.iter_dataset import set_observer
from grain.execution.processes.bootstrap_guard import in_worker
from grain.observe.instrumentation import is_observed
from grain.observe.observed_graph import in_order
from grain.observe.pipeline_recorder import PipelineRecorder, recorder_of
from grain.observe.recording import is_recording
from grain.observe.statistics import PipelineStatistics
from grain.options import ObservationOptions

# The blocks of code that are observed, the innermost last; in all threads, since a library may make the
# iterator in a thread.
_blocks: list[ObservedBlock] = []
# Called with the recorder of each pipeline that starts to be observed.
_started: list[Callable[[PipelineRecorder], None]] = []
# The recorders of pipelines whose iterators exist, in the order of creation.
_live: list[weakref.ref[PipelineRecorder]] = []
# Functions that decide on datasets which nothing else observes.
_requests: list[Callable[[Any], ObservationOptions | None]] = []


class ObservedBlock:
    """The iterators that were created in a block of code.

    Attributes:
        recorders: Their recorders, in the order of creation.
    """

    def __init__(self, options: ObservationOptions):
        self.options = options
        self.recorders: list[PipelineRecorder] = []
        self._listeners: list[tuple[Any, float | None, int | None]] = []

    @property
    def pipelines(self) -> tuple[PipelineStatistics, ...]:
        """The statistics of each iterator so far."""
        return tuple(recorder.statistics() for recorder in self.recorders)

    def stats(self) -> PipelineStatistics:
        """Return the statistics of the only iterator, or of the last one that delivered an element."""
        found = self.pipelines
        if not found:
            raise RuntimeError(
                "No iterator was created inside of `with grain.observing():`. Call `iter(ds)`, or start "
                "the loop over the dataset, inside of the block."
            )
        delivered = [stats for stats in found if stats.elements]
        return (delivered or list(found))[-1]

    def add_listener(
        self,
        callback: Callable[[PipelineStatistics], None],
        *,
        seconds: float | None = None,
        elements: int | None = None,
    ) -> None:
        """Call a function with the statistics of each iterator of the block, while it is consumed.

        Args:
            callback: The function; it is called in `next()`.
            seconds: The least time between two calls.
            elements: The number of elements between two calls.
        """
        for recorder in self.recorders:
            recorder.add_listener(callback, seconds=seconds, elements=elements)
        self._listeners.append((callback, seconds, elements))

    def add(self, recorder: PipelineRecorder) -> None:
        """Add the recorder of an iterator that is created in the block."""
        self.recorders.append(recorder)
        for callback, seconds, elements in self._listeners:
            recorder.add_listener(callback, seconds=seconds, elements=elements)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.pipelines))


@contextlib.contextmanager
def observing(*, name: str | None = None, trace: bool = False) -> Iterator[ObservedBlock]:
    """Observe every iterator that is created inside of a `with` block.

    The iterators stay observed after the block. Elements, their order and states do not change.

    Args:
        name: A name for the pipelines in exports.
        trace: Whether to record a timeline.

    >>> import grain
    >>> with grain.observing() as observation:
    ...     elements = list(grain.MapDataset.range(4).map(str))
    >>> observation.stats().elements
    4
    """
    enable()
    observation = ObservedBlock(ObservationOptions(name=name, trace=trace))
    try:
        # Inside: an interrupt right after it must not leave the block in force.
        _blocks.append(observation)
        yield observation
    finally:
        if observation in _blocks:
            _blocks.remove(observation)


def enable() -> None:
    """Look at every dataset that is iterated from now on, whether it is to be observed."""
    set_observer(_observe)


def statistics(iterator: Any) -> PipelineStatistics:
    """Return the statistics of an observed iterator."""
    recorder = recorder_of(iterator)
    if recorder is None:
        raise RuntimeError(
            f"This {type(iterator).__name__} is not observed, so it has no statistics. Create it inside of "
            "`with grain.observing():`, add `.observe()` to the dataset before iterating, or set "
            "GRAIN_OBSERVE=1 in the environment."
        )
    return recorder.statistics()


def live_pipelines() -> tuple[PipelineStatistics, ...]:
    """Return the statistics of all observed iterators that exist in this process."""
    recorders = [found() for found in list(_live)]
    return tuple(recorder.statistics() for recorder in recorders if recorder is not None)


def on_start(callback: Callable[[PipelineRecorder], None]) -> None:
    """Call a function with the recorder of every pipeline that starts to be observed from now on."""
    _started.append(callback)


def add_request(request: Callable[[Any], ObservationOptions | None]) -> None:
    """Observe datasets for which a function returns options, besides those of the switches."""
    _requests.append(request)
    enable()


def _observe(dataset: Any) -> Any:
    """Return the observed iterator of a dataset; None if it is not to be observed."""
    if in_worker() or is_observed(dataset):
        return None
    recorder: PipelineRecorder | None = current_context().observation
    if recorder is not None:  # A node of an observed pipeline opens it.
        nested = recorder.observed_nested(dataset)
        return nested.__iter__() if is_observed(nested) else None
    if hasattr(type(dataset), "__next__"):
        return None  # A dataset that is an iterator over itself: a copy would be another one.
    block = _blocks[-1] if _blocks else None
    options = _options_for(dataset, block)
    # A function of an observed pipeline may iterate over a dataset of its own.
    if options is None or is_recording():
        return None
    recorder = PipelineRecorder(dataset, options)
    _live[:] = [found for found in _live if found() is not None] + [weakref.ref(recorder)]
    if block is not None:
        block.add(recorder)
    for callback in _started:
        callback(recorder)
    return recorder.open()


def _options_for(dataset: Any, block: ObservedBlock | None) -> ObservationOptions | None:
    """Return the options that the dataset, the block and the settings request together."""
    requested = [
        node.observation_options
        for node in in_order(dataset)
        if node.observation_options is not None
    ]
    if block is not None:
        requested.append(block.options)
    requested += [options for request in _requests if (options := request(dataset)) is not None]
    if not requested:
        return ObservationOptions() if config.observe else None
    # A timeline for one of them, such as the table that a setting logs, is recorded whatever the others are.
    return ObservationOptions(
        name=next((options.name for options in requested if options.name is not None), None),
        trace=any(options.trace for options in requested),
    )
