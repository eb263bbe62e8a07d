"""The demo works as the README says, and detects a wrong resumed stream."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

DEMO = pathlib.Path(__file__).parent.parent / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def finished():
    command = [sys.executable, "-W", "error", str(DEMO)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_the_demo_succeeds_and_writes_nothing_to_stderr(finished):
    assert (finished.returncode, finished.stderr) == (0, "")


def test_the_demo_shows_progress_and_throughput_of_all_three_runs(finished):
    lines = re.findall(r"([\w ]+?) +\[#+\.*\] +\d+/400 batches +[\d,]+ elements/s", finished.stdout)
    assert {line.strip() for line in lines} == {"undisturbed", "4 workers", "resumed"}


def test_the_demo_compares_throughput_and_says_what_is_next(finished):
    comparison = finished.stdout.partition("each read waits 2 ms")[2]
    pattern = r"  (a plain Python loop|grain, [\w ]+?) +([\d,]+) elements/s\n"
    names, figures = zip(*re.findall(pattern, comparison), strict=True)
    assert names == ("a plain Python loop", "grain, default threads", "grain, 4 workers")
    assert all(int(figure.replace(",", "")) > 0 for figure in figures)
    for path in re.findall(r"docs/\w+\.md", finished.stdout):
        assert (DEMO.parent.parent / path).is_file()


def test_the_interrupted_and_resumed_stream_has_the_digest_of_the_undisturbed_one(finished):
    digests = re.findall(r"400 batches +([0-9a-f]{64})", finished.stdout)
    assert len(digests) == 2
    assert len(set(digests)) == 1


def test_the_stream_equals_the_stream_of_the_reference(finished):
    # Recorded by running the demo with google/grain 0.2.18.
    recorded = "3d79c55a3454cc0a86cb371b5e2747d61f38fcf61ac5deec9a2b8a8868a5539d"
    assert recorded in finished.stdout


@pytest.mark.parametrize("fault", ["changed", "missing", "doubled", "swapped"])
def test_the_comparison_detects_a_batch_that_is(demo, fault, capsys):
    expected = [str(number) for number in range(demo.TOTAL)]
    before, after = expected[:73], expected[73:]
    match fault:
        case "changed":
            after[5] = "other"
        case "missing":
            del after[-1]
        case "doubled":
            after.insert(0, before[-1])
        case "swapped":
            after[0], after[1] = after[1], after[0]
    assert not demo.compare(expected, before, after)
    assert "DIFFER" in capsys.readouterr().out


def test_a_demo_that_resumes_at_the_wrong_batch_fails(demo, monkeypatch, tmp_path):
    run = subprocess.run

    def resume_one_batch_late(command, **options):
        checkpoint = pathlib.Path(command[-1])
        saved = json.loads(checkpoint.read_text())
        saved["state"]["next_index"] += 1
        checkpoint.write_text(json.dumps(saved))
        return run(command, **options)

    monkeypatch.setattr(demo.subprocess, "run", resume_one_batch_late)
    assert not demo.demonstrate(tmp_path)
