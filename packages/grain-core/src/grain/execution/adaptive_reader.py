"""Read-ahead of map datasets in threads, where it pays off.

Reading starts in the consumer's thread, in chunks of growing size. Threads take over when elements are
slow to read, or when the consumer waits for something else between chunks, such as a device: they read
blocks of consecutive elements ahead, and the consumer takes the blocks in order. Where that does not pay
off, reading returns to the consumer's thread, so data in memory that is read as fast as it is consumed
has no threading overhead.

`ThreadedReader.read` blocks until the next block in order is ready; an interrupt of that wait changes
nothing. Errors are part of a block (`PartialRead`) and are raised in order by the iterator above. Blocks
in flight are bounded by the user's buffer and by `Policy.read_ahead_bytes`. Threads hold no reference to
a reader: one that is dropped ends its threads.
"""

from __future__ import annotations

import collections
import time
from typing import Any

from grain import tree
from grain._chunk_size import ChunkSizeController, chunk_size_for
from grain._policy import Policy, current_policy
from grain.dataset.to_iter import InlineReader
from grain.execution.block_threads import BlockThreads, ReadBlock
from grain.execution.thread_count import FastestReads, ThreadCount
from grain.options import ReadOptions


def make_reader(
    dataset: Any, start: int, stop: int, options: ReadOptions
) -> InlineReader | AdaptiveReader:
    """Return a reader of `dataset[start:stop]` that uses threads as the options allow."""
    if options.num_threads == 0 or options.prefetch_buffer_size == 0:
        return InlineReader(dataset, start, stop)
    return AdaptiveReader(dataset, start, stop, options)


class AdaptiveReader:
    """Reader in the consumer's thread until threads pay off, then in threads as long as they do."""

    def __init__(self, dataset: Any, start: int, stop: int, options: ReadOptions):
        self._dataset = dataset
        self._stop = stop
        self._options = options
        self._inline = InlineReader(dataset, start, stop)
        self._policy = policy = current_policy()
        # Elements per read in the consumer's thread.
        self._chunk_size = ChunkSizeController(policy.thread_block_seconds, policy.max_inline_chunk)
        self._next = start
        self._threads: ThreadedReader | None = None
        # Threads that are being ended; None once they have.
        self._former: ThreadedReader | None = None
        self._may_return = True
        self._watch = _ConsumerMonitor(policy)

    @property
    def in_threads(self) -> bool:
        """Whether threads read now."""
        return self._threads is not None

    @property
    def prefetched(self) -> int:
        """The number of elements that threads have read and the consumer has not taken."""
        return 0 if self._threads is None else self._threads.prefetched

    def read(self, limit: int) -> list[Any]:
        if self._threads is not None:
            elements = self._threads.read(limit)
            self._next += len(elements)
            if self._may_return and self._threads.does_not_pay_off:
                self._return_to_consumer()
            return elements
        self._watch.begin()
        elements = self._inline.read(min(limit, self._chunk_size.size))
        self._chunk_size.observe(elements, self._watch.end(len(elements)))
        self._next += len(elements)
        if self._watch.threads_pay_off:
            self._start_threads(_element_bytes(elements, self._policy.size_samples))
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
            self._policy,
        )
        try:
            threads.start()
        except RuntimeError:  # The system has no more threads now.
            self._watch = _ConsumerMonitor(self._policy, was_reset=True)
        else:
            self._threads = threads

    def _return_to_consumer(self) -> None:
        """Read in the consumer's thread again; threads get a second chance, but no third."""
        self._inline.seek(self._next)
        watch = _ConsumerMonitor(self._policy, was_reset=True)
        # Without a call in between. An interrupt of the end of the threads must not leave them in use.
        self._former, self._threads = self._threads, None
        self._may_return, self._watch = not self._watch.was_reset, watch
        self._end_former()

    def _end_former(self) -> None:
        if self._former is not None:
            self._former.close()
            self._former = None

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
        self._end_former()
        if self._threads is not None:
            self._threads.close()


