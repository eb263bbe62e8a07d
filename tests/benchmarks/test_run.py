"""Peers are interleaved, and a peer that fails is reported without affecting the others."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
import time

import pytest
from benchmarks import __main__ as command
from benchmarks import cases, publishing, results
from benchmarks.command import ROOT
from benchmarks.run import PeerProcess, Settings, run, without_paths

CASE = cases.BY_NAME["range_batch"]
SETTINGS = Settings(seconds=0.01, repetitions=3, worker_repetitions=2)

# A peer that is ready, appends its name to a log for each request, and answers.
GOOD = """
import json, sys
name, log = sys.argv[1:]
print(json.dumps({"ready": {"thing": "1"}}), flush=True)
for line in sys.stdin:
    with open(log, "a") as file:
        file.write(name)
    print(json.dumps({"value": float(len(open(log).read()))}), flush=True)
"""
READY = "import sys; print('{\"ready\": {}}', flush=True)\n"
BAD = {
    "dies at once": ("import sys; sys.exit(3)", "ended with code 3"),
    "is not ready": ('print("{}", flush=True); input()', "expected that it is ready"),
    "answers without a value": (READY + "print('{}', flush=True); sys.stdin.read()", "a value"),
    "dies at a request": (READY + "sys.stdin.readline(); sys.exit(4)", "ended with code 4"),
    "is no JSON": (READY + "sys.stdin.readline(); print('well', flush=True)", "answered b'well"),
    "raises": ('print(\'{"error": "KeyError: x"}\', flush=True)', "KeyError: x"),
}


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a program by the name of a peer."""
    programs = {}

    def begin(peer):
        text = programs.get(peer, GOOD)
        arguments = [peer, str(tmp_path / "order")] if text is GOOD else []
        return PeerProcess([sys.executable, "-c", text, *arguments], tmp_path / "log")

    begin.programs = programs
    begin.order = tmp_path / "order"
    return begin


def outcomes(start, peers, settings=SETTINGS, absent=()):
    found, versions = run([CASE], peers, start, settings, dict(absent), report=lambda text: None)
    return {outcome.peer: outcome for outcome in found}, versions


def test_peers_are_interleaved(start):
    found, versions = outcomes(start, ["a", "b", "c"])
    assert start.order.read_text() == "abcabcabc"
    assert found["b"].values == (2, 5, 8)
    assert versions["a"] == {"thing": "1"}


def test_cases_with_workers_have_a_separate_number_of_repetitions(start):
    run([cases.BY_NAME["heavy_mp2"]], ["a", "b"], start, SETTINGS, {}, report=lambda text: None)
    assert start.order.read_text() == "abab"


def test_a_case_that_takes_long_is_repeated_the_least_number_of_times(start):
    settings = dataclasses.replace(SETTINGS, least_repetitions=2, case_seconds=0)
    found, _ = outcomes(start, ["a", "b"], settings)
    assert start.order.read_text() == "abab"
    assert found["a"].values == (1, 3)


@pytest.mark.parametrize("name", BAD)
def test_a_peer_that_fails_is_reported_and_the_others_continue(start, name):
    start.programs["b"], error = BAD[name]
    found, _ = outcomes(start, ["a", "b", "c"])
    assert start.order.read_text() == "acacac"
    assert error in found["b"].failed
    assert found["b"].values == ()
    assert found["a"].failed is None


def test_a_peer_that_does_not_answer_fails(start):
    start.programs["a"] = "import sys; sys.stdin.read()"
    found, _ = outcomes(
        start, ["a"], Settings(seconds=0.01, repetitions=1, worker_repetitions=1, timeout=0.1)
    )
    assert found["a"].failed == "no answer within 0 s"


def test_a_case_that_a_peer_lacks_is_not_requested_again(start):
    start.programs["a"] = READY + 'input(); print(\'{"lacks": "no tars"}\', flush=True); input()'
    found, versions = outcomes(start, ["a", "b"])
    assert found["a"].lacks == "no tars"
    assert found["a"].failed is None
    assert start.order.read_text() == "bbb"
    assert versions == {"a": {}, "b": {"thing": "1"}}


