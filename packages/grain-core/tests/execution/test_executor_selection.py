"""Executors are chosen by options, settings and plugins; names that do not exist say what does."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import grain
from grain.execution import InlineExecutor, ThreadExecutor
from grain.execution.executor_selection import select_executor
from grain.plugins import Kind, PluginSpec, UnknownNameError, register, unregister

from ..helpers.pipelines import with_workers
from .pipelines import rows


def where(x: int) -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def places(dataset: grain.IterDataset) -> set[tuple[int, int]]:
    with iter(dataset) as iterator:
        return set(iterator)


def test_a_name_in_the_options_decides_where_elements_are_computed() -> None:
    dataset = rows(40).map(where)
    here = (os.getpid(), threading.get_ident())
    assert places(with_workers(dataset, 2, executor="inline")) == {here}
    threads = places(with_workers(dataset, 2, executor="threads"))
    assert {pid for pid, _ in threads} == {os.getpid()}
    assert here not in threads
    assert os.getpid() not in {pid for pid, _ in places(with_workers(dataset, 1))}


def test_a_setting_decides_where_the_options_do_not() -> None:
    dataset = rows(9).map(where)
    here = (os.getpid(), threading.get_ident())
    with grain.config.override(executor="inline"):
        assert places(with_workers(dataset, 2)) == {here}
        assert here not in places(with_workers(dataset, 2, executor="threads"))
        loader = grain.DataLoader(
            data_source=range(9),
            sampler=grain.IndexSampler(num_records=9, num_epochs=1),
            operations=[_Where()],
            worker_count=2,
        )
        assert places(loader) == {here}  # type: ignore[arg-type]


class _Where(grain.transforms.Map):
    def map(self, element: int) -> tuple[int, int]:
        return where(element)


def test_no_workers_compute_here_whatever_the_executor() -> None:
    assert places(with_workers(rows(4).map(where), 0, executor="threads")) == {
        (os.getpid(), threading.get_ident())
    }


def test_an_executor_without_a_number_of_workers_picks_one() -> None:
    options = grain.MultiprocessingOptions(executor="threads")
    assert options.num_workers is None
    assert select_executor(options, None).executor.capacity >= 1
    assert grain.MultiprocessingOptions().num_workers == 0


def test_an_object_is_used_as_it_is() -> None:
    calls: list[tuple[int, int]] = []
    executor = ThreadExecutor(3)
    options = grain.MultiprocessingOptions(executor=executor)
    assert select_executor(options, None).executor is executor
    dataset = rows(9).mp_prefetch(options, worker_init_fn=lambda *where: calls.append(where))
    with iter(dataset) as iterator:
        assert list(iterator) == list(range(9))
    assert sorted(calls) == [(0, 3), (1, 3), (2, 3)]


def make_executor(num_workers: int | None = None, **options: Any) -> ThreadExecutor:
    """Stand in for the target of a plugin."""
    MADE.append((num_workers, options))
    return ThreadExecutor(num_workers or 1)


MADE: list[tuple[int | None, dict[str, Any]]] = []


@pytest.fixture
def own_executor() -> Any:
    register(
        PluginSpec(name="own", target="own_package.executor:make_executor", kind=Kind.EXECUTOR)
    )
    MADE.clear()
    yield "own"
    unregister("own")


def test_a_plugin_provides_an_executor_by_name(
    own_executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.plugins.manager.load_object", lambda target: make_executor)
    options = grain.MultiprocessingOptions(2, executor=own_executor, task_timeout=5)
    assert list(rows(9).mp_prefetch(options)) == list(range(9))
    assert list(with_workers(rows(9), 3, executor=own_executor)) == list(range(9))
    assert MADE == [(2, {"task_timeout": 5.0}), (3, {})]


def test_an_unknown_name_says_what_is_installed(own_executor: str) -> None:
    with (
        pytest.raises(
            UnknownNameError,
            match=r"executor 'procesess'\. Installed: 'inline', 'own', .*'processes', .*'threads'",
        ),
        iter(with_workers(rows(9), 2, executor="procesess")),
    ):
        pass


def test_a_name_of_another_kind_is_no_executor() -> None:
    spec = PluginSpec(name="listed", target="builtins:list", kind=Kind.MAP_SOURCE)
    register(spec)
    try:
        with pytest.raises(UnknownNameError, match="executor 'listed'"):
            grain.plugins.executor("listed")
    finally:
        unregister("listed")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"executor": 3}, TypeError, "executor must be the name .*got 3 of type int"),
        ({"task_timeout": 0}, ValueError, "task_timeout must be a positive number of seconds"),
        ({"task_timeout": "1"}, TypeError, "task_timeout must be a number of seconds"),
        ({"max_worker_restarts": -1}, ValueError, "max_worker_restarts must be non-negative"),
        ({"worker_memory_limit": 0}, ValueError, "worker_memory_limit must be positive"),
    ],
)
def test_options_say_what_was_expected(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        grain.MultiprocessingOptions(2, **options)


@pytest.mark.parametrize("executor", ["threads", "inline", InlineExecutor()])
def test_limits_of_worker_processes_are_refused_by_other_executors(executor: Any) -> None:
    options = grain.MultiprocessingOptions(2, executor=executor, max_worker_restarts=2)
    with pytest.raises(ValueError, match=r"max_worker_restarts=2\) applies to worker processes"):
        select_executor(options, None)


def test_limits_that_the_target_of_a_plugin_does_not_take_are_refused(
    own_executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(num_workers: int | None = None) -> Any:
        return make_executor(num_workers)

    monkeypatch.setattr("grain.plugins.manager.load_object", lambda target: make)
    assert list(with_workers(rows(9), 2, executor=own_executor)) == list(range(9))
    options = grain.MultiprocessingOptions(2, executor=own_executor, task_timeout=5)
    with pytest.raises(ValueError, match=r"task_timeout=5\.0\) .*executor 'own' does not take it"):
        select_executor(options, None)


def test_processes_take_limits_from_options_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "grain.execution.process_executor.WorkerPool", lambda job, **options: given.update(options)
    )
    with grain.config.override(task_timeout=7, max_worker_restarts=1):
        options = grain.MultiprocessingOptions(2, max_worker_restarts=5)
        select_executor(options, None).executor.open(_Echo(), name_owner=str)
    assert given["num_workers"] == 2
    assert (given["max_restarts"], given["task_timeout"], given["memory_limit"]) == (5, 7.0, None)


class _Echo:
    def start(self, index: int, count: int) -> Any:
        return lambda task: task
