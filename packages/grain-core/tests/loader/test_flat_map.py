"""Elements of a DataLoader are split."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import grain


class Twice(grain.transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element: int) -> Iterator[int]:
        yield element
        yield element + 100


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_takes_pieces_from_a_generator(workers: int) -> None:
    loader = grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, 4, 1),
        sampler=grain.samplers.IndexSampler(4, num_epochs=1),
        operations=[Twice()],
        worker_count=workers,
    )
    expected = [0, 100, 1, 101, 2, 102, 3, 103]
    with iter(loader) as iterator:
        found = [next(iterator) for _ in range(3)]
        state = iterator.get_state()
        assert found + list(iterator) == expected
        iterator.set_state(state)
        assert list(iterator) == expected[3:]
