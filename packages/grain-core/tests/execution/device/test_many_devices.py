"""Elements over many devices, over several processes, and at the end of one: in processes of their own."""

from __future__ import annotations

import json
import re

import pytest

from .programs import run_alone, run_job, run_tests_on

pytest.importorskip("jax")


def test_elements_are_spread_over_eight_devices() -> None:
    finished = run_tests_on(8, "eight_devices.py")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    summary = finished.stdout.splitlines()[-1]
    assert re.fullmatch(r"\d+ passed in .*", summary), summary


def test_what_two_processes_read_becomes_global_arrays() -> None:
    said = run_job("two_processes.py", 2, 4)
    job = [json.loads(out.splitlines()[-1]) for out in said]
    assert [seen["process"] for seen in job] == [0, 1]
    for seen in job:
        # The first half of a batch is what process 0 read, the second what process 1 read.
        assert seen["batches"] == [
            [*range(8 * n, 8 * n + 8, 2), *range(8 * n + 1, 8 * n + 8, 2)] for n in range(4)
        ]
        assert seen["sums"] == [sum(range(8 * n, 8 * n + 8)) for n in range(4)]
        assert seen["shapes"] == [[8, 6]] * 4
        assert seen["spec"] == [8, 6]
        # Columns that are divided over processes make arrays wider, not longer.
        assert seen["wide"] == [4, 12]
        # Both resume in step.
        assert seen["state"] == {"next_index": 2}
        assert seen["resumed"] == seen["batches"][2:]
        # An error speaks of the part that the process itself has.
        assert (
            "Dimension 0 of element has size 3, which does not divide by 2, the part of mesh axis "
            "'data' that is in this process (4 in all processes)."
        ) in seen["undivided"]
    assert job[0]["outside"] == "nothing wrong"
    assert "This process has no device in the mesh" in job[1]["outside"]


def test_a_program_that_ends_in_the_middle_ends_in_silence() -> None:
    finished = run_alone("leaving.py")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "(4, 20000)\n", "")


@pytest.mark.parametrize("_again", range(4))
def test_a_program_that_ends_while_elements_are_put_on_the_device_ends_in_silence(_again) -> None:
    # Without the wait for the threads, about every second run would be aborted.
    finished = run_alone("dropping.py")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "ends\n", "")
