"""Threads that end before the interpreter does.

At exit the interpreter stops daemon threads wherever they are. Inside C++ code, such as a transfer to a
device, this aborts the process. So exit waits, for a bounded time, for the element that each thread is
computing: a short time for any code, which may block for ever, and a long time for calls into devices, which
end.

A fork has no threads but the one that forked. What a thread of the parent would have computed never arrives
there: `require_threads_of` makes that an error instead of a wait.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from grain._policy import current_policy

_stops: weakref.WeakKeyDictionary[BackgroundThread, Callable[[], None]] = (
    weakref.WeakKeyDictionary()
)


class BackgroundThread:
    """A daemon thread that an interrupt of its start or of its join leaves in a known condition.

    `threading.Thread.start` waits for the new thread, and an interrupt of that wait may block the new
    thread for ever. So the thread is started by a short-lived one, which no interrupt reaches. `start` and
    `join` may be called again after they were interrupted.

    Args:
        name: Name of the thread.
        stop: Makes the thread end after its current element; must hold no reference to the thread's owner.
        target: Function that the thread runs.
        *arguments: Arguments of `target`.
    """

    def __init__(
        self, name: str, stop: Callable[[], None], target: Callable[..., None], *arguments: Any
    ):
        self._target, self._arguments = target, arguments
        self._process = os.getpid()
        # Taken by the call that runs the thread, or by the one that gives it up.
        self._permits = collections.deque([None])
        self._started = self._ended = self._given_up = False
        self._ident: int | None = None
        # Released when the thread was launched, or given up, and when it has ended.
        self._launched, self._running = threading.Lock(), threading.Lock()
        self._launched.acquire()
        self._running.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _stops[self] = stop

    def start(self) -> None:
        """Start the thread, unless it was started."""
        if not self._started:
            _thread.start_new_thread(self._launch, ())
            # Entered and left by the interpreter: no interrupt leaves the lock held.
            with self._launched:
                self._started = True
            # Exit handlers run in reverse order of registration: this one must run before worker
            # processes end, for which a thread may wait, and before devices shut down, which a thread
            # may use.
            atexit.unregister(_end_threads)
            atexit.register(_end_threads)

    def _launch(self) -> None:
        try:
            self._permits.pop()
        except IndexError:  # A second start, after an interrupt of the first one.
            return
        try:
            self._thread.start()
        except RuntimeError:  # No further thread can be started: this one does the work.
            self._launched.release()
            self._run()
        else:
            self._launched.release()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        _background.add(self._ident)
        try:
            self._target(*self._arguments)
        finally:
            # What these refer to must not live as long as this object. It may include arrays on a device,
            # which are freed by the device's code.
            with DeviceCall():
                _stops.pop(self, None)
                del self._target, self._arguments
            _background.discard(self._ident)
            _in_device_call.discard(self._ident)
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._running.release()

    def abandon(self) -> None:
        """Let nothing wait for the current thread, which will do nothing more."""
        _stops.pop(self, None)
        self._end()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.get_ident() == self._ident

    def is_alive(self) -> bool:
        """Return whether the thread has not ended; it does not exist in a fork."""
        return not self._ended and os.getpid() == self._process

    def join(self, timeout: float = -1) -> None:
        """Wait for the thread to end; one that has not run yet never will."""
        if self._given_up or not self.is_alive():
            return
        if self._permits:
            self._given_up = True
            try:
                self._permits.pop()
            except IndexError:  # It has just started.
                self._given_up = False
            else:
                self._ended = True
                self._launched.release()
                return
        if self._running.acquire(timeout=timeout):
            self._running.release()


class StopSignal:
    """Tells threads to end: on a call, or when the object that they work for is collected.

    A finalizer in Python may be interrupted at its first line, and is never called again. The callbacks of
    these references are built-in functions, which nothing interrupts.

    Args:
        owner: The object that the threads work for; they must hold no reference to it.
        queues: Where the threads wait; each gets an item, a dead reference, when the owner is collected.
    """

    def __init__(self, owner: Any, *queues: queue.SimpleQueue[Any]):
        self._signals: collections.deque[Any] = collections.deque()
        # Callbacks run from the newest reference to the oldest: who is woken must see the signal.
        self._references = [weakref.ref(owner, waiting.put) for waiting in queues]
        self._references.append(weakref.ref(owner, self._signals.append))

    def __bool__(self) -> bool:
        return bool(self._signals)

    def set(self) -> None:
        self._signals.append(None)


def start_thread(
    name: str, stop: Callable[[], None], target: Callable[..., None], *arguments: Any
) -> BackgroundThread:
    """Start a daemon thread; see `BackgroundThread` for the arguments."""
    thread = BackgroundThread(name, stop, target, *arguments)
    thread.start()
    return thread


def require_threads_of(process: int) -> None:
    """Raise an error that says what to do if the threads that are needed belong to another process.

    Args:
        process: The process that has started the threads.
    """
    if os.getpid() != process:
        raise RuntimeError(
            f"This iterator was copied into process {os.getpid()} by a fork, and the threads that read for "
            f"it exist only in process {process}. Make a new iterator in the child process, with "
            "`iter(dataset)`, and give it a state of the old one with `set_state`; or start the process with "
            "the method `spawn` or `forkserver` of multiprocessing."
        )


def _live_threads() -> list[BackgroundThread]:
    """Return the threads that have not ended, for which exit waits."""
    # Copied at once: running threads may start others.
    threads = [thread for ref in _stops.keyrefs() if (thread := ref()) is not None]
    return [thread for thread in threads if thread.is_alive()]


def forget_threads() -> None:
    """Wait for no thread at exit: in a fork, or in a process that exits without tearing anything down."""
    _stops.clear()
    _background.clear()
    _in_device_call.clear()


def park_this_thread() -> None:
    """Block a daemon thread until the interpreter has exited; nothing waits for the thread."""
    for thread in list(_stops):
        if thread.is_current:
            thread.abandon()
    threading.Event().wait()


class DeviceCall:
    """Context manager around calls into a device's C++ code, which exit must not cut off.

    Exit waits longer for a thread that is inside the `with` block, however loaded the machine is. A thread
    that arrives after that wait never enters the block. A background thread also frees arrays on the device
    after the call, so it counts as inside until it ends or enters a `HostCall`.
    """

    def __enter__(self) -> None:
        ident = threading.get_ident()
        _in_device_call.add(ident)
        if _exiting and threading.current_thread().daemon:
            _in_device_call.discard(ident)
            park_this_thread()

    def __exit__(self, *error: object) -> None:
        if threading.get_ident() not in _background:
            _in_device_call.discard(threading.get_ident())


class HostCall:
    """Context manager around other code of a thread that calls into devices; the code may block for ever."""

    def __enter__(self) -> None:
        _in_device_call.discard(threading.get_ident())

    def __exit__(self, *error: object) -> None:
        if threading.get_ident() in _background:
            DeviceCall().__enter__()


# Identifiers of the running background threads, and of all threads inside a `DeviceCall`.
_background: set[int] = set()
_in_device_call: set[int] = set()
_exiting = False


def _end_threads() -> None:
    global _exiting
    policy = current_policy()
    begin = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the wait.
        _wait_for_threads(begin + policy.thread_join_seconds)
        _exiting = True
        while _in_device_call and time.monotonic() < begin + policy.device_join_seconds:
            time.sleep(policy.thread_join_poll_seconds)
    _exiting = True


def _wait_for_threads(deadline: float) -> None:
    """Stop and join the registered threads, and those that they start meanwhile, until a deadline."""
    poll_seconds = current_policy().thread_join_poll_seconds
    stopped: set[BackgroundThread] = set()
    while running := _live_threads():
        for thread in running:
            if thread not in stopped and (stop := _stops.get(thread)) is not None:
                stopped.add(thread)
                stop()
        for thread in running:
            while thread in _stops and thread.is_alive():
                if time.monotonic() > deadline:
                    return
                thread.join(poll_seconds)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
