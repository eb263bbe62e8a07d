"""A real job of two JAX processes that save together with Orbax: one file for each of them."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

import grain
from grain.checkpoint import CheckpointHandler

needs_orbax = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("jax", "orbax")),
    reason="needs jax and orbax",
)

JOB = pathlib.Path(__file__).with_name("orbax_job.py")
COUNT = 2
SECONDS = 150


@needs_orbax
@pytest.mark.timeout(3 * SECONDS + 60)
def test_processes_save_together_and_each_finds_its_own_state_again(tmp_path):
    seen = run_job(tmp_path)
    for index, one in enumerate(seen):
        assert one["again"] == one["after"]
        assert one["own"] == [[index, index]]
        assert "operation: slice(" in one["refused"]
        assert "  + operation: slice(" in one["refused"]
    for which in (0, 1):
        given = [x for one in seen for x in one["before"][which] + one["after"][which]]
        assert len(set(given)) == len(given)
    folder = tmp_path / "checkpoints/3"
    for name in ("data", "loader"):
        assert {path.name for path in (folder / name).glob("p*")} == {
            f"{kind}_{index}-of-{COUNT}.{ending}"
            for kind, ending in (("process", "json"), ("pipeline", "txt"))
            for index in range(COUNT)
        }
    newer = {path.name for path in tmp_path.glob("newer/data/process*")}
    assert newer in (set(), {"process_0-of-2.json", "process_1-of-2.json"})
    state = json.loads((folder / "loader/process_1-of-2.json").read_text())
    assert state["last_seen_indices"] == {"0": 5}


def test_a_state_of_several_processes_says_so_where_there_is_another_number(tmp_path):
    for index in range(2):
        (tmp_path / f"process_{index}-of-2.json").write_text("{}")
    with pytest.raises(ValueError, match=r"holds process_0-of-2\.json, process_1-of-2\.json"):
        CheckpointHandler().restore(tmp_path, iter(grain.MapDataset.range(3)))


def run_job(folder: pathlib.Path) -> list[dict[str, object]]:
    """Run the processes to their end; choose another port if it was taken in the meantime."""
    for _ in range(3):
        codes, output = start_and_wait(folder)
        if not any(codes):
            return [json.loads((folder / f"seen_{i}.json").read_text()) for i in range(COUNT)]
        if "ddress already in use" not in output:
            break
    raise AssertionError(f"The processes ended with {codes}.\n{output}")


def start_and_wait(folder: pathlib.Path) -> tuple[list[int], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    logs = [folder / f"log_{index}.txt" for index in range(COUNT)]
    processes = []
    try:
        for index, log in enumerate(logs):
            command = [sys.executable, JOB, coordinator, str(index), str(COUNT), folder]
            with log.open("w") as file:
                processes.append(
                    subprocess.Popen(
                        command, stdout=file, stderr=file, env=environment, start_new_session=True
                    )
                )
        codes = []
        for process in processes:
            try:
                codes.append(process.wait(SECONDS))
            except subprocess.TimeoutExpired:
                codes.append(-1)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return codes, "\n".join(log.read_text() for log in logs)