def test_a_peer_that_died_is_started_again_for_the_next_case(start):
    start.programs["a"] = READY + "import json; case = json.loads(input())['case']\n"
    start.programs["a"] += "sys.exit(5) if case == 'mix3' else print('{\"value\": 7}', flush=True)"
    wanted = [cases.BY_NAME["mix3"], CASE]
    once = Settings(seconds=0.01, repetitions=1, worker_repetitions=1)
    died, lives = run(wanted, ["a"], start, once, {}, report=lambda text: None)[0]
    assert died.failed == "the process ended with code 5"
    assert lives.values == (7,)


def test_a_peer_keeps_its_process_from_case_to_case_but_not_where_memory_is_measured(start):
    started = []

    def counted(peer):
        started.append(peer)
        return start(peer)

    wanted = [cases.BY_NAME[name] for name in ("mix3", "range_batch", "memory_mp2", "memory_mp2")]
    run(wanted, ["a"], counted, SETTINGS, {}, report=lambda text: None)
    assert started == ["a"] * 3


def test_an_absent_peer_fails_in_its_position(start):
    found, _ = outcomes(start, ["b", "a"], absent=[("a", "not here")])
    assert list(found) == ["b", "a"]
    assert found["a"].failed == "not here"


def runs(process):
    """Return whether a process runs and is not a zombie."""
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def test_processes_that_a_peer_leaves_running_are_ended(start, tmp_path):
    start.programs["a"] = (
        READY
        + "import os, subprocess, time\n"
        + "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        + "sys.stdin.readline()\n"
        + "print('{\"value\": %d}' % child.pid, flush=True)\n"
        + "os._exit(0)\n"
    )
    found, _ = outcomes(start, ["a"], Settings(seconds=0.01, repetitions=1, worker_repetitions=1))
    [child] = found["a"].values
    # Killed, but perhaps not yet removed by the system; the time limit of the test ends a wait for ever.
    while runs(int(child)):
        time.sleep(0.01)


def test_errors_do_not_contain_the_path_of_the_checkout():
    assert without_paths(f"no {ROOT}/packages/x") == "no packages/x"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, files):
    """Run the command for two cases with this project and one absent peer."""
    output = tmp_path_factory.mktemp("bench")
    os.symlink(files.folder, output / "data")
    code = command.main(
        [
            *("--quick", "--cases", "heavy_mp2,range_batch", "--output", str(output)),
            *("--python", f"grain={sys.executable}", "--absent", "torch=no wheels"),
        ]
    )
    return code, output


def test_the_command_measures_and_writes_all_results(whole):
    code, output = whole
    assert code == 0
    found = results.read(output / "results.json")
    assert found.cases() == ["range_batch", "heavy_mp2"]
    assert 1 <= len(found.find("range_batch", "grain").values) <= command.QUICK.repetitions
    assert found.find("heavy_mp2", "torch").failed == "no wheels"
    assert "no wheels" in (output / "table.md").read_text()


def test_results_do_not_name_the_machine(whole):
    text = (whole[1] / "results.json").read_text()
    assert os.uname().nodename not in text
    assert str(ROOT) not in text


def test_an_unknown_case_or_peer_is_refused_with_the_known_names(tmp_path):
    for option, known in (("--cases", "heavy_mp2"), ("--peers", "torch")):
        with pytest.raises(SystemExit, match=f"nonsense. Choose from: .*{known}"):
            command.main([option, "nonsense", "--output", str(tmp_path)])


def test_the_page_of_the_documentation_is_generated_from_the_kept_results(tmp_path, monkeypatch):
    page, pictures = publishing.PAGE.read_text(), publishing.PICTURES
    monkeypatch.setattr(publishing, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(publishing, "PICTURES", tmp_path / "pictures")
    publishing.publish_page()
    assert publishing.PAGE.read_text() == page
    drawn = {file.name for file in publishing.PICTURES.glob("*.svg")}
    assert {file.name for file in pictures.glob("*.svg")} == drawn