class _ConsumerMonitor:
    """Measures reads in the consumer's thread, and the consumer's waits in between."""

    def __init__(self, policy: Policy, was_reset: bool = False):
        self.was_reset = was_reset
        self._policy = policy
        self._reading = 0.0  # Seconds spent reading.
        self._busy = 0.0  # Seconds of processor time among them.
        self._waiting = 0.0  # Seconds between reads in which the consumer did not compute.
        self._fastest = FastestReads(3)
        self._started = (0.0, 0.0)
        self._ended: tuple[float, float] | None = None

    def begin(self) -> None:
        self._started = time.perf_counter(), time.thread_time()
        if self._ended is not None:
            paused = self._started[0] - self._ended[0]
            computed = self._started[1] - self._ended[1]
            self._waiting += max(0.0, paused - computed)

    def end(self, count: int) -> float:
        """Return the seconds that reading `count` elements took."""
        self._ended = time.perf_counter(), time.thread_time()
        seconds, busy = self._ended[0] - self._started[0], self._ended[1] - self._started[1]
        self._reading += seconds
        self._busy += busy
        self._fastest.add(seconds, busy, count)
        return seconds

    @property
    def seconds_per_element(self) -> float | None:
        """Seconds per element without contention; None if no element was read."""
        return self._fastest.seconds

    @property
    def reading_waits(self) -> bool:
        """Whether reading mostly waits for I/O; assumed before the first read."""
        return self._busy <= (1 - self._policy.waiting_share) * self._reading

    def forget_pause(self) -> None:
        self._ended = None

    @property
    def threads_pay_off(self) -> bool:
        """Whether to start threads. One slow read is no evidence: it may have opened a file."""
        policy = self._policy
        if self._reading > policy.read_evidence_seconds and self._fastest.are_slow(policy):
            return self._fastest.is_full
        needed = policy.read_evidence_seconds * (20 if self.was_reset else 2)
        return self._waiting > max(needed, policy.waiting_share * self._reading)


