"""Streams and states of earlier releases: the same elements, and every state still resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .golden import load, releases
from .history import Checker, close, record
from .pipelines import LOADERS, PIPELINES, build

# A filter that keeps little is nothing to warn about here.
pytestmark = pytest.mark.filterwarnings("ignore")

each_release = pytest.mark.parametrize("release", releases(), ids=lambda path: path.stem)


@each_release
def test_pipelines_give_the_streams_of_an_earlier_release(release: Path) -> None:
    golden = load(release)
    assert golden.keys() <= {*PIPELINES, *LOADERS}
    for name, stream in golden.items():
        assert record(build(name, "inline")) == stream, name


@each_release
def test_states_of_an_earlier_release_resume_exactly(release: Path) -> None:
    for name, stream in load(release).items():
        iterator = iter(build(name, "inline"))
        for position in range(len(stream.states)):
            checker = Checker(stream, iterator)
            checker.jump(position)
            checker.finish()
        close(iterator)


@each_release
def test_states_of_an_earlier_release_resume_with_workers(release: Path) -> None:
    golden = load(release)
    for name in ("shuffled map batches", "draws after a filter", "interleave streams"):
        stream = golden[name]
        checker = Checker(stream, iter(build(name, "workers")))
        checker.jump(len(stream.elements) // 2)
        checker.finish()
        close(checker.iterator)
