"""Written elements are read back, and values that JSON cannot represent are named."""

from __future__ import annotations

import numpy as np
import pytest

from grain_jsonl import JsonLinesDataSource
from grain_jsonl.writer import write_elements


def test_elements_are_read_back_in_their_json_form(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    elements = [
        {"id": np.int64(3), "vector": np.arange(3, dtype=np.float32), "text": "zwölf\n\u2028"},
        [1, None, True],
        "text",
        None,
    ]
    assert write_elements(path, iter(elements)) == 4
    with JsonLinesDataSource(path) as source:
        assert source.__getitems__(range(4)) == [
            {"id": 3, "vector": [0.0, 1.0, 2.0], "text": "zwölf\n\u2028"},
            [1, None, True],
            "text",
            None,
        ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"x", "bytes"),
        (np.zeros(2, "S3"), "array of"),
        ({1, 2}, "set"),
        (np.datetime64(1, "D"), ""),
    ],
)
def test_values_that_json_cannot_represent_are_named(tmp_path, value, kind) -> None:
    with pytest.raises(ValueError, match=rf"Element 1 cannot be written as JSON: .*type {kind}"):
        write_elements(tmp_path / "a.jsonl", [{"a": 1}, {"a": value}])
    assert list(tmp_path.iterdir()) == []


def test_text_that_cannot_be_encoded_is_named_and_the_existing_file_is_kept(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("mine")
    with pytest.raises(ValueError, match="Element 1 cannot be written as JSON: 'utf-8' codec"):
        write_elements(path, ["fine", "half of a pair: \ud800"])
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "mine"
