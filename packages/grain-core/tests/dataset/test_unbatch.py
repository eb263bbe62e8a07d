"""Batches are split into their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    ShapeDtypeStruct,
    get_element_spec,
)


def test_unbatch_undoes_batch_and_resumes(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    batches = [
        {"a": np.arange(3), "b": (np.ones((3, 2)),)},
        {"a": np.arange(0), "b": (np.ones((0, 2)),)},
        {"a": np.arange(3, 5), "b": (np.zeros((2, 2)),)},
    ]
    rows = resumes(lambda: parent_of(batches).unbatch())
    assert [int(row["a"]) for row in rows] == [0, 1, 2, 3, 4]
    assert [row["b"][0][3] for row in rows] == [[1, 1]] * 3 + [[0, 0]] * 2


def test_unbatch_infers_the_spec_of_rows() -> None:
    ds = grain.MapDataset.source(np.zeros((4, 3), np.int8)).batch(2).to_iter_dataset().unbatch()
    assert get_element_spec(ds) == ShapeDtypeStruct((3,), np.int8)


@pytest.mark.parametrize(
    ("element", "error"),
    [(3, TypeError), ({"a": np.arange(2), "b": np.arange(3)}, ValueError)],
)
def test_what_is_no_batch_cannot_be_unbatched(element: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="unbatch needs batches"):
        list(grain.MapDataset.source([element]).to_iter_dataset().unbatch())
