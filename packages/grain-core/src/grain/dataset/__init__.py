"""Datasets: what a pipeline is. Each operation has a file with its map form, its iter form and its state.

An operation is imported at first use: no program needs all of them, and a worker process needs only those
of its pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

if TYPE_CHECKING:
    from grain.dataset import apply as apply
    from grain.dataset import batch as batch
    from grain.dataset import cache as cache
    from grain.dataset import concatenate as concatenate
    from grain.dataset import epochs as epochs
    from grain.dataset import filter as filter  # noqa: A004
    from grain.dataset import flat_map as flat_map
    from grain.dataset import from_iterable as from_iterable
    from grain.dataset import limit as limit
    from grain.dataset import map as map  # noqa: A004
    from grain.dataset import missing_attribute as missing_attribute
    from grain.dataset import mix as mix
    from grain.dataset import observe as observe
    from grain.dataset import pad_or_trim as pad_or_trim
    from grain.dataset import prefetch as prefetch
    from grain.dataset import random_map as random_map
    from grain.dataset import rebatch as rebatch
    from grain.dataset import rekey as rekey
    from grain.dataset import repeat as repeat
    from grain.dataset import seed as seed
    from grain.dataset import selection as selection
    from grain.dataset import shard_batches as shard_batches
    from grain.dataset import shuffle as shuffle
    from grain.dataset import slice as slice  # noqa: A004
    from grain.dataset import source as source
    from grain.dataset import split as split
    from grain.dataset import to_iter as to_iter
    from grain.dataset import unbatch as unbatch
    from grain.dataset import window_shuffle as window_shuffle
    from grain.dataset import zip as zip  # noqa: A004
else:
    __getattr__, __dir__ = lazy_names(__name__, submodules=None)
