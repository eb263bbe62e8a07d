"""Features are renamed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    Rekey,
    ShapeDtypeStruct,
    get_element_spec,
)


def test_rekey_renames_in_both_kinds_of_dataset() -> None:
    ds = grain.MapDataset.source([{"a": 1, "b": 2}])
    assert ds.rekey({"a": "x"})[0] == {"x": 1, "b": 2}
    assert list(ds.to_iter_dataset().rekey({"a": "b", "b": "a"})) == [{"b": 1, "a": 2}]
    assert list(ds.to_iter_dataset().rekey({"a": "x"}, keep_others=False)) == [{"x": 1}]


def test_rekey_pickles_and_has_a_spec() -> None:
    transform = pickle.loads(pickle.dumps(Rekey({"a": "x"})))
    assert transform == Rekey({"a": "x"})
    ds = grain.MapDataset.source([{"a": np.zeros(2)}]).map(transform)
    assert get_element_spec(ds) == {"x": ShapeDtypeStruct((2,), np.float64)}


@pytest.mark.parametrize(
    ("names", "error"), [({"a": "x", "b": "x"}, ValueError), (["a"], TypeError)]
)
def test_wrong_names_are_refused_when_built(names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="rekey"):
        grain.MapDataset.source([{}]).rekey(names)


def test_rekey_refuses_what_it_cannot_rename() -> None:
    with pytest.raises(KeyError, match=r"\['z'\].*\['a', 'b'\]"):
        Rekey({"z": "x"}).map({"a": 1, "b": 2})
    with pytest.raises(ValueError, match="two features"):
        Rekey({"a": "b"}).map({"a": 1, "b": 2})
    with pytest.raises(TypeError, match="dictionaries"):
        Rekey({"a": "b"}).map([1])
