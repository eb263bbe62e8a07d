"""Two versions are measured alternately, and cases that cost more are reported."""

from __future__ import annotations

import json
import os
import sys

import pytest
from benchmarks import cases, compare
from benchmarks.compare import BASE, HEAD, Comparison
from benchmarks.cost import Cost
from benchmarks.run import PeerProcess, Pool

RATE = cases.BY_NAME["range_batch"]
FIRST = cases.BY_NAME["first_batch"]
MEMORY = cases.BY_NAME["memory_mp2"]

# A version that appends its name and the request to a log, and answers with fixed costs.
VERSION = """
import json, sys
name, log, answers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print(json.dumps({"ready": {}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    with open(log, "a") as file:
        file.write(json.dumps([name, request]) + "\\n")
    if "outputs" not in request:
        print(json.dumps({"value": 1280.0}), flush=True)
        continue
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    print(json.dumps(answer), flush=True)
"""


def cost(processor, instructions=None, elapsed=1.0):
    return {"cost": {"processor": processor, "elapsed": elapsed, "instructions": instructions}}


@pytest.fixture
def pool_of(tmp_path):
    """Return a function that makes a pool of two versions with given answers."""
    pools = []

    def make(base, head):
        answers = {BASE: base, HEAD: head}

        def start(version):
            arguments = [version, str(tmp_path / "log"), json.dumps(answers[version])]
            return PeerProcess([sys.executable, "-c", VERSION, *arguments], tmp_path / "stderr")

        pools.append(Pool(start, 60))
        return pools[-1]

    yield make
    for pool in pools:
        pool.end()


def requests(tmp_path):
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_versions_alternate_and_do_the_same_amount_of_work(pool_of, tmp_path):
    pool = pool_of([cost(1.0)], [cost(1.0)])
    found = compare.compare_case(RATE, pool, rounds=3)
    calibration, *measured = requests(tmp_path)
    assert calibration[0] == BASE
    assert "seconds" in calibration[1]
    assert [name for name, _ in measured] == [BASE, HEAD, HEAD, BASE, BASE, HEAD]
    assert {request["outputs"] for _, request in measured} == {compare.LEAST_OUTPUTS}
    assert len(found.base) == len(found.head) == 3
    assert not found.slower(1.05)


def compared(base, head):
    return Comparison(case="range_batch", base=tuple(base), head=tuple(head))


def test_a_case_is_slower_if_it_costs_more_in_the_median_and_in_every_round():
    base = [Cost(1.0, 1.0)] * 3
    assert compared(base, [Cost(1.2, 1.0)] * 3).slower(1.05)
    assert not compared(base, [Cost(1.04, 1.0)] * 3).slower(1.05)
    assert not compared(base, [Cost(1.2, 1.0), Cost(1.2, 1.0), Cost(0.9, 1.0)]).slower(1.05)
    assert not compared(base, [Cost(0.5, 9.0)] * 3).slower(1.05)


def test_instructions_decide_where_they_are_counted():
    base = [Cost(1.0, 1.0, 100)] * 2
    assert not compared(base, [Cost(2.0, 1.0, 100)] * 2).slower(1.05)
    assert compared(base, [Cost(1.0, 1.0, 120)] * 2).slower(1.05)
    assert compared([Cost(1.0, 1.0)] * 2, [Cost(2.0, 1.0, 100)] * 2).slower(1.05)


def test_a_case_that_seems_slower_is_measured_once_more(pool_of):
    lines = []
    pool = pool_of([cost(1.0)], [cost(1.5), cost(1.5), cost(1.0)])
    (found,) = compare.compare([FIRST], pool, 2, 1.05, lines.append)
    assert len(found.base) == len(found.head) == 4
    assert not found.slower(1.05)
    assert "SLOWER" not in lines[0]
    pool = pool_of([cost(1.0)], [cost(1.5)])
    (found,) = compare.compare([FIRST], pool, 2, 1.05, lines.append)
    assert found.slower(1.05)
    assert lines[1].startswith("first_batch")
    assert lines[1].endswith("SLOWER")
    assert "1.50 (1.50 to 1.50)" in lines[1]


def test_memory_is_compared_by_value(pool_of, tmp_path):
    found = compare.compare_case(MEMORY, pool_of([cost(1.0)], [cost(1.0)]), rounds=1)
    assert found.base == found.head == (Cost(1280.0, 1280.0),)
    assert all("seconds" in request for _, request in requests(tmp_path))


def test_a_version_that_fails_is_reported(pool_of):
    pool = pool_of([cost(1.0)], [{"error": "KeyError: x"}])
    (found,) = compare.compare([FIRST], pool, 2, 1.05, lambda line: None)
    assert found.error == "head: KeyError: x"
    assert not found.slower(1.05)
    assert "failed: head: KeyError: x" in compare.line(found, 1.05)


def test_the_command_compares_real_versions(tmp_path, files, capsys):
    os.symlink(files.folder, tmp_path / "data")
    code = compare.main(
        [
            *("--base", sys.executable, "--head", sys.executable, "--cases", "first_batch,import"),
            # The same version: only noise differs.
            *("--rounds", "1", "--threshold", "1000", "--output", str(tmp_path)),
        ]
    )
    assert code == 0
    assert "slower: none; failed: none" in capsys.readouterr().out
