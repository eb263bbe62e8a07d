"""The watch over the head and the nodes: who is given up, and when."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from grain_ray.cluster_watch import ClusterWatch

from .ray_clusters.thread_cluster import ThreadCluster


class SilentFleet:
    """A fleet on nodes "a" and "b", with the silence that a test sets."""

    def __init__(self) -> None:
        self.silent_seconds = 0.0
        self.silence = {"a": 0.0, "b": 0.0}
        self.lost: list[str] = []
        self.gone = threading.Event()

    def silent_nodes(self) -> dict[str, float]:
        return self.silence

    def lose_node(self, node: str) -> None:
        self.lost.append(node)
        del self.silence[node]


@pytest.fixture
def fleet() -> Any:
    return SilentFleet()


@pytest.fixture
def cluster() -> ThreadCluster:
    return ThreadCluster()


@pytest.fixture
def watch(cluster: ThreadCluster, fleet: Any) -> ClusterWatch:
    return ClusterWatch(cluster, fleet, seconds=1.0)


def test_a_node_is_given_up_after_three_checks_in_a_row(watch, cluster, fleet):
    assert watch.check()
    cluster.unreachable.add("a")
    fleet.silence["a"] = 2.0
    assert watch.check()
    assert watch.check()
    cluster.unreachable.clear()
    assert watch.check()  # It answers: the count starts again.
    cluster.unreachable.add("a")
    assert watch.check()
    assert watch.check()
    assert fleet.lost == []
    assert watch.check()
    assert fleet.lost == ["a"]


def test_a_node_whose_actors_reply_is_not_checked_again(watch, cluster, fleet):
    for _ in range(5):
        assert watch.check()
    assert sorted(map(str, cluster.checks)) == ["a", "b"]


def test_a_node_that_never_answered_is_not_given_up(watch, cluster, fleet):
    cluster.unreachable.add("b")
    fleet.silence["b"] = 100.0
    for _ in range(5):
        assert watch.check()
    assert fleet.lost == []


def test_the_head_is_checked_while_no_actor_replies(watch, cluster, fleet):
    cluster.unreachable.add(None)
    assert watch.check()
    fleet.silent_seconds = 2.0
    assert [watch.check() for _ in range(3)] == [True, True, False]
    watch.run()  # Returns, since the head is gone.


def test_the_watch_ends_when_the_cluster_was_replaced(watch, fleet):
    fleet.gone.set()
    watch.run()
