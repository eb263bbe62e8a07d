"""Reading ahead in threads, when that pays.

Reading begins in the consumer's thread, in growing blocks. Threads take over when elements take long to
read, or when the consumer waits for something else between blocks, such as a device: they compute
blocks of consecutive elements ahead, and the consumer takes the blocks in order. Where that turns out
to bring nothing, reading goes back to the consumer's thread. So data in memory that is read as fast
as it is consumed does not pay for threads.
"""

from __future__ import annotations

import collections
import time
import weakref
from typing import Any

import numpy as np

from grain import tree
from grain.dataset.chunk import PartialRead
from grain.dataset.to_iter import InlineReader
from grain.execution.block_threads import Block, BlockThreads
from grain.execution.thread_count import ThreadCount
from grain.index.permutation import IndexArray
from grain.options import ReadOptions

# An element that takes longer than this to read is worth threads.
_SLOW_ELEMENT = 0.0002
# Threads also pay when the consumer waits for something else at least this share of the reading time.
_WAITING_SHARE = 0.5
# Nothing is decided by less than this.
_EVIDENCE_SECONDS = 0.005
# A block should keep a thread busy about this long.
_BLOCK_SECONDS = 0.001
# More elements than this are never read at a time in the consumer's thread.
_MAX_INLINE = 1 << 16
# What blocks that are ready or being read may hold, beyond what the threads need at the least.
_BUFFER_BYTES = 256 << 20
# How many elements of a block are looked at for their size, and how much each of them changes what is
# thought of it.
_SAMPLE = 8
_RISE, _FALL = 1 / 4, 1 / 16
# After this many blocks it is judged whether threads bring anything.
_TRIAL_BLOCKS = 32


def make_reader(
    dataset: Any, start: int, stop: int, options: ReadOptions
) -> InlineReader | AdaptiveReader:
    """Makes a reader of `dataset[start:stop]`: by threads as the options allow, or in the consumer's."""
    if options.num_threads == 0 or options.prefetch_buffer_size == 0:
        return InlineReader(dataset, start, stop)
    return AdaptiveReader(dataset, start, stop, options)


class AdaptiveReader:
    """Reads in the consumer's thread until threads pay, then ahead in threads as long as they do."""

    def __init__(self, dataset: Any, start: int, stop: int, options: ReadOptions):
        self._dataset = dataset
        self._stop = stop
        self._options = options
        self._inline = InlineReader(dataset, start, stop)
        # How many elements are read at a time here: as many as take a moment.
        self._size = 1
        self._next = start
        self._threads: ThreadedReader | None = None
        self._may_return = True
        self._watch = _ConsumerWatch()

    def read(self, limit: int) -> list[Any]:
        if self._threads is not None:
            elements = self._threads.read(limit)
            self._next += len(elements)
            if self._may_return and self._threads.bring_nothing:
                self._return_to_consumer()
            return elements
        self._watch.begin()
        elements = self._inline.read(min(limit, self._size))
        if self._watch.end(len(elements)) < _BLOCK_SECONDS:
            self._size = min(2 * self._size, _MAX_INLINE)
        self._next += len(elements)
        if self._watch.threads_pay:
            self._start_threads(_element_bytes(elements))
        return elements

    def _start_threads(self, element_bytes: float | None) -> None:
        threads = ThreadedReader(
            self._dataset,
            self._next,
            self._stop,
            self._options,
            self._watch.seconds_per_element,
            element_bytes,
            self._watch.reading_waits,
        )
        try:
            threads.start()
        except RuntimeError:  # The system has no more of them; perhaps later.
            self._watch = _ConsumerWatch(was_reset=True)
        else:
            self._threads = threads

    def _return_to_consumer(self) -> None:
        """Reads in the consumer's thread again; threads get a second chance, but no third."""
        if self._threads is not None:
            self._threads.close()
        self._threads = None
        self._inline.seek(self._next)
        self._may_return = not self._watch.was_reset
        self._watch = _ConsumerWatch(was_reset=True)

    def seek(self, index: int) -> None:
        self._next = index
        self._inline.seek(index)
        self._watch.forget_pause()
        if self._threads is not None:
            self._threads.seek(index)

    def start(self) -> None:
        if self._threads is None:
            self._start_threads(None)
        else:
            self._threads.start()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()


