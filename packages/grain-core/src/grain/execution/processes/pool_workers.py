"""The workers of a pool as its peers: messages to and from them, their loss and their replacement.

Sending and receiving never block. A worker whose socket is closed, whose process has exited, or that takes
longer than the `task_timeout` is lost: the results that it sent before are read, its other tasks are recorded
as lost, and a replacement starts, which receives the definitions again. Failures of the pool as a whole are
recorded in `failure` and raised by the pool. All methods are called with the pool's lock held.
"""

from __future__ import annotations

import select
import signal
import time
from collections import deque

from grain._config import config
from grain._policy import Policy
from grain.execution.processes import array_pickling, error_report, framing
from grain.execution.processes.bindings import Loss, Part, Parts
from grain.execution.processes.channel import Channel, ChannelLostError
from grain.execution.processes.control import TAKING
from grain.execution.processes.error_report import WorkerDied
from grain.execution.processes.framing import Frame, FrameKind
from grain.execution.processes.local_worker import LocalWorker, name_of_task
from grain.execution.processes.poll_set import PollSet
from grain.execution.processes.pool_errors import ErrorFactory, error_factory, interrupted
from grain.execution.processes.restart_budget import RestartBudget
from grain.execution.processes.slots import explain_failure
from grain.execution.processes.supervisor import WorkerProcesses
from grain.execution.processes.task_queue import TaskQueue
from grain.execution.processes.task_table import TaskTable

# Time for the exit of a process whose socket is closed.
_EXIT_SECONDS = 1.0


