"""The actors of one gateway: start, dispatch, loss, replacement, resizing.

Tasks without affinity wait in one queue; every ready actor has a few of them, so that it is never idle
between two, and the number is reduced when results are so large that they would fill the object store.
Tasks with affinity go to the actor of their affinity at once, in order. An actor computes its tasks in the
order in which it received them, so the first one it has is the one that is being computed.

Loss: the task that an actor was computing, and all of its tasks with affinity, are reported as lost; its
other tasks return to the front of the queue. A replacement receives the job and all definitions before any
task. An affinity whose actor was lost while it had no task is remembered: its next task is reported as lost,
since the position that the actor held is gone. An idle actor that was not heard of for a while is called
before it gets a task, so that a task is not blamed for the end of an actor that was gone before. Actors that
are lost before they are ready are replaced with increasing delays. When the cluster is gone, no actor can be
replaced: `gone` is set, and nothing is replied, since a new gateway will compute the tasks.

Threads: methods may be called from any thread; replies of actors are handled in threads of the fleet. Ray may
block the start of an actor for a minute, with the lock held; what the watch over the cluster calls takes no
lock.

Large results of actors on this machine do not pass through the object store (see `slot_lender`). An actor
whose last large result did not is counted as one that does not fill the store; if slots run out, its next
result does, and it is counted again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import threading
import time
import weakref
from collections import deque
from typing import Any

import numpy as np

from grain.execution.processes.error_report import ErrorReport, report
from grain.memory import allocation
from grain_ray.cluster import (
    ActorHandle,
    ActorLostError,
    Cluster,
    ClusterGoneError,
    NodeLostError,
)
from grain_ray.loans import MIN_LOAN_BYTES, Handover, Invitation
from grain_ray.messages import (
    ActorInfo,
    Definition,
    Reply,
    Submit,
    TaskOutcome,
    error_reply,
    loss_reply,
)
from grain_ray.payload import Payload, own, unpack
from grain_ray.slot_lender import SlotLender

Future = concurrent.futures.Future


@dataclasses.dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Size and limits of a fleet.

    Attributes:
        count: Number of actors at first.
        max_bytes: Most bytes of results that may be in the object store.
        depth: Tasks that an actor has at a time, at most.
        first_delay: Seconds before an actor that did not start is started again; doubled each time.
        max_delay: Longest delay.
        start_failures: Actors in a row that may be lost before they are ready.
        trust_seconds: Time after its last reply for which an idle actor is taken to be alive.
    """

    count: int
    max_bytes: int
    depth: int = 2
    first_delay: float = 0.5
    max_delay: float = 15.0
    start_failures: int = 3
    trust_seconds: float = 0.5