class _ConsumerWatch:
    """Measures blocks that the consumer's thread reads itself, and what it does in between."""

    def __init__(self, was_reset: bool = False):
        self.was_reset = was_reset
        self._reading = 0.0  # Seconds spent reading.
        self._busy = 0.0  # Those among them in which a processor was busy with it.
        self._waiting = 0.0  # Seconds between blocks in which the consumer did not compute.
        self._fastest: collections.deque[float] = collections.deque(maxlen=3)
        self._started = (0.0, 0.0)
        self._ended: tuple[float, float] | None = None

    def begin(self) -> None:
        self._started = time.perf_counter(), time.thread_time()
        if self._ended is not None:
            paused = self._started[0] - self._ended[0]
            computed = self._started[1] - self._ended[1]
            self._waiting += max(0.0, paused - computed)

    def end(self, count: int) -> float:
        """Returns how many seconds reading so many elements took."""
        self._ended = time.perf_counter(), time.thread_time()
        seconds = self._ended[0] - self._started[0]
        self._reading += seconds
        self._busy += self._ended[1] - self._started[1]
        if count:
            self._fastest.append(seconds / count)
        return seconds

    @property
    def seconds_per_element(self) -> float | None:
        """What an element costs when nobody is in the way; None when none was read."""
        return min(self._fastest, default=None)

    @property
    def reading_waits(self) -> bool:
        """Whether reading is mostly waiting for something else than the processor; so it is assumed."""
        return self._busy <= (1 - _WAITING_SHARE) * self._reading

    def forget_pause(self) -> None:
        self._ended = None

    @property
    def threads_pay(self) -> bool:
        """One slow block proves nothing: it may have opened a file, or the machine was busy."""
        if self._reading > _EVIDENCE_SECONDS and min(self._fastest, default=0) > _SLOW_ELEMENT:
            return len(self._fastest) == self._fastest.maxlen
        needed = _EVIDENCE_SECONDS * (20 if self.was_reset else 2)
        return self._waiting > max(needed, _WAITING_SHARE * self._reading)


