"""Examples in docstrings hold, and the most used parts of the library have one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import grain

MODULES = sorted(
    {
        "grain",
        *(
            module.name
            for module in pkgutil.walk_packages(grain.__path__, "grain.")
            if ".template" not in module.name
        ),
    }
    - {"grain.__main__", "grain.checkpoint.orbax_args"}
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    module = importlib.import_module(name)
    for value in list(vars(module).values()):
        # Load lazy modules first: loading one adds to the namespace, over which doctest iterates.
        hasattr(value, "__wrapped__")
    assert doctest.testmod(module).failed == 0


def has_example(item: object) -> bool:
    return ">>>" in (item.__doc__ or "")


def test_every_operation_of_a_map_dataset_is_described_and_most_show_an_example():
    methods = [
        method
        for name, method in vars(grain.MapDataset).items()
        if not name.startswith("_") and callable(getattr(grain.MapDataset, name))
    ]
    documented = [getattr(method, "__func__", method) for method in methods]
    assert all(function.__doc__ for function in documented)
    assert sum(map(has_example, documented)) >= 16


@pytest.mark.parametrize(
    "item",
    [
        grain.DataLoader,
        grain.load,
        grain.samplers.IndexSampler,
        grain.samplers.SequentialSampler,
        grain.sharding.ShardOptions,
        grain.ReadOptions,
        grain.MultiprocessingOptions,
        grain.checkpoint.CheckpointHandler,
        grain.experimental.DatasetOptions,
        grain.experimental.RngPool,
        grain.experimental.index_shuffle,
        grain.transforms.Map,
    ],
    ids=lambda item: item.__name__,
)
def test_what_users_write_most_has_an_example(item):
    assert has_example(item)
