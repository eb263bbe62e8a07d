"""Values of the cache are built once, bounded in size, and never block for ever."""

from __future__ import annotations

import threading

import pytest

from grain_parquet.bounded_cache import BoundedCache


def use(cache, key, size, made=None):
    def make():
        if made is not None:
            made.append(key)
        return f"value {key}", size

    with cache.use(key, size, make) as value:
        assert value == f"value {key}"


def test_a_cached_value_is_built_once():
    cache, made = BoundedCache(100), []
    for _ in range(3):
        use(cache, 1, 10, made)
    assert made == [1]
    assert cache.used == 10


def test_the_least_recently_used_value_is_evicted_first():
    cache, made = BoundedCache(30), []
    for key in (1, 2, 3, 1, 4):
        use(cache, key, 10, made)
    assert cache.used == 30
    made.clear()
    for key in (1, 3, 4, 2):
        use(cache, key, 10, made)
    assert made == [2]


def test_a_value_larger_than_the_bound_is_used_and_not_kept():
    cache, made = BoundedCache(30), []
    use(cache, 1, 10, made)
    use(cache, 2, 100, made)
    assert cache.used == 0
    use(cache, 2, 100, made)
    assert made == [1, 2, 2]


def test_a_value_larger_than_expected_evicts_others():
    cache = BoundedCache(30)
    use(cache, 1, 10)
    use(cache, 2, 10)
    with cache.use(3, 1, lambda: ("three", 25)):
        assert cache.used == 25
    assert len(cache) == 1


def test_a_value_whose_construction_fails_leaves_no_entry():
    cache = BoundedCache(30)

    def fail():
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"), cache.use(1, 20, fail):
        pass
    assert cache.used == 0
    use(cache, 1, 20)


def test_a_value_in_use_is_not_evicted_by_clear():
    cache, made = BoundedCache(30), []
    use(cache, 1, 10, made)
    with cache.use(2, 10, lambda: ("value 2", 10)):
        cache.clear()
        assert cache.used == 10
    use(cache, 2, 10, made)
    assert made == [1]


def test_threads_wait_for_room_and_the_bound_holds():
    cache = BoundedCache(25)
    highest = []
    inside = threading.Barrier(2)

    def work(key: int) -> None:
        def make():
            highest.append(cache.used)
            return key, 10

        with cache.use(key, 10, make):
            highest.append(cache.used)
            if key < 2:
                # Two values fit, so two threads reach this point together.
                inside.wait(timeout=60)

    threads = [threading.Thread(target=work, args=(key,)) for key in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert max(highest) <= 25


def test_threads_that_use_the_same_value_share_its_construction():
    cache, made, start = BoundedCache(0), [], threading.Barrier(8)
    release = threading.Event()

    def make():
        made.append(1)
        release.wait(60)
        return "value", 10

    def work() -> None:
        start.wait(60)
        with cache.use("key", 10, make) as value:
            assert value == "value"

    threads = [threading.Thread(target=work) for _ in range(7)]
    for thread in threads:
        thread.start()
    start.wait(60)
    release.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= len(made) <= 7


class Interrupting(BoundedCache):
    """A cache with Ctrl-C at one of the points where Python checks for signals."""

    def __init__(self, limit, where: str):
        super().__init__(limit)
        self.where = where

    def interrupt(self, point: str) -> None:
        if point == self.where:
            self.where = ""
            raise KeyboardInterrupt

    def _make_room(self, size):
        room = super()._make_room(size)
        self.interrupt("before making")
        return room

    def _trim(self, wanted=0):
        super()._trim(wanted)
        if not wanted:
            self.interrupt("after making")

    def _acquire(self, *arguments):
        entry = super()._acquire(*arguments)
        self.interrupt("before using")
        return entry


@pytest.mark.parametrize(
    "where", ["before making", "making", "after making", "before using", "using"]
)
@pytest.mark.parametrize("limit", [0, 15, 100])
def test_after_an_interrupt_all_values_can_be_used_within_the_bound(where, limit):
    cache = Interrupting(limit, where)

    def make():
        cache.interrupt("making")
        return "value 1", 10

    with pytest.raises(KeyboardInterrupt), cache.use(1, 10, make):
        cache.interrupt("using")
    for key in (1, 2, 3, 1, 2):
        use(cache, key, 10)
        assert cache.used <= limit
    cache.clear()
    assert cache.used == 0


def test_a_thread_resumes_though_the_notification_was_interrupted():
    cache = BoundedCache(10)
    waits = threading.Event()
    using = cache.use(1, 10, lambda: ("value 1", 10))
    using.__enter__()

    def wait(timeout):
        waits.set()
        return wait_for(timeout)

    wait_for, cache._changed.wait = cache._changed.wait, wait
    thread = threading.Thread(target=use, args=(cache, 2, 10))
    thread.start()
    assert waits.wait(60)
    # As if interrupted just before the notification.
    (cache._entries[1].leases[0]).live = False
    thread.join(60)
    assert not thread.is_alive()
    using.__exit__(None, None, None)
