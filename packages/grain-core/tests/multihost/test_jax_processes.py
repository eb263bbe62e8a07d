"""Real jobs of several JAX processes: their shares, their steps, and how they resume."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from grain.experimental import Remainder

from . import job
from .pipelines import Hosts, whole

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="needs jax for processes that know each other"
)

JOB_SECONDS = 240


@pytest.mark.timeout(JOB_SECONDS + 60)
@pytest.mark.parametrize(("count", "others"), [(2, 4), (4, 1)])
def test_processes_divide_the_data_take_equal_steps_and_resume_together(
    count: int, others: int, tmp_path: pathlib.Path
) -> None:
    # A job of another number of hosts has stopped here before.
    earlier = Hosts(job.filtered, job.GLOBAL_BATCH, others, remainder="keep")
    given = earlier.rows(limit=3)
    (tmp_path / "of others").mkdir()
    for index, iterator in enumerate(earlier.iterators):
        file = tmp_path / "of others" / f"process_{index}-of-{others}.json"
        file.write_text(json.dumps(iterator.get_state()))

    seen = run_job(count, tmp_path)

    assert [one["shard"] for one in seen] == [[index, count] for index in range(count)]
    assert [one["sent"] for one in seen] == [one["shard"] for one in seen]
    check_shards(seen, count)
    for policy in Remainder:
        check_steps([one[policy.value] for one in seen], policy)
    for name in ("by index", "elastic"):
        for one in seen:
            assert one[name]["after"] == one[name]["restored"] != []
        assert {path.name for path in (tmp_path / name).glob("process*")} == {
            f"process_{index}-of-{count}.json" for index in range(count)
        }

    # Elements after a change of the number of processes, to this job and from it.
    rows = [row["x"] for row in whole(job.filtered())]
    resumed = in_order([one["resumed"] for one in seen])
    assert [row["x"] for row in given] + resumed == rows
    before = in_order([one["elastic"]["before"] for one in seen])
    later = Hosts(job.filtered, job.GLOBAL_BATCH, others, remainder="keep")
    later.restore(later.iterators[0].read_state(tmp_path / "elastic"))
    assert before + [row["x"] for row in later.rows()] == rows


def check_shards(seen: list[Any], count: int) -> None:
    """Assert that each record is read by one process, if they can be divided."""
    sliced = [x for one in seen for x in one["sliced"]]
    assert sorted(sliced) == job.records()
    even = [x for one in seen for x in one["loaded whole"]]
    assert even == job.records()[: job.EVEN]
    loaded = [one["loaded"] for one in seen]
    assert {len(part) for part in loaded} == {job.LENGTH // count}
    assert len(set(itertools.chain(*loaded))) == job.LENGTH // count * count


def check_steps(shards: list[list[Any]], policy: Remainder) -> None:
    """Assert that all processes take equally many steps, with the rows that the policy promises."""
    whole_steps, rest = divmod(job.LENGTH, job.GLOBAL_BATCH)
    extra = 1 if rest and policy is not Remainder.DROP else 0
    assert {len(shard) for shard in shards} == {whole_steps + extra}
    rows = [row["x"] for row in whole(job.numbers())]
    given = in_order([[batch["x"] for batch in shard] for shard in shards])
    missing = job.GLOBAL_BATCH - rest
    match policy:
        case Remainder.DROP:
            assert given == rows[:-rest]
        case Remainder.KEEP:
            assert given == rows
        case Remainder.WRAP:
            assert given == rows + rows[:missing]
        case Remainder.PAD:
            assert given == rows + [0] * missing
            mask = in_order([[batch["mask"] for batch in shard] for shard in shards])
            assert mask == [True] * job.LENGTH + [False] * missing


def in_order(shards: list[list[list[Any]]]) -> list[Any]:
    """The rows of all processes in their global order: row i of a step is with process i % count."""
    missing = object()
    return [
        row
        for step in zip(*shards, strict=True)
        for rows in itertools.zip_longest(*step, fillvalue=missing)
        for row in rows
        if row is not missing
    ]


def run_job(count: int, folder: pathlib.Path) -> list[Any]:
    """Runs the processes of a job to their end, and returns what each of them saw."""
    for attempt in range(3):
        outputs = start_and_wait(count, folder)
        if not any(outputs):
            return [json.loads((folder / f"seen_{i}.json").read_text()) for i in range(count)]
        # Another process may have taken the port in the meantime.
        if attempt == 2 or not any("ddress already in use" in output for output in outputs):
            break
    shown = "\n".join(f"--- process {i}\n{output}" for i, output in enumerate(outputs))
    raise AssertionError(f"The job of {count} processes failed.\n{shown}")


def start_and_wait(count: int, folder: pathlib.Path) -> list[str]:
    """What the processes that failed wrote; none of them is left when this returns."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, job.__file__, coordinator, str(index), str(count), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        for index in range(count)
    ]

    def ended(process: subprocess.Popen[str]) -> str:
        output, _ = process.communicate()
        if process.returncode:
            end_all()  # The others would wait for this one.
            return output or f"exit code {process.returncode}"
        return ""

    def end_all() -> None:
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        waiting = [threads.submit(ended, process) for process in processes]
        try:
            _, late = concurrent.futures.wait(waiting, timeout=JOB_SECONDS)
        finally:
            end_all()
        outputs = [future.result() for future in waiting]
    assert not late, f"The job took more than {JOB_SECONDS} seconds.\n{outputs}"
    return outputs