class PoolWorkers:
    """Messages to and from the workers of a pool, and the replacement of lost workers.

    Args:
        processes: The running workers.
        table: The tasks of the pool.
        policy: Tuning constants.
        max_restarts: Most replacements of lost workers, per worker, within a time of the policy.
        task_timeout: Seconds after which a worker that computes one task is lost; None for no limit.

    Attributes:
        processes: The running workers.
        parts: The definitions of the pool.
        poll_set: The descriptors to poll before `handle_events`.
        check_seconds: Seconds between two checks of all workers.
        failure: Makes the error of every later call, once the pool is unusable.
        warnings: Warnings that the next call of the user issues.
        restarts: Number of lost workers that were replaced.
        recycled: Number of workers that were replaced because of their memory.
        capacity_changes: Number of times that a worker came or went.
    """

    def __init__(
        self,
        processes: WorkerProcesses,
        table: TaskTable,
        *,
        policy: Policy,
        max_restarts: int,
        task_timeout: float | None,
    ) -> None:
        self.processes = processes
        self.parts = Parts()
        self.poll_set = PollSet()
        self.failure: ErrorFactory | None = None
        self.warnings: deque[str] = deque()
        self.restarts = 0
        self.recycled = 0
        self.capacity_changes = 0
        self.check_seconds = min(policy.liveness_check_seconds, (task_timeout or 60.0) / 2)
        self._table = table
        self._queue = TaskQueue(processes.tasks, processes.untaken)
        self._slots_warned = False
        self._max_restarts = max_restarts
        self._restart_budget = RestartBudget(
            max_restarts * processes.count, policy.restart_window_seconds
        )
        self._task_timeout = task_timeout
        self._silence_seconds = policy.worker_silence_seconds
        self._start_timeout: float = config.process_start_timeout
        self._checked = time.monotonic()
        for worker in processes.live:
            self.poll_set.add(worker)

    def fail(self, make_error: ErrorFactory = interrupted) -> None:
        """Make the pool unusable, with this error unless there is one already."""
        self.failure = self.failure or make_error

    @property
    def serving(self) -> list[LocalWorker]:
        """Workers that accept tasks."""
        return [worker for worker in self.processes.live if worker.retiring is None]

    def resize(self, count: int) -> None:
        """Start or retire workers."""
        self.processes.count = count
        self._restart_budget.restarts = self._max_restarts * count
        for worker in self.processes.live:
            if worker.index >= count and worker.retiring is None:
                self._retire(worker)
        self.capacity_changes += 1
        self._fill_up()

    def warn_of_slots(self, channel: Channel) -> None:
        """Warn once if shared memory is not available on either side."""
        if self._slots_warned:
            return
        failure = channel.slots.failure or channel.views.failure
        if failure is not None:
            self._slots_warned = True
            self.warnings.append(explain_failure(failure))

    # Sending

    def queue_task(self, ticket: int, pickled: array_pickling.Pickled) -> None:
        """Send a task that any worker may take."""
        frame = framing.inline_frame(FrameKind.TASK, ticket, pickled, self.parts.sequence)
        self._queue.put(frame)

    def send(
        self, worker: LocalWorker, kind: int, number: int, pickled: array_pickling.Pickled
    ) -> None:
        """Send a message to one worker, unless it is lost."""
        self._send(worker, kind, number, pickled, self.parts.sequence)

    def define(self, number: int, content: bytes, affinity: int | None) -> None:
        """Send a part to the workers that need it, and later to their replacements."""
        part = self.parts.add(number, content, affinity)
        for worker in self._holders(affinity):
            self._send_part(worker, part)

    def release(self, number: int) -> None:
        """Remove a part from the workers that hold it."""
        part = self.parts.remove(number)
        # Without a definition, it is a part of the job, which all workers have.
        for worker in self._holders(None if part is None else part.affinity):
            self.send(worker, FrameKind.RELEASE, number, _NOTHING)

    def _send_part(self, worker: LocalWorker, part: Part) -> None:
        pickled = array_pickling.Pickled(part.content, [])
        self._send(worker, FrameKind.DEFINE, part.number, pickled, part.sequence)

    def _send(
        self,
        worker: LocalWorker,
        kind: int,
        number: int,
        pickled: array_pickling.Pickled,
        sequence: int,
    ) -> None:
        if worker.lost or worker.retiring is not None:
            return
        try:
            worker.channel.send(kind, number, pickled, sequence)
        except ConnectionError:
            self._lose(worker)

    def _holders(self, affinity: int | None) -> list[LocalWorker]:
        """Return the workers that hold the parts of an affinity."""
        if affinity is None:
            return self.processes.live
        worker = self._table.bindings.worker(affinity)
        return [] if worker is None else [worker]

    def bound_worker(self, affinity: int) -> LocalWorker:
        """Return the worker of an affinity, bound and given its parts if there was none."""
        bindings = self._table.bindings
        worker = bindings.worker(affinity)
        if worker is None:
            worker = bindings.bind(affinity, self.serving)
            for part in self.parts.of(affinity):
                self._send_part(worker, part)
        return worker

    def least_loaded(self) -> LocalWorker:
        """Return the worker with the fewest tasks of its own."""
        assigned = list(self._table.waiting.values())
        return min(self.serving, key=assigned.count)

    # Receiving

    def watch_for_room(self) -> None:
        """Make the poll return also when a socket accepts more of the backlog."""
        self.poll_set.watch_for_room(self._queue.full_fd)

    def handle_events(self, events: list[tuple[int, int]]) -> None:
        """Read and send what the polled descriptors allow; check all workers from time to time."""
        try:
            for fd, event in events:
                worker = self.poll_set.worker(fd)
                if worker is None:
                    self._queue.flush()
                elif fd == worker.process.fd:
                    if worker.process.poll():  # not a new worker with the descriptor of a lost one
                        self._lose(worker)
                else:
                    self._exchange(worker, event)
            if time.monotonic() - self._checked >= self.check_seconds:
                self._check_workers()
        except BaseException:
            # Messages that were read and not recorded are lost.
            self.fail()
            raise

    def _exchange(self, worker: LocalWorker, event: int) -> None:
        try:
            for frame in worker.channel.receive():
                self._record(worker, frame)
            if event & select.POLLOUT:
                worker.channel.flush()
        except ChannelLostError as error:
            self.fail(error_factory(RuntimeError, f"Worker {worker.index}: {error}."))
        except (EOFError, ConnectionError):
            self._lose(worker)

    def _record(self, worker: LocalWorker, frame: Frame) -> None:
        channel, ticket = worker.channel, frame.ticket
        if frame.kind == FrameKind.WARNING:
            if not self._slots_warned:
                self._slots_warned = True
                self.warnings.append(channel.decode(frame))
        elif frame.kind == FrameKind.RETIRE:
            worker.retiring = channel.decode(frame)
        elif ticket == 0:
            report = error_report.ErrorReport(*channel.decode(frame))
            self.fail(lambda: error_report.rebuild(report))
        elif frame.kind == FrameKind.ACCEPTED:
            if ticket in self._table.waiting:
                self._table.waiting[ticket] = worker
            worker.background.add(ticket)
        else:
            if worker.background:
                worker.background.discard(ticket)
            self._table.record_arrival(channel, frame)

    # Loss of workers

    def _check_workers(self) -> None:
        """Look for workers that have died, that do not start, or that do not answer."""
        now = time.monotonic()
        # While the consumer did something else, a worker may have waited for it to read a result.
        attended = now - self._checked < 4 * self.check_seconds
        self._checked = now
        for worker in self.processes.live:
            if worker.process.poll():
                self._lose(worker)
                continue
            if not attended:
                worker.forget()
            if not worker.page.running:
                if now - worker.started > self._start_timeout:
                    self._fail_to_start(worker)
                continue
            current, seconds = worker.observe(now)
            if (
                self._task_timeout is not None
                and current not in (0, TAKING)
                and seconds > self._task_timeout
            ):
                stack = worker.stack()
                worker.process.send_signal(signal.SIGKILL)
                self._lose(worker, f"task timeout after {self._task_timeout:g} seconds. {stack}")
            elif seconds > self._silence_seconds and worker.warned != current:
                worker.warned = current
                self._warn_of_silence(worker, current, seconds)
        if self.failure is None:
            self._fill_up()

    def _fail_to_start(self, worker: LocalWorker) -> None:
        self.fail(
            error_factory(
                RuntimeError,
                f"The interpreter of worker {worker.index} of {self.processes.count} (process "
                f"{worker.process.pid}) did not start within {self._start_timeout:g} seconds, the setting "
                "`process_start_timeout`. Start fewer workers, or allow more time: "
                "`grain.config.update('process_start_timeout', seconds)`, or GRAIN_PROCESS_START_TIMEOUT "
                "in the environment.",
            )
        )

    def _warn_of_silence(self, worker: LocalWorker, current: int, seconds: float) -> None:
        doing = name_of_task(current) if worker.page.loaded else "loading its job"
        count, pid = self.processes.count, worker.process.pid
        self.warnings.append(
            f"Worker {worker.index} of {count} (process {pid}) has been {doing} "
            f"for {seconds:.0f} seconds. {worker.stack()}\nA `task_timeout` replaces such workers."
        )

    def _lose(self, worker: LocalWorker, cause: str | None = None) -> None:
        """Record what a worker has taken with it, and replace it."""
        if worker.lost:
            return
        if not worker.process.wait(_EXIT_SECONDS):
            # Its socket is closed, so it can do nothing useful any more.
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait(_EXIT_SECONDS)
        self._drain(worker)
        self.poll_set.remove(worker)
        pid, code = worker.process.pid, worker.process.returncode
        if cause is None:
            cause = worker.retiring or error_report.describe_exit(code)
        # Also if none is missing: the queue may have woken this worker, and no other, for a task in it.
        untraced = self._untraced_tasks(worker)
        lost = self._table.record_losses(worker, f"process {pid}: {cause}", untraced)
        if self.processes.cancelled is not None:
            for ticket in lost:
                self.processes.cancelled.add(ticket)
        self._table.open_arrivals(worker.channel)
        self.processes.put_away(worker)
        self.capacity_changes += 1
        if self.failure is not None:
            return
        if worker.retiring is None:
            self._count_restart(worker, cause, lost)
        elif worker.index < self.processes.count:
            self.recycled += 1
        if self.failure is None:
            self._fill_up()

    def _count_restart(self, worker: LocalWorker, cause: str, lost: set[int]) -> None:
        count, pid = self.processes.count, worker.process.pid
        budget = self._restart_budget
        if budget.take(time.monotonic()):
            self.restarts += 1
            if not lost:  # Otherwise `TaskLost` says so.
                self.warnings.append(
                    f"Worker {worker.index} of {count} (process {pid}) was lost and is replaced: {cause}."
                )
            return
        current = worker.page.current[0]
        ticket = current if current in lost else None
        detail = ""
        if self._max_restarts:
            detail = f"{budget.restarts} workers were replaced within {budget.seconds:g} seconds"
        self.failure = error_factory(
            WorkerDied, worker.index, count, pid, worker.process.returncode, ticket, detail
        )

    def _untraced_tasks(self, dead: LocalWorker) -> set[int]:
        """Offer the tasks in the queue again; return those that a worker may have taken without recording it.

        These are the tasks that are neither in the queue nor recorded by another worker. Another worker that
        takes a task at this moment makes it appear missing; that task is computed twice.
        """
        known = self._queue.take_back()
        known.update(w.page.current[0] for w in self.processes.live if w is not dead)
        self._queue.flush()
        return {
            t for t, assigned in self._table.waiting.items() if assigned is None and t not in known
        }

    def _drain(self, worker: LocalWorker) -> None:
        """Read what a worker sent before it exited: results, or the error of its start."""
        poll = select.poll()
        poll.register(worker.channel.socket, select.POLLIN)
        try:
            while poll.poll(0):
                for frame in worker.channel.receive():
                    self._record(worker, frame)
        except (EOFError, OSError):
            return

    def _retire(self, worker: LocalWorker) -> None:
        """Let a worker exit after its current task."""
        worker.retiring = "the number of workers was reduced"
        self._table.bindings.unbind(worker, Loss(worker.index, worker.retiring, started=False))
        worker.channel.stop_sending()
        self.processes.set_aside(worker)

    def _fill_up(self) -> None:
        """Start the workers that are missing."""
        for index in range(self.processes.count):
            present = self.processes.workers.get(index)
            if present is not None and not present.lost:
                continue
            try:
                worker = self.processes.start(index)
            except OSError as error:
                self._cannot_start(index, error)
                return
            self.poll_set.add(worker)
            for part in self.parts.of(None):
                self._send_part(worker, part)
            # The last definitions may have been released.
            self._send_part(worker, Part(0, b"", None, self.parts.sequence))
            self.capacity_changes += 1

    def _cannot_start(self, index: int, error: OSError) -> None:
        """Continue with the workers that are left, if there are any; the start is tried again later."""
        text = f"Worker {index} of {self.processes.count} could not be started: {error}"
        if not self.processes.live:
            self.failure = error_factory(type(error), error.errno, text)
        elif text not in self.warnings:
            self.warnings.append(f"{text}. The others continue.")


_NOTHING = array_pickling.Pickled(b"", [])