def _element_bytes(elements: list[Any], samples: int) -> float | None:
    """Return the approximate mean size of elements; None if there is none."""
    present = [element for element in elements if element is not None]
    if not present:
        return None
    sample = present[:: -(-len(present) // samples)]
    return sum(map(tree.nbytes, sample)) / len(sample)


class ThreadedReader:
    """Reader of blocks ahead in threads, in order.

    Args:
        dataset: The map dataset.
        start: First index.
        stop: Index after the last.
        options: Number of threads and size of the buffer.
        seconds_per_element: Seconds to read an element, if known.
        element_bytes: Approximate size of an element, if known.
        waits: Whether reading mostly waits for I/O.
        policy: Tuning constants.
    """

    def __init__(
        self,
        dataset: Any,
        start: int,
        stop: int,
        options: ReadOptions,
        seconds_per_element: float | None,
        element_bytes: float | None,
        waits: bool,
        policy: Policy,
    ):
        self._policy = policy
        self._stop = stop
        self._max_threads = options.num_threads
        self._thread_count = ThreadCount(options.num_threads, seconds_per_element, waits, policy)
        self._buffer = options.prefetch_buffer_size
        self._threads = BlockThreads(dataset)
        self._ahead: collections.deque[ReadBlock] = collections.deque()
        self._submitted = start
        # Elements in flight, including those of the last block that the consumer has not reached.
        self._in_flight = 0
        # Elements of the last block that the consumer has not reached.
        self._in_hand = 0
        self._fastest = FastestReads(64)
        if seconds_per_element is not None:
            self._fastest.add(seconds_per_element, 0.0 if waits else seconds_per_element, 1)
        self._block_size = self._wanted_block_size()
        self._bytes_per_element = element_bytes
        self._taken_elements = 0
        self._taken_blocks = 0
        self._awaited_blocks = 0

    @property
    def _is_slow(self) -> bool:
        return self._fastest.are_slow(self._policy)

    @property
    def _useful_threads(self) -> int:
        """Number of threads to use: for cheap elements one is enough, and more would contend with it."""
        return self._thread_count.now if self._is_slow else 1

    def _wanted_block_size(self) -> int:
        seconds, policy = self._fastest.seconds, self._policy
        if seconds is None:
            return 1
        waits = self._fastest.wait(policy)
        wanted = chunk_size_for(
            policy.waiting_block_seconds if waits else policy.thread_block_seconds, seconds
        )
        # Two blocks per thread must fit into the buffer.
        fitting = self._buffer // (2 * self._useful_threads)
        return max(1, min(wanted, fitting))

    @property
    def prefetched(self) -> int:
        """The number of elements of blocks that were read and not taken."""
        return sum(block.count for block in self._ahead if block.done)

    @property
    def does_not_pay_off(self) -> bool:
        """Whether elements are cheap and the consumer waits for them nevertheless."""
        return (
            self._taken_blocks >= self._policy.read_ahead_trial_blocks
            and not self._is_slow
            and self._awaited_blocks > self._taken_blocks // 2
        )

    def start(self, awaited: int = 0) -> None:
        """Submit blocks to the threads, as far ahead as the buffer allows.

        Args:
            awaited: Elements that the consumer waits for; they are not ahead of it.
        """
        if self._ahead:  # An interrupt may have come before the last block was counted.
            last = self._ahead[-1]
            self._submitted = last.start + last.count
        allowed = self._allowed() + awaited
        size = max(1, min(self._block_size, allowed // (2 * self._useful_threads)))
        while self._submitted < self._stop and self._in_flight < allowed:
            room = allowed - self._in_flight
            if room < size and self._ahead:
                return  # A small block has the overhead of a whole one.
            count = min(size, self._stop - self._submitted, room)
            # First a thread to read it: without one, waiting for the block would never end.
            self._threads.at_least(min(self._useful_threads, len(self._ahead) + 1))
            block = ReadBlock(self._submitted, count)
            self._threads.submit(block)
            self._ahead.append(block)
            self._submitted += count
            self._in_flight += count

    def _allowed(self) -> int:
        """Return how many elements may be in flight."""
        if self._bytes_per_element is None or self._fastest.seconds is None:
            return min(self._buffer, 2)  # The cost of an element is not known yet.
        affordable = int(self._policy.read_ahead_bytes / max(1.0, self._bytes_per_element))
        # Not all at once: the next elements may be much larger than the few that were seen.
        seen = max(2 * self._max_threads, 4 * self._taken_elements)
        return min(self._buffer, max(affordable, self._max_threads), seen)

    def read(self, limit: int) -> list[Any]:
        """Return the elements of the next block in order; wait until they are ready."""
        del limit
        self._in_flight -= self._in_hand
        self._in_hand = 0
        self.start()
        if not self._ahead:
            return []
        # It stays the next block if the wait is interrupted.
        block = self._ahead[0]
        awaited, waited = not block.done, 0.0
        if awaited:
            self.start(awaited=1)
            started = time.perf_counter()
            self._threads.wait(block)
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

    def _adapt(self, block: ReadBlock, waited: float) -> None:
        """Adapt the size of blocks and the number of threads to a block that was taken."""
        if not block.elements:
            return
        if self._is_slow:
            self._thread_count.observe(
                block.generation, block.count, block.begin, block.seconds, block.busy, waited
            )
            self._threads.at_most(self._thread_count.now)
            self._threads.set_generation(self._thread_count.generation)
        self._fastest.add(block.seconds, block.busy, len(block.elements))
        self._block_size = min(self._wanted_block_size(), 2 * max(1, block.count))
        policy = self._policy
        found = _element_bytes(block.elements, policy.size_samples)
        if found is not None:
            before = found if self._bytes_per_element is None else self._bytes_per_element
            # The estimate rises fast and falls slowly: large elements among small ones count for a while.
            step = policy.size_rise if found > before else policy.size_fall
            weight = min(1.0, len(block.elements) * step)
            self._bytes_per_element = before + weight * (found - before)

    def seek(self, index: int) -> None:
        """Continue at `index`; discard the blocks in flight unless they start there."""
        if index != (self._ahead[0].start if self._ahead else self._submitted):
            self._discard()
            self._submitted = index

    def _discard(self) -> None:
        # At once, so that an interrupt leaves no cancelled block among those that are read.
        dropped, self._ahead = self._ahead, collections.deque()
        self._in_flight = self._in_hand = 0
        for block in dropped:
            if not block.done:
                block.count = 0  # A thread that has not started it skips it.

    def close(self) -> None:
        """End the threads and wait for their current blocks."""
        self._discard()
        self._submitted = self._stop
        self._threads.stop()
        self._threads.join()
