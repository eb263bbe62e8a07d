"""Chunks of elements of unknown size."""

from __future__ import annotations

from typing import Any

import pytest

import grain


@pytest.mark.parametrize("size", ["raises", "deep"])
def test_an_element_that_does_not_tell_its_size_is_an_element_like_others(size: str) -> None:
    class Secretive:
        @property
        def nbytes(self) -> int:
            raise RuntimeError("not decoded yet")

    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    element: Any = Secretive() if size == "raises" else deep
    ds = grain.MapDataset.source([element] * 9).to_iter_dataset().map(lambda x: 1)
    assert list(ds) == [1] * 9
