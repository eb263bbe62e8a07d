"""Checkpoints that an earlier version wrote are restored, with and without worker processes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from .golden import table

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "golden.json").read_text())

each_pipeline = pytest.mark.parametrize("name", table.NAMES)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def take(iterator: Any, count: int) -> list[Any]:
    return [table.as_json(element) for element in itertools.islice(iterator, count)]


def as_text(state: Any) -> Any:
    return state.decode() if isinstance(state, bytes) else json.loads(json.dumps(state))


def test_every_pipeline_of_the_table_was_recorded() -> None:
    assert list(GOLDEN) == table.NAMES


@each_pipeline
def test_a_pipeline_has_its_recorded_fingerprint_states_and_elements(name: str) -> None:
    golden = GOLDEN[name]
    with iter(table.make(name)) as iterator:
        assert iterator.state_dict()["pipeline"] == golden["fingerprint"]
        for step, element in enumerate(golden["elements"]):
            if str(step) in golden["states"]:
                assert as_text(iterator.get_state()) == golden["states"][str(step)]
            assert table.as_json(next(iterator)) == element


@each_pipeline
def test_a_recorded_checkpoint_is_restored(name: str) -> None:
    golden = GOLDEN[name]
    for step, state in golden["states"].items():
        with iter(table.make(name)) as iterator:
            iterator.load_state_dict({"state": state, "pipeline": golden["fingerprint"]})
            expected = golden["elements"][int(step) :]
            assert take(iterator, len(expected)) == expected


@each_pipeline
def test_a_recorded_checkpoint_is_restored_by_worker_processes(name: str) -> None:
    golden = GOLDEN[name]
    state = golden["states"]["1"]
    with iter(table.make(name, workers=2)) as iterator:
        iterator.load_state_dict({"state": state, "pipeline": golden["fingerprint"]})
        expected = golden["elements"][1:]
        assert take(iterator, len(expected)) == expected
