"""Applying transformation objects to a dataset of either kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain import dataset as operations
from grain import transforms
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.map_dataset import MapDataset


def apply_transformations(
    ds: MapDataset[Any] | IterDataset[Any],
    transformations: transforms.Transformation | transforms.Transformations,
) -> MapDataset[Any] | IterDataset[Any]:
    """Apply transformations to a dataset, in order.

    >>> import grain
    >>> list(apply_transformations(grain.MapDataset.range(4), grain.transforms.Batch(2)))
    [array([0, 1]), array([2, 3])]
    """
    if not isinstance(transformations, Sequence):
        transformations = (transformations,)
    for transformation in transformations:
        match transformation:
            case transforms.Batch():
                ds = ds.batch(
                    transformation.batch_size,
                    drop_remainder=transformation.drop_remainder,
                    batch_fn=transformation.batch_fn,
                )
            case transforms.Map():
                ds = ds.map(transformation)
            case transforms.RandomMap():
                ds = ds.random_map(transformation)
            case transforms.TfRandomMap():
                ds = ds.random_map(transformation.np_random_map)
            case transforms.MapWithIndex():
                ds = ds.map_with_index(transformation)
            case transforms.Filter():
                ds = ds.filter(transformation)
            case transforms.FlatMap():
                ds = operations.flat_map.flat_map(ds, transformation)
            case _:
                # Message kept from google/grain 0.2.18
                raise NotImplementedError(
                    f"Transformation type: {transformation} is not supported. Pass an instance of a "
                    "class in `grain.transforms`, or call the dataset's method with your function."
                )
    return ds
