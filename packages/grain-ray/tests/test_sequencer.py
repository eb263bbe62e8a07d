"""The sequencer: every host's batches and states are those of an elastic iterator, whatever is lost."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

import grain
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain.experimental import ElasticIterator, FirstFitPackIterDataset
from grain.sharding import ShardOptions
from grain_ray.payload import Payload, unpack
from grain_ray.sequencer import Sequencer, Service, Serving

SECONDS = 30.0
SIZE = 4


def fail_at_thirteen(x: Any) -> Any:
    if x == 13:
        raise ValueError("thirteen")
    return x


def filtered(count: int = 60) -> grain.IterDataset:
    return grain.MapDataset.range(count).to_iter_dataset().filter(lambda x: x % 3 > 0)


def failing() -> grain.IterDataset:
    return grain.MapDataset.range(50).to_iter_dataset().map(fail_at_thirteen)


def packed() -> grain.IterDataset:
    rng = np.random.default_rng(0)
    documents = [{"tokens": np.arange(n, dtype=np.int32)} for n in rng.integers(1, 11, 100)]
    ds = grain.MapDataset.source(documents).shuffle(1).to_iter_dataset()
    return FirstFitPackIterDataset(ds, length_struct={"tokens": 12}, num_packing_bins=3)


def elastic(ds: Any, host: int, hosts: int, **options: Any) -> ElasticIterator:
    return ElasticIterator(ds, SIZE, ShardOptions(host, hosts), **options)


def walk(iterator: Any) -> list[Any]:
    """The batches, errors and states of an iterator."""
    seen = []
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return seen
        except Exception as error:
            seen.append((repr(error), iterator.get_state()))
        else:
            seen.append((pickle.dumps(batch), iterator.get_state()))


class Host:
    """A host that takes from a sequencer, as the real one does."""

    def __init__(self, index: int):
        self.index = index
        self.place = self.asked = (0, 0)
        self.state = b""
        self.seen: list[Any] = []
        self.ended = False

    def step(self, sequencer: Sequencer) -> None:
        self.asked = self.place
        serving = sequencer.take(self.index, self.place, None, SECONDS)
        if serving.service is Service.STATE_NEEDED:
            serving = sequencer.take(self.index, self.place, self.state, SECONDS)
        self.receive(serving)

    def receive(self, serving: Serving) -> None:
        self.place = serving.following
        self.state = self.state if serving.state is None else serving.state
        match serving.service:
            case Service.END:
                self.ended = True
            case Service.ERROR:
                error = rebuild(ErrorReport(*serving.content))
                self.seen.append((repr(error), pickle.loads(self.state)))
            case Service.BATCH:
                batch = unpack(Payload(*serving.content))
                self.seen.append((pickle.dumps(batch), pickle.loads(self.state)))
            case other:
                raise AssertionError(other)


@pytest.fixture
def serve():
    """Make sequencers that are closed after the test."""
    made = []

    def make(ds: Any, hosts: int, window: int = 3, **options: Any) -> Sequencer:
        made.append(Sequencer(elastic(ds, 0, hosts, **options), window))
        return made[-1]

    yield make
    for sequencer in made:
        sequencer.close()


@pytest.mark.parametrize("make", [filtered, packed, failing])
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_each_host_gets_what_an_elastic_iterator_gives(make, hosts, serve):
    sequencer = serve(make(), hosts)
    all_hosts = [Host(index) for index in range(hosts)]
    while not all(host.ended for host in all_hosts):
        for host in all_hosts:
            if not host.ended:
                host.step(sequencer)
    for host in all_hosts:
        assert host.seen == walk(elastic(make(), host.index, hosts))


@pytest.mark.parametrize("remainder", ["drop", "keep", "wrap"])
def test_the_last_step_follows_the_policy(remainder, serve):
    sequencer = serve(filtered(29), 2, remainder=remainder)
    hosts = [Host(0), Host(1)]
    while not all(host.ended for host in hosts):
        for host in hosts:
            host.step(sequencer)
    for host in hosts:
        assert host.seen == walk(elastic(filtered(29), host.index, 2, remainder=remainder))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [packed, failing])
def test_hosts_in_any_order_and_lost_sequencers_change_nothing(make, seed, serve):
    rng = random.Random(seed)
    sequencer = serve(make(), 4)
    hosts = [Host(index) for index in range(4)]
    while not all(host.ended for host in hosts):
        if rng.random() < 0.1:
            sequencer = serve(make(), 4)
        # A host that is a window ahead would wait for the others.
        lowest = min(host.asked[0] for host in hosts)
        ready = [host for host in hosts if not host.ended and host.place[0] < lowest + 3]
        host = rng.choice(ready)
        if rng.random() < 0.1:  # The reply is lost, and asked for again.
            before = host.place, host.state
            host.step(sequencer)
            if host.ended:
                continue
            host.seen.pop()
            host.place, host.state = before
        host.step(sequencer)
    for host in hosts:
        assert host.seen == walk(elastic(make(), host.index, 4))


def test_a_host_that_runs_ahead_waits_for_the_slowest(serve):
    sequencer = serve(filtered(), 2, window=2)
    slow, fast = Host(0), Host(1)
    slow.step(sequencer)
    fast.step(sequencer)
    fast.step(sequencer)
    waiting = sequencer.take(1, fast.place, None, 0.0)
    assert waiting == Serving(Service.LATER, {0: 0, 1: 2})
    slow.step(sequencer)
    fast.step(sequencer)
    assert [len(host.seen) for host in (slow, fast)] == [2, 3]


def test_all_hosts_may_continue_far_ahead_or_behind(serve):
    expected = walk(elastic(filtered(300), 1, 2))
    sequencer = serve(filtered(300), 2)
    for step in (0, 30, 5, 30):
        state = b"" if step == 0 else pickle.dumps(expected[step - 1][1])
        for index in (0, 1):
            serving = sequencer.take(index, (step, 0), state, 0.0)
        serving = sequencer.take(1, (step, 0), None, SECONDS)
        assert pickle.dumps(unpack(Payload(*serving.content))) == expected[step][0]


def test_a_checkpoint_with_other_boundaries_of_steps_starts_again(serve):
    first = elastic(filtered(), 0, 2)
    other = ElasticIterator(filtered(), 6, ShardOptions(0, 2))
    next(other)
    sequencer = serve(filtered(), 2)
    hosts = [Host(0), Host(1)]
    for _ in range(4):
        for host in hosts:
            host.step(sequencer)
    state = other.get_state()
    first.set_state(state)
    expected = next(first)
    for index in range(2):
        serving = sequencer.take(index, (2, 0), pickle.dumps(state), SECONDS)
        if index == 0:
            np.testing.assert_array_equal(unpack(Payload(*serving.content)), expected)
    assert pickle.loads(serving.state) == first.get_state()


def test_states_are_kept_until_all_hosts_have_saved_them(serve):
    sequencer = serve(filtered(), 2)
    hosts = [Host(0), Host(1)]
    for _ in range(6):
        for host in hosts:
            host.step(sequencer)
    # No host sends a state: the sequencer has it.
    assert sequencer.take(0, (2, 0), None, SECONDS).service is Service.BATCH
    for host in hosts:
        sequencer.acknowledge(host.index, 4)
    assert sequencer.take(0, (4, 0), None, SECONDS).service is Service.BATCH
    assert sequencer.take(0, (1, 0), None, SECONDS).service is Service.STATE_NEEDED


def test_the_state_before_the_first_step_is_known_without_a_step(serve):
    state = serve(packed(), 2).state(0, SECONDS)
    assert pickle.loads(state) == elastic(packed(), 0, 2).get_state()


def test_an_error_of_the_batch_function_is_that_of_one_host(serve):
    def odd_only(elements: list[Any]) -> Any:
        if 8 in elements:
            raise KeyError("eight")
        return np.array(elements)

    sequencer = serve(filtered(), 2, batch_fn=odd_only)
    hosts = [Host(0), Host(1)]
    while not all(host.ended for host in hosts):
        for host in hosts:
            host.step(sequencer)
    for host in hosts:
        expected = walk(elastic(filtered(), host.index, 2, batch_fn=odd_only))
        assert [state for _, state in host.seen] == [state for _, state in expected]
        assert [seen[:9] for seen, _ in host.seen] == [seen[:9] for seen, _ in expected]
