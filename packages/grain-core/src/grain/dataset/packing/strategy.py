"""The choice of a packing strategy by name."""

from __future__ import annotations

from typing import Any

from grain.dataset.iter_dataset import IterDataset
from grain.dataset.packing.concat_split import ConcatThenSplitIterDataset
from grain.dataset.packing.fit import BestFitPackIterDataset, FirstFitPackIterDataset

_STRATEGIES = {
    "first_fit": FirstFitPackIterDataset,
    "best_fit": BestFitPackIterDataset,
    "concat_then_split": ConcatThenSplitIterDataset,
}
_BINS = 64


def pack(
    ds: IterDataset[Any], length_struct: Any, strategy: str, options: dict[str, Any]
) -> IterDataset[dict[str, Any]]:
    """Pack the elements of a dataset with a named strategy."""
    try:
        packer: Any = _STRATEGIES[strategy]
    except (KeyError, TypeError):
        raise ValueError(
            f"strategy must be one of {', '.join(map(repr, _STRATEGIES))}, got {strategy!r}."
        ) from None
    if packer is not ConcatThenSplitIterDataset:
        options = {"num_packing_bins": _BINS, **options}
    packed: IterDataset[dict[str, Any]] = packer(ds, length_struct=length_struct, **options)
    return packed
