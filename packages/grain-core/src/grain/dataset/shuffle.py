"""Global shuffle: a permutation of the whole dataset, a new one in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from grain.dataset.combined import CombinedReader, ReindexedReader
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.map_dataset import MapDataset
from grain.index.permutation import IndexArray, shuffle_each, shuffle_epochs, shuffle_one
from grain.options import checked_int

T = TypeVar("T")

# Few consecutive indices are permuted as part of a block that is kept: most of the cost is per call.
_BLOCK_SIZE = 2048


class ShuffleMapDataset(IndexTransformMapDataset[T]):
    """The parent's elements in shuffled order."""

    fingerprint_name = "shuffle"
    is_random = True
    # (first index, permuted indices) of the last block; replaced as a whole, so threads may share a node.
    _block: tuple[int, IndexArray] = (0, np.empty(0, np.int64))
    # The index after the last one that was read: reading in order continues there.
    _continues_at = 0

    def __init__(self, parent: MapDataset[T], seed: int | None = None):
        super().__init__(parent)
        if seed is None:
            seed = self.default_seed
            if seed is None:
                # Message kept from google/grain 0.2.18
                raise ValueError(
                    "`shuffle` requires a seed. Please provide it with `ds.seed(seed)` before it, or "
                    "pass it directly with `ds.shuffle(seed=seed)`."
                )
        seed = checked_int("seed", seed, least=-(2**63))
        if not 0 <= seed < 2**32:
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Seed must be an integer between 0 and 2**32-1 (got seed={seed}).")
        self._seed = seed
        self._length = len(parent)

    def __len__(self) -> int:
        return self._length

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__
        if "_continues_at" in state:
            own = ("_block", "_continues_at")
            state = {name: value for name, value in state.items() if name not in own}
        return state

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        count = indices.size
        first = int(indices[0])
        if count >= _BLOCK_SIZE or int(indices[-1]) - first != count - 1:
            return shuffle_epochs(indices, self._length, self._seed)
        begin, permuted = self._block
        in_order = first == self._continues_at
        self._continues_at = first + count
        if not begin <= first <= first + count <= begin + permuted.size:
            if count == 1:
                return np.array([shuffle_one(first, self._length, self._seed)], np.int64)
            # To the end of the epoch at most: the next epoch is another permutation.
            epoch_end = (first // self._length + 1) * self._length
            end = min(first + _BLOCK_SIZE, epoch_end)
            if first + count > end or not in_order:
                return shuffle_epochs(indices, self._length, self._seed)
            begin = first
            permuted = shuffle_epochs(
                np.arange(first, end, dtype=np.int64), self._length, self._seed
            )
            self._block = (begin, permuted)
        if count > 2 and not (indices[1:] > indices[:-1]).all():
            return shuffle_epochs(indices, self._length, self._seed)
        return permuted[first - begin : first - begin + count]

    def _parent_index(self, index: int) -> int:
        self._continues_at = index + 1
        return shuffle_one(index, self._length, self._seed)

    @classmethod
    def combine(cls, nodes: Sequence[ShuffleMapDataset[Any]]) -> CombinedReader | None:
        lengths = np.array([len(node) for node in nodes], dtype=np.int64)
        seeds = np.array([node._seed for node in nodes], dtype=np.int64)
        return ReindexedReader(
            nodes, lambda chosen, indices: shuffle_each(indices, lengths[chosen], seeds[chosen])
        )

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"seed": self._seed}
