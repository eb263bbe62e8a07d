"""Specs are frozen, and refuse invalid fields."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

from grain.plugins import Capability, Kind, PluginSpec

GOOD = {"name": "jsonl", "target": "grain_jsonl.source:Source", "kind": Kind.MAP_SOURCE}


def test_a_spec_keeps_what_it_was_given_and_cannot_be_changed() -> None:
    spec = PluginSpec(**GOOD, public_names=("JsonSource",), suffixes=(".jsonl", ".jsonl.gz"))
    assert spec.public_names == ("JsonSource",)
    assert spec.api == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"


def test_a_spec_takes_keywords_only() -> None:
    with pytest.raises(TypeError):
        PluginSpec("jsonl", "a.b:C", Kind.MAP_SOURCE)


def test_lists_sets_and_plain_strings_for_enums_are_taken_and_frozen() -> None:
    spec = PluginSpec(
        **{**GOOD, "kind": "map-source"}, schemes=["jsonl"], capabilities={"batched-read"}
    )
    assert spec.kind is Kind.MAP_SOURCE
    assert spec.schemes == ("jsonl",)
    assert spec.capabilities == frozenset({Capability.BATCHED_READ})
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"name": "Json Lines"}, ValueError, "name"),
        ({"name": ""}, ValueError, "name"),
        ({"name": None}, TypeError, "name"),
        ({"target": "grain_jsonl.source.Source"}, ValueError, "package.module:Attribute"),
        ({"target": "grain_jsonl.source:"}, ValueError, "target"),
        ({"target": "grain-jsonl:Source"}, ValueError, "target"),
        ({"kind": "sources"}, ValueError, "sources"),
        ({"public_names": "JsonSource"}, TypeError, r"\('JsonSource',\)"),
        ({"public_names": ("_JsonSource",)}, ValueError, "underscore"),
        ({"public_names": ("Json.Source",)}, ValueError, "public_names"),
        ({"public_names": ("A", "A")}, ValueError, "expected each of them once"),
        ({"public_names": (1,)}, TypeError, "expected strings"),
        ({"schemes": ("jsonl://",)}, ValueError, "schemes"),
        ({"schemes": ("json+lines",)}, ValueError, "schemes"),
        ({"schemes": ("file",)}, ValueError, "local path"),
        ({"suffixes": ("jsonl",)}, ValueError, "suffixes"),
        ({"suffixes": (".JSONL",)}, ValueError, "lower-case"),
        ({"capabilities": {"fast"}}, ValueError, "fast"),
        ({"api": 0}, ValueError, "api"),
        ({"api": True}, ValueError, "api"),
        ({"api": "1"}, ValueError, "api"),
        ({"summary": "one\ntwo"}, ValueError, "one line"),
        ({"kind": "transform", "suffixes": (".jsonl",)}, ValueError, "only sources open"),
    ],
)
def test_a_spec_that_could_not_work_is_refused_with_what_was_wrong(
    fields: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        PluginSpec(**{**GOOD, **fields})


def test_kinds_and_capabilities_are_plain_text_in_json() -> None:
    assert json.dumps([Kind.ITER_SOURCE, Capability.COLUMNS]) == '["iter-source", "columns"]'
