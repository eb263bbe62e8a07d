"""Tuning constants of the library, as one frozen value.

No field changes the elements of a pipeline, their order or their states; all of them trade speed against
memory. Iterators, readers, pools and worker sessions read `current_policy()` once, when they are made, and
worker processes receive the policy of their session. Constants of a wire or memory format (frame layout,
alignment) are not policy: both sides of a connection must agree on them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn


class Policy:
    """Tuning constants, frozen; times are in seconds, sizes in bytes unless they count elements.

    A class attribute is the default of a field, so that defining sixty fields costs no time at import, and a
    pickle holds only what differs from the defaults.

    Args:
        **changes: Fields with other values than their defaults.

    >>> policy = Policy(block_seconds=0.05)
    >>> policy, policy.max_chunk
    (Policy(block_seconds=0.05), 1024)
    """

    # Chunks: elements handed between iterators in one call.

    # Time in which a chunk should be made: long enough to hide the per-chunk overhead, short enough not to
    # delay the consumer.
    chunk_seconds: float = 0.0015
    # Most elements of a chunk.
    max_chunk: int = 1024
    # Most bytes of a chunk of more than one element.
    chunk_bytes: int = 4 << 20
    # Most elements that an operation with its own parent cursor takes in one call.
    max_cursor_chunk: int = 256
    # Time and most elements of a chunk taken from one cycle slot of an interleave.
    interleave_chunk_seconds: float = 0.0001
    max_interleave_chunk: int = 1024
    # Elements in a window of the drop rate monitor, and the time between two warnings about one operation.
    drop_rate_window: int = 1000
    drop_warning_seconds: float = 60.0

    # Interleave: opening and reading ahead in threads.

    # An element that takes longer than this to read is worth a thread. Also used by readers of map datasets.
    slow_element_seconds: float = 0.0002
    # Elements observed before they are judged slow.
    element_latency_samples: int = 8
    # Opening a dataset that takes longer than this is done ahead, and after how many observations.
    slow_open_seconds: float = 0.001
    open_latency_samples: int = 3
    # A latency this many times above its limit needs no further observations.
    clearly_slow_factor: float = 25.0
    # Read-ahead threads that did not pay off, before no more are started.
    max_read_ahead_reversals: int = 64

    # Read-ahead of map datasets in threads.

    # Time that a block should occupy a thread, and one whose reading mostly waits.
    thread_block_seconds: float = 0.001
    waiting_block_seconds: float = 0.004
    # An element that mostly waits is worth a thread if it takes longer than this.
    waiting_element_seconds: float = 0.00005
    # Most elements read at a time in the consumer's thread.
    max_inline_chunk: int = 1 << 16
    # Most bytes of blocks that are ready or in flight, beyond the minimum that threads need.
    read_ahead_bytes: int = 256 << 20
    # Reading must take this long before threads are considered.
    read_evidence_seconds: float = 0.005
    # Reading or the consumer waits for I/O if at least this share of the time no processor was busy.
    waiting_share: float = 0.5
    # Elements of a block whose size is measured, and the weight of each in the running estimate where it is
    # larger (rise) or smaller (fall) than the estimate.
    size_samples: int = 8
    size_rise: float = 1 / 4
    size_fall: float = 1 / 16
    # Blocks after which read-ahead that did not pay off is stopped.
    read_ahead_trial_blocks: int = 32

    # Number of threads.

    # Numbers of threads tried before the maximum.
    thread_levels: tuple[int, ...] = (1, 2, 4)
    # Blocks and seconds of a measuring window, at least.
    thread_window_blocks: int = 8
    thread_window_seconds: float = 0.02
    # A window counts when the consumer waited for threads at least this share of it.
    thread_waited_share: float = 0.25
    # All threads together should be this many times as fast as the consumer's thread alone.
    thread_min_gain: float = 1.3
    # Threads that together keep between this many processors busy may contend for the interpreter lock.
    contended_processors: tuple[float, float] = (0.4, 1.3)
    # Threads busy for less than this share of their earlier busy time wait for something new.
    thread_busy_change: float = 0.5
    # Gain required of more threads, and loss accepted from fewer.
    more_threads_gain: float = 1.15
    fewer_threads_gain: float = 0.9
    # Windows before a decision is tested again; doubled after each test that confirms it.
    thread_hold_windows: int = 64

    # Tasks of worker processes.

    # Time that the first blocks should occupy a worker, and the factor by which it has grown after this many
    # blocks.
    block_seconds: float = 0.003
    block_growth: float = 2.0
    block_growth_calls: int = 32
    # Elements beyond the user's buffer are computed ahead while a block is at most this large.
    block_bytes: int = 4 << 20
    # Python objects of a pipeline that are worth a warning when every worker loads them.
    large_job_bytes: int = 64 << 20
    # Blocks in flight per worker, at least.
    blocks_per_worker: int = 2
    # Blocks in flight beyond one per worker where a single element is larger than `block_bytes`.
    large_blocks_ahead: int = 1
    # Most bytes of all blocks that were enlarged to occupy the reading threads of workers.
    threaded_block_bytes: int = 256 << 20
    # Consecutive slow elements before a worker reads blocks in threads.
    waiting_evidence: int = 3
    # Tasks in flight and most elements of a chunk for a remote stream.
    stream_tasks: int = 2
    max_stream_chunk: int = 1024
    # Cost of offloading: per message, per element and per byte there and back.
    message_seconds: float = 100e-6
    element_seconds: float = 10e-6
    byte_seconds: float = 0.2e-9
    # Consecutive chunks for which the other choice (offload or not) would have been cheaper.
    offload_evidence: int = 3

    # Calls of worker sessions.

    # A call that is awaited for longer than `hedge_seconds`, and than `hedge_factor` times the slowest of the
    # last `hedge_samples` calls took, is submitted a second time while a worker is idle. A factor of 0 turns
    # this off.
    hedge_factor: float = 4.0
    hedge_seconds: float = 1.0
    hedge_samples: int = 16
    # Workers lost while they computed a task, before the task is blamed: it is divided, or named in an error.
    poison_losses: int = 2
    # Most bytes of results that inline and thread executors keep, and costs of a task and of an element for
    # threads.
    in_process_bytes: int = 1 << 30
    thread_message_seconds: float = 50e-6
    thread_element_seconds: float = 2e-6

    # Worker pools.

    # Time without a message after which the pool checks that its workers are alive.
    liveness_check_seconds: float = 0.5
    # Whether workers are forked by a process that has imported the library, where the system allows;
    # otherwise each worker is a new interpreter.
    fork_workers: bool = True
    # Time that this process is kept for the next pool.
    idle_template_seconds: float = 30.0
    # Time in which at most `max_restarts` lost workers, per worker, are replaced.
    restart_window_seconds: float = 600.0
    # Time on one task, or on loading the job, after which a warning says so.
    worker_silence_seconds: float = 60.0
    # Time that a worker has to exit by itself, and again after SIGTERM, before SIGKILL.
    worker_exit_seconds: float = 0.5
    # A slot not used for `slot_trim_age` allocations is freed; checked every `slot_trim_interval`.
    slot_trim_interval: int = 64
    slot_trim_age: int = 512

    # Shutdown of threads at interpreter exit.

    # Longest wait for the element a thread is computing, and the interval at which the wait is renewed.
    thread_join_seconds: float = 2.0
    thread_join_poll_seconds: float = 0.05
    # Longest wait for a thread inside a call into a device, which aborts the process if it is cut off.
    device_join_seconds: float = 120.0

    # Memory.

    # Buffers of freed arrays kept for reuse: how many, how many bytes, and the smallest.
    pooled_buffers: int = 4
    pooled_bytes: int = 128 << 20
    min_pooled_bytes: int = 256 << 10

    # Autotuning.

    # Gain required of a candidate that costs more, and loss accepted from one that costs less.
    tuning_gain: float = 1.1
    tuning_loss: float = 0.95
    # A dataset read whole in less time needs no threads or processes.
    tuning_start_seconds: float = 0.1
    # Longest measurement of one candidate, and of all of them unless the caller says otherwise.
    tuning_trial_seconds: float = 1.0
    tuning_seconds: float = 10.0
    # Most elements kept ready where options are picked by size, unless the caller says otherwise.
    picked_buffer: int = 1000
    # A trial whose elements come in large blocks may take this many times longer.
    tuning_patience: float = 3.0
    # Candidates: the larger number of threads, and the elements that each worker may keep ready.
    tuning_threads: int = 64
    tuning_worker_buffers: tuple[int, ...] = (4, 16)

    def __init__(self, **changes: Any) -> None:
        unknown = changes.keys() - type(self).__annotations__
        if unknown:
            raise TypeError(f"Policy has no field {sorted(unknown)}.")
        self.__dict__.update(changes)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"Policy is frozen; use `replace({name}={value!r})`.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash(tuple(self.values().items()))

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def values(self) -> dict[str, Any]:
        """Return all fields and their values."""
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def replace(self, **changes: Any) -> Policy:
        """Return a copy with other values for some fields."""
        return Policy(**{**vars(self), **changes})


DEFAULT_POLICY = Policy()

_current = DEFAULT_POLICY


def current_policy() -> Policy:
    """Return the policy of this process."""
    return _current


def install_policy(policy: Policy) -> None:
    """Make `policy` the policy of this process."""
    global _current
    _current = policy


@contextlib.contextmanager
def use_policy(**changes: Any) -> Iterator[Policy]:
    """Change fields of the process's policy inside the `with` block, in all threads.

    >>> with use_policy(max_chunk=16):
    ...     current_policy().max_chunk
    16
    """
    before = _current
    policy = before.replace(**changes)
    install_policy(policy)
    try:
        yield policy
    finally:
        install_policy(before)