def _element_bytes(elements: list[Any]) -> float | None:
    """About how large elements are on the average; None if there is none to look at."""
    present = [element for element in elements if element is not None]
    if not present:
        return None
    looked_at = present[:: -(-len(present) // _SAMPLE)]
    return sum(map(tree.nbytes, looked_at)) / len(looked_at)


class ThreadedReader:
    """Reads blocks ahead in threads, and gives them in order."""

    def __init__(
        self,
        dataset: Any,
        start: int,
        stop: int,
        options: ReadOptions,
        seconds_per_element: float | None,
        element_bytes: float | None,
        waits: bool,
    ):
        self._stop = stop
        self._max_threads = options.num_threads
        self._thread_count = ThreadCount(options.num_threads, seconds_per_element, waits)
        self._buffer = options.prefetch_buffer_size
        self._threads = BlockThreads(dataset)
        # Threads hold nothing of the reader: one that is dropped ends its threads.
        self._finalizer = weakref.finalize(self, self._threads.stop)
        self._ahead: collections.deque[Block] = collections.deque()
        self._submitted = start
        # Elements that were read or are to be read, and which the consumer has not come to.
        self._in_flight = 0
        # Those among them that it was given with the last block.
        self._in_hand = 0
        # The fastest of the last blocks tells the cost; others may have waited for the processor.
        self._seconds_per_element: collections.deque[float] = collections.deque(maxlen=64)
        if seconds_per_element is not None:
            self._seconds_per_element.append(seconds_per_element)
        self._block_size = self._wanted_block_size()
        self._bytes_per_element = element_bytes
        self._taken_elements = 0
        self._taken_blocks = 0
        self._awaited_blocks = 0

    @property
    def _is_slow(self) -> bool:
        return min(self._seconds_per_element, default=0.0) > _SLOW_ELEMENT

    @property
    def _useful_threads(self) -> int:
        """One thread is enough to be ahead with cheap elements; more would only be in its way."""
        return self._thread_count.now if self._is_slow else 1

    def _wanted_block_size(self) -> int:
        if not self._seconds_per_element:
            return 1
        wanted = int(_BLOCK_SECONDS / max(min(self._seconds_per_element), 1e-7))
        # Two blocks for every thread must fit into the buffer.
        fitting = self._buffer // (2 * self._useful_threads)
        return max(1, min(wanted, fitting))

    @property
    def bring_nothing(self) -> bool:
        """Whether elements are cheap and the consumer waits for them all the same."""
        return (
            self._taken_blocks >= _TRIAL_BLOCKS
            and not self._is_slow
            and self._awaited_blocks > self._taken_blocks // 2
        )

    def start(self) -> None:
        """Hands blocks to the threads, as far ahead as the buffer allows."""
        if self._ahead:  # An interrupt may have come before the last one was counted.
            last = self._ahead[-1]
            self._submitted = last.start + last.count
        allowed = self._allowed()
        size = max(1, min(self._block_size, allowed // (2 * self._useful_threads)))
        while self._submitted < self._stop and self._in_flight < allowed:
            room = allowed - self._in_flight
            if room < size and self._ahead:
                return  # A small block costs as much as a whole one.
            count = min(size, self._stop - self._submitted, room)
            # First somebody to read it: without, the block would be waited for in vain.
            self._threads.at_least(min(self._useful_threads, len(self._ahead) + 1))
            block = Block(self._submitted, count)
            self._threads.put(block)
            self._ahead.append(block)
            self._submitted += count
            self._in_flight += count

    def _allowed(self) -> int:
        """How many elements may be read ahead."""
        if self._bytes_per_element is None or not self._seconds_per_element:
            return min(self._buffer, 2)  # Nothing is known yet of what an element costs.
        affordable = int(_BUFFER_BYTES / max(1.0, self._bytes_per_element))
        # Not all at once: the next ones may be much larger than the few that were seen.
        seen = max(2 * self._max_threads, 4 * self._taken_elements)
        return min(self._buffer, max(affordable, self._max_threads), seen)

    def read(self, limit: int) -> list[Any]:
        """The next block in order, whole; waits if it is not ready."""
        del limit
        self._in_flight -= self._in_hand
        self._in_hand = 0
        self.start()
        if not self._ahead:
            return []
        # It stays the next one if the wait is interrupted.
        block = self._ahead[0]
        awaited, waited = not block.done, 0.0
        if awaited:
            started = time.perf_counter()
            block.ready.acquire()
            waited = time.perf_counter() - started
        self._ahead.popleft()
        self._taken_elements += len(block.elements)
        self._taken_blocks += 1
        self._awaited_blocks += awaited
        self._in_flight -= 1
        self._in_hand = block.count - 1
        self._adapt(block, waited)
        self.start()
        return block.elements

    def _adapt(self, block: Block, waited: float) -> None:
        """Sizes the blocks to come by what this one took, and the number of those who read them."""
        if not block.elements:
            return
        if self._is_slow:
            self._thread_count.note(
                block.turn, block.count, block.begin, block.seconds, block.busy, waited
            )
            self._threads.at_most(self._thread_count.now)
            self._threads.set_turn(self._thread_count.turn)
        self._seconds_per_element.append(block.seconds / len(block.elements))
        self._block_size = min(self._wanted_block_size(), 2 * max(1, block.count))
        found = _element_bytes(block.elements)
        if found is not None:
            before = found if self._bytes_per_element is None else self._bytes_per_element
            # Large ones among small ones count for a while.
            weight = min(1.0, len(block.elements) * (_RISE if found > before else _FALL))
            self._bytes_per_element = before + weight * (found - before)

    def seek(self, index: int) -> None:
        """Goes on at `index`; forgets what was read ahead, unless that begins there."""
        if index != (self._ahead[0].start if self._ahead else self._submitted):
            self._forget()
            self._submitted = index

    def _forget(self) -> None:
        for block in self._ahead:
            if not block.done:
                block.count = 0  # A thread that has not begun it yet skips it.
        self._ahead.clear()
        self._in_flight = self._in_hand = 0

    def close(self) -> None:
        """Ends the threads and waits for those in the middle of a block."""
        self._forget()
        self._submitted = self._stop
        self._finalizer()
        self._threads.join()


class SplitReader:
    """Reads one block at a time, by several threads when its elements are slow to read."""

    def __init__(self, dataset: Any, options: ReadOptions):
        self._dataset = dataset
        self._max_threads = options.num_threads if options.prefetch_buffer_size else 0
        self._seconds: collections.deque[float] = collections.deque(maxlen=3)
        self._threads = BlockThreads(dataset)
        weakref.finalize(self, self._threads.stop)

    def read(self, indices: IndexArray) -> list[Any]:
        """The elements at consecutive indices; those before an error, as `PartialRead`."""
        slow = len(self._seconds) == 3 and min(self._seconds) > _SLOW_ELEMENT
        if slow and self._max_threads > 1 and indices.size > 1:
            return self._read_split(indices)
        started = time.perf_counter()
        elements: list[Any] = self._dataset.read_many(indices)
        if elements:
            self._seconds.append((time.perf_counter() - started) / len(elements))
        return elements

    def _read_split(self, indices: IndexArray) -> list[Any]:
        self._threads.at_least(self._max_threads)
        parts = np.array_split(indices, min(self._max_threads, indices.size))
        blocks = [Block(int(part[0]), part.size) for part in parts]
        for block in blocks:
            self._threads.put(block)
        elements: list[Any] = []
        failure: Exception | None = None
        for block in blocks:
            block.ready.acquire()
            if failure is None:
                elements += block.elements
                if isinstance(block.elements, PartialRead):
                    failure = block.elements.error
        return elements if failure is None else PartialRead(elements, failure)
