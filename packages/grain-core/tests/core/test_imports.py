"""The modules that importing and using the library loads."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys

import pytest

import grain

HEAVY = ("jax", "orbax", "pyarrow", "array_record", "tensorflow", "absl", "pytest", "torch")


def modules_loaded(program: str) -> set[str]:
    """Return all modules that a fresh interpreter has loaded after running a program."""
    show = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", program + show]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return set(json.loads(done.stdout))


def modules_after(program: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running a program."""
    return {name.partition(".")[0] for name in modules_loaded(program)}


PROGRAMS = {
    "importing": "import grain",
    "importing everything public": """
import grain.checkpoint, grain.constants, grain.experimental, grain.multiprocessing, grain.python
import grain.python.experimental, grain.samplers, grain.sharding, grain.sources, grain.transforms
""",
    "running": """
import grain
ds = grain.MapDataset.range(100).seed(1).shuffle().map(lambda x: {"x": x}).batch(10)
iterator = iter(ds.repeat(2).to_iter_dataset().filter(lambda x: True))
next(iterator)
iterator.set_state(iterator.get_state())
list(grain.load(list(range(10)), num_epochs=1, batch_size=2))
repr(grain.config), dir(grain), dir(grain.sources), dir(grain.transforms)
""",
}


def test_modules_are_loaded_on_first_use():
    loaded = modules_loaded("import grain")
    assert not loaded & {"numpy", "grain.dataset.base", "grain.python", "grain.plugins"}
    loaded = modules_loaded("import grain\ngrain.MapDataset.range(3).map(str)")
    assert {"grain.dataset.source", "grain.dataset.map"} <= loaded
    assert not loaded & {
        "grain.dataset.mix",
        "grain.dataset.zip",
        "grain.execution.adaptive_reader",
    }


@pytest.mark.parametrize(
    "program",
    [
        "from grain import *\nMapDataset, DataLoader, transforms, experimental, load",
        "from grain import MapDataset, DataLoader, BatchOperation, GrainCheckpointHandler",
        "from grain import sources, transforms, samplers, sharding, python, constants",
        "import grain.sources\ngrain.MapDataset, grain.sources.RangeDataSource",
        "import grain\nassert {'MapDataset', 'transforms', 'BatchOperation'} <= set(dir(grain))",
        "import grain\nassert grain.MapDataset is grain.python.MapDataset is grain.MapDataset",
        "from grain.dataset.batch import BatchMapDataset\nBatchMapDataset.__init__",
        "from grain.dataset import filter, zip\nfilter.FilterMapDataset, zip.ZipMapDataset",
        "from grain.execution.adaptive_reader import make_reader",
    ],
)
def test_names_are_found_in_any_order(program):
    modules_loaded(program)


@pytest.mark.parametrize(
    "module",
    [
        "grain",
        "grain.experimental",
        "grain.multiprocessing",
        "grain.python",
        "grain.python.experimental",
        "grain.samplers",
        "grain.sharding",
        "grain.sources",
        "grain.transforms",
    ],
)
def test_completion_offers_public_names_only(module):
    found = importlib.import_module(module)
    offered = {name for name in dir(found) if not name.startswith("__")}
    helpers = {"Any", "TYPE_CHECKING", "annotations", "dataclasses", "lazy_names", "np", "sys"}
    assert not {name for name in offered if name.startswith("_")} | (offered & helpers)
    assert set(found.__all__) <= set(dir(found))
    assert all(hasattr(found, name) for name in offered)


def test_completion_of_checkpoints_has_names_that_need_orbax():
    # Without Orbax, too, whose absence is an error when a name is used.
    names = {"CheckpointHandler", "CheckpointRestore", "CheckpointSave"}
    assert names <= set(dir(importlib.import_module("grain.checkpoint")))


def test_names_are_found_by_many_threads_at_once():
    program = """
import threading, grain
names = ["MapDataset", "DataLoader", "transforms", "experimental", "sources", "Batch"] * 4
barrier, found = threading.Barrier(len(names)), []
def look(name):
    barrier.wait()
    found.append(getattr(grain, name))
threads = [threading.Thread(target=look, args=[name]) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == len(names), found
"""
    modules_loaded(program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_heavy_is_loaded_by(name):
    assert modules_after(PROGRAMS[name]) & set(HEAVY) == set()


def test_no_plugin_is_loaded_by_importing():
    loaded = modules_after("import grain")
    assert not {name for name in loaded if name.startswith("grain_")}


def test_every_module_can_be_imported_by_itself():
    optional = {"grain.checkpoint.orbax_args", "grain.__main__"}
    names = [
        module.name
        for module in pkgutil.walk_packages(grain.__path__, "grain.")
        if module.name not in optional and ".template" not in module.name
    ]
    assert len(names) > 60
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    for group in (names[::3], names[1::3], names[2::3][::-1]):
        subprocess.run([sys.executable, "-c", program, *group], check=True, timeout=60)


@pytest.mark.parametrize(
    "module", ["grain", "grain.python", "grain.experimental", "grain.transforms", "grain.sources"]
)
def test_every_public_name_is_there(module):
    found = importlib.import_module(module)
    needs_orbax = {"CheckpointSave", "CheckpointRestore"}
    for name in found.__all__:
        if not any(name.endswith(suffix) for suffix in needs_orbax):
            assert getattr(found, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    for module in (grain, grain.python, grain.experimental, grain.checkpoint):
        with pytest.raises(AttributeError, match="NoSuchThing"):
            module.NoSuchThing  # noqa: B018