class _Task:
    """A task of the fleet."""

    __slots__ = ("__weakref__", "affinity", "future", "payload")

    def __init__(self, payload: Payload, affinity: int | None):
        self.payload = payload
        self.affinity = affinity
        self.future: Future[Reply] = Future()

    def reply(self, reply: Reply) -> None:
        """Reply, unless the task was cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_result(reply)


class _Actor:
    """An actor and its tasks, in the order in which it computes them."""

    __slots__ = (
        "affinities",
        "handle",
        "heard",
        "host",
        "index",
        "invitation",
        "node",
        "pid",
        "probed",
        "retiring",
        "tasks",
        "uses_store",
    )

    def __init__(self, index: int, handle: ActorHandle):
        self.index = index
        self.handle = handle
        self.pid = 0  # 0 until it is ready
        self.host = ""
        self.node = ""  # "" until it is ready
        self.tasks: deque[_Task] = deque()
        self.affinities: set[int] = set()
        self.retiring = False
        self.heard = 0.0  # time of its last reply
        self.invitation: Invitation | None = None
        self.uses_store = True  # whether its next large result is expected in the object store
        self.probed = False  # whether it was called to find out that it is alive


class Fleet:
    """Actors that compute the tasks of one pool.

    Args:
        cluster: Starts actors.
        options: Size and limits.
        job: The job, loaded by every actor.
        setting: `sys.path` and environment of actors.
        lender: Lends shared memory to actors on this machine, if it is possible here.

    Attributes:
        losses: Number of actors that were lost.
        gone: Set when the cluster has refused to start an actor because it is another one by now.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: FleetOptions,
        job: Payload,
        setting: tuple[list[str], dict[str, str]],
        lender: SlotLender | None = None,
    ):
        self._cluster = cluster
        self._options = options
        self._setting = setting
        self._lender = lender
        self._job = cluster.share(job)
        self._lock = threading.RLock()
        self._handlers = concurrent.futures.ThreadPoolExecutor(2, "grain-fleet")
        self._actors: dict[int, _Actor] = {}
        self._queue: deque[_Task] = deque()
        # Weak: a result must be freed as soon as it is sent, since it occupies a slot.
        self._tasks: weakref.WeakSet[_Task] = weakref.WeakSet()
        self._definitions: dict[int, Definition] = {}
        self._bound: dict[int, _Actor] = {}
        # Affinities whose actor was lost while it had no task of theirs.
        self._forgotten: set[int] = set()
        self._unbound: deque[_Task] = deque()
        self._waiting_for_actor: list[Future[Any]] = []
        self._count = options.count
        self._result_bytes = 0
        self._copying = 0  # results that are being copied, and occupy the store meanwhile
        self._start_failures = 0
        self._timers: set[threading.Timer] = set()
        self._failure: ErrorReport | None = None
        self._closed = False
        self.losses = 0
        self.gone = threading.Event()
        self._heard = time.monotonic()
        with self._lock:
            self._start_missing()

    @property
    def capacity(self) -> int:
        """Number of actors that are ready."""
        return sum(1 for actor in list(self._actors.values()) if actor.pid and not actor.retiring)

    @property
    def silent_seconds(self) -> float:
        """Time since the last reply of any actor."""
        return time.monotonic() - self._heard

    def silent_nodes(self) -> dict[str, float]:
        """Return, for each node with tasks, the time since the last reply of any of its actors.

        Takes no lock, like `silent_seconds`: without a head, Ray blocks a thread that starts an actor.
        """
        actors = list(self._actors.values())
        now = time.monotonic()
        return {
            node: now - max(actor.heard for actor in actors if actor.node == node)
            for node in {actor.node for actor in actors if actor.tasks and actor.node}
        }

    def lose_node(self, node: str) -> None:
        """Give up the actors of a node that does not answer, in a thread of the fleet."""
        self._hand_over(self._lose_node, node)

    def _lose_node(self, node: str) -> None:
        error = NodeLostError("its node does not answer")
        with self._lock:
            for actor in [a for a in self._actors.values() if a.node == node]:
                self._lose(actor, error)

    # Tasks

    def submit(self, message: Submit) -> Future[Reply]:
        """Submit a task; the future has its reply. Cancelling it skips a task that was not sent."""
        task = _Task(message.task, message.affinity)
        with self._lock:
            if self._failure is not None:
                task.reply(error_reply(self._failure))
                return task.future
            self._tasks.add(task)
            if task.affinity is None:
                self._queue.append(task)
            elif task.affinity in self._forgotten:
                self._forgotten.discard(task.affinity)
                task.reply(loss_reply(-1, "the actor that held its position was lost", False))
            else:
                self._unbound.append(task)
            self._dispatch()
        return task.future

    def define(self, message: Definition) -> None:
        """Give actors a part, before any later task."""
        with self._lock:
            self._definitions[message.number] = message
            for actor in self._ready():
                if message.affinity is None or message.affinity in actor.affinities:
                    actor.handle.call("define", message.number, message.part)

    def release(self, number: int) -> None:
        """Remove a part from all actors."""
        with self._lock:
            message = self._definitions.pop(number, None)
            affinity = None if message is None else message.affinity
            for actor in self._ready():
                if affinity is None or affinity in actor.affinities:
                    actor.handle.call("release", number)
            if affinity is not None:
                self._forgotten.discard(affinity)
                bound = self._bound.pop(affinity, None)
                if bound is not None:
                    bound.affinities.discard(affinity)

    def resize(self, count: int) -> None:
        """Change the number of actors; those that are too many finish their tasks first."""
        with self._lock:
            self._count = count
            active = [actor for actor in self._actors.values() if not actor.retiring]
            # Actors without a position to lose go first, among them those that have least to do.
            active.sort(key=lambda a: (a.pid != 0, len(a.affinities), len(a.tasks), -a.index))
            for actor in active[: max(0, len(active) - count)]:
                actor.retiring = True
                self._retire_if_idle(actor)
            self._start_missing()
            self._dispatch()

    def describe(self) -> Future[list[ActorInfo]]:
        """Return a future of the list of actors, once one is ready."""
        found: Future[list[ActorInfo]] = Future()
        with self._lock:
            self._waiting_for_actor.append(found)
            self._answer_descriptions()
        return found

    def close(self) -> None:
        """End all actors."""
        with self._lock:
            self._closed = True
            for timer in self._timers:
                timer.cancel()
            for actor in self._actors.values():
                self._end(actor)
            self._actors.clear()
            if self._lender is not None:
                self._lender.close()
        self._handlers.shutdown(wait=False, cancel_futures=True)

    # All methods below are called with the lock held.

    def _ready(self) -> list[_Actor]:
        return [actor for actor in self._actors.values() if actor.pid]

    def _dispatch(self, alive: _Actor | None = None) -> None:
        """Send tasks to actors as far as the limits allow; `alive` has just replied."""
        self._bind()
        while self._queue:
            ready = [actor for actor in self._ready() if not actor.retiring]
            actors = [actor for actor in ready if not actor.probed]
            if not actors:
                return
            free = self._with_room(actors)
            if not free:
                return
            actor = min(free, key=lambda actor: len(actor.tasks))
            if actor.tasks and len(actors) < len(ready):
                return  # An idle actor will have replied in a moment.
            if not actor.tasks and actor is not alive and self._is_doubtful(actor):
                self._probe(actor)
                continue
            task = self._queue.popleft()
            if not task.future.done():  # It may have been cancelled.
                self._send(actor, task)

    def _is_doubtful(self, actor: _Actor) -> bool:
        return time.monotonic() - actor.heard > self._options.trust_seconds

    def _probe(self, actor: _Actor) -> None:
        actor.probed = True
        future = actor.handle.call("ping")
        future.add_done_callback(functools.partial(self._hand_over, self._probe_done, actor))

    def _probe_done(self, actor: _Actor, future: Future[None]) -> None:
        error = future.exception()
        with self._lock:
            if error is not None:
                self._lose(actor, error)
                return
            actor.probed = False
            actor.heard = self._heard = time.monotonic()
            self._dispatch(actor)

    def _with_room(self, actors: list[_Actor]) -> list[_Actor]:
        """Return the actors that may have one more task, and whose results the object store has room for."""
        most, limit = self._options.depth, self._options.max_bytes
        filling = sum(1 for actor in actors if actor.uses_store)
        depth = most if filling * most * self._result_bytes <= limit else 1
        held = self._copying + sum(len(a.tasks) for a in self._actors.values() if a.uses_store)
        if held > 0 and (held + 1) * self._result_bytes > limit:
            depth = 0
        return [a for a in actors if len(a.tasks) < (depth if a.uses_store else most)]

    def _bind(self) -> None:
        """Send tasks with affinity to the actor of their affinity, or bind it to another one."""
        held: deque[_Task] = deque()
        while self._unbound:
            task = self._unbound.popleft()
            assert task.affinity is not None
            actor = self._bound.get(task.affinity)
            if actor is None:
                ready = [actor for actor in self._ready() if not actor.retiring]
                if not ready:
                    held.append(task)
                    continue
                actor = min(ready, key=lambda a: (len(a.affinities), a.index))
                self._bound[task.affinity] = actor
                actor.affinities.add(task.affinity)
                for message in self._definitions.values():
                    if message.affinity == task.affinity:
                        actor.handle.call("define", message.number, message.part)
            self._send(actor, task)
        self._unbound = held

    def _send(self, actor: _Actor, task: _Task) -> None:
        actor.tasks.append(task)
        future = actor.handle.call("run", task.payload)
        future.add_done_callback(functools.partial(self._hand_over, self._finish, actor, task))

    def _hand_over(self, handler: Any, *arguments: Any) -> None:
        """Handle a reply in a thread of the fleet, not in the cluster's, which must not be delayed."""
        with contextlib.suppress(RuntimeError):  # The fleet was closed.
            self._handlers.submit(self._handle, handler, *arguments)

    def _handle(self, handler: Any, *arguments: Any) -> None:
        try:
            handler(*arguments)
        except Exception as error:  # Without a reply, the consumer would wait for ever.
            with self._lock:
                self._fail(report(error, where="the gateway"))

    def _finish(self, actor: _Actor, task: _Task, future: Future[Reply]) -> None:
        error = future.exception()
        if error is not None:
            with self._lock:
                self._lose(actor, error)
            return
        reply = Reply(*future.result())
        del future
        with self._lock:
            slots = self._claim(actor, reply)
            if slots is None:
                # It was given up before, and its tasks were reported or requeued; if not, they are now.
                self._lose(actor, ActorLostError("the memory of its result was lost"))
                return
            is_wanted = reply.outcome is TaskOutcome.VALUE and not task.future.done()
            copies = 1 if reply.handover is None else 0
            with contextlib.suppress(ValueError):
                actor.tasks.remove(task)
            actor.heard = self._heard = time.monotonic()
            if is_wanted:
                self._learn_size(actor, Payload(*reply.content).nbytes, reply.handover)
                self._copying += copies
            self._retire_if_idle(actor)
            self._dispatch()  # Not later: the actor computes during the copy.
        if is_wanted:
            # The store's memory is read-only and must be free for the next result.
            content = own(Payload(*reply.content), allocation.allocate)
            for region in () if reply.handover is None else reply.handover.regions:
                memory = np.frombuffer(slots[region.serial], np.uint8)
                content.arrays[region.array] = memory[region.offset : region.offset + region.size]
                del memory
            reply = reply._replace(content=content, handover=None)
        slots.clear()
        with self._lock:
            if is_wanted:
                self._copying -= copies
                self._dispatch()
            capacity = self.capacity
        task.reply(reply._replace(outcome=TaskOutcome(reply.outcome), capacity=capacity))

    def _claim(self, actor: _Actor, reply: Reply) -> dict[int, memoryview] | None:
        """Return the slots of a reply, by serial number; None if they are gone with the actor."""
        if reply.handover is None:
            return {}
        if self._lender is None or actor.invitation is None:
            return None
        return self._lender.claim(actor.invitation, reply.handover.number)

    def _learn_size(self, actor: _Actor, nbytes: int, handover: Handover | None) -> None:
        if handover is not None:
            nbytes += sum(region.size for region in handover.regions)
        if handover is not None or nbytes >= MIN_LOAN_BYTES:
            actor.uses_store = handover is None
        self._result_bytes = max(nbytes, int(0.9 * self._result_bytes))

    # Actors

    def _start_missing(self) -> None:
        active = sum(1 for actor in self._actors.values() if not actor.retiring)
        for _ in range(self._count - active):
            index = next(i for i in range(len(self._actors) + 1) if i not in self._actors)
            try:
                self._start(index)
            except ClusterGoneError:
                self.gone.set()
                return

    def _start(self, index: int) -> None:
        handle = self._cluster.start(index, (index, self._options.count, *self._setting))
        actor = _Actor(index, handle)
        self._actors[index] = actor
        future = handle.call("load", self._job)
        future.add_done_callback(functools.partial(self._hand_over, self._started, actor))

    def _started(self, actor: _Actor, future: Future[Reply]) -> None:
        error = future.exception()
        with self._lock:
            if error is not None:
                self._lose(actor, error)
                return
            reply = Reply(*future.result())
            if reply.outcome is not TaskOutcome.VALUE:
                self._fail(ErrorReport(*reply.content))
                return
            if self._actors.get(actor.index) is not actor:
                return
            self._start_failures = 0
            actor.heard = self._heard = time.monotonic()
            actor.pid, actor.host, actor.node = unpack(Payload(*reply.content))
            if self._lender is not None and actor.node and actor.node == self._cluster.node:
                actor.invitation = self._lender.invite()
                actor.handle.call("borrow", *actor.invitation)
            for message in self._definitions.values():
                if message.affinity is None:
                    actor.handle.call("define", message.number, message.part)
            self._retire_if_idle(actor)
            self._answer_descriptions()
            self._dispatch()

    def _answer_descriptions(self) -> None:
        ready = self._ready()
        if not ready:
            return
        infos = [ActorInfo(a.index, a.host, a.pid, len(a.tasks)) for a in ready]
        for found in self._waiting_for_actor:
            found.set_result(infos)
        self._waiting_for_actor.clear()

    def _retire_if_idle(self, actor: _Actor) -> None:
        if not actor.retiring or actor.tasks or self._actors.get(actor.index) is not actor:
            return
        del self._actors[actor.index]
        self._forget_affinities(actor)
        self._end(actor)

    def _end(self, actor: _Actor) -> None:
        actor.handle.kill()  # It may be alive and unreachable.
        if self._lender is not None and actor.invitation is not None:
            self._lender.revoke(actor.invitation)

    def _forget_affinities(self, actor: _Actor) -> None:
        for affinity in actor.affinities:
            del self._bound[affinity]
            self._forgotten.add(affinity)

    def _lose(self, actor: _Actor, error: BaseException) -> None:
        """Report and requeue the tasks of an actor that is gone, and start another one."""
        if self._actors.get(actor.index) is not actor:
            return
        del self._actors[actor.index]
        self.losses += 1
        self._end(actor)
        self._forget_affinities(actor)
        # The loss may be that of a whole node, and then no task is to blame.
        for other in self._actors.values():
            other.heard = 0.0
        blameless = isinstance(error, NodeLostError)
        cause = str(error)
        lost: list[tuple[_Task, bool]] = []
        requeued: list[_Task] = []
        for position, task in enumerate(actor.tasks):
            started = position == 0 and not blameless
            if task.affinity is None and not started:
                requeued.append(task)
            else:
                lost.append((task, started))
        self._queue.extendleft(reversed(requeued))
        if not self._closed and not actor.retiring:
            if actor.pid:
                self._start_missing()
            else:
                self._start_later(cause)
        if self.gone.is_set():
            return  # No task is to blame, and a new gateway will compute them all.
        for task, started in lost:
            if task.affinity is not None:
                self._forgotten.discard(task.affinity)
            task.reply(loss_reply(actor.index, cause, started)._replace(capacity=self.capacity))
        self._dispatch()

    def _start_later(self, cause: str) -> None:
        self._start_failures += 1
        if self._start_failures > self._options.start_failures and not self._ready():
            error = RuntimeError(
                f"{self._start_failures} Ray actors in a row were lost before they could load the job; the "
                f"last one: {cause}. See Ray's logs of the workers, and check `ray_remote_args` and "
                "`runtime_env`."
            )
            self._fail(report(error, where="the gateway"))
            return
        delay = self._options.first_delay * 2 ** (self._start_failures - 1)
        timer = threading.Timer(min(delay, self._options.max_delay), self._retry_start)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def _retry_start(self) -> None:
        with self._lock:
            self._timers = {timer for timer in self._timers if timer.is_alive()}
            if not self._closed and self._failure is None:
                self._start_missing()

    def _fail(self, failure: ErrorReport) -> None:
        """Reply to all tasks with an error that no other actor would avoid."""
        self._failure = failure
        for task in list(self._tasks):
            task.reply(error_reply(failure))
        for found in self._waiting_for_actor:
            found.set_result([])
        self._waiting_for_actor.clear()
