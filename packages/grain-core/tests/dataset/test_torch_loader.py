"""Streams are recognised by torch, where it is imported; several workers of torch are refused."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# What torch.utils.data has of it: an abstract class, by which a DataLoader tells streams from maps.
TORCH = """
import abc, sys, types

class IterableDataset(metaclass=abc.ABCMeta):
    pass

def import_torch():
    data = types.ModuleType("torch.utils.data")
    data.IterableDataset, data.get_worker_info = IterableDataset, lambda: info
    sys.modules["torch.utils.data"] = data

info = None
"""


def run(program: str) -> str:
    program = TORCH + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "program",
    [
        "import_torch()\nimport grain",
        "import grain\nimport_torch()",
        "import grain\nfrom grain import IterDataset, MapDataset\nimport_torch()",
    ],
    ids=["torch first", "grain first", "grain used first"],
)
def test_torch_takes_datasets_for_streams_whatever_is_imported_first(program):
    output = run(
        program
        + """
ds = grain.MapDataset.range(3).to_iter_dataset().batch(2)
class Own(grain.IterDataset):
    def __iter__(self):
        return iter(ds)
print(isinstance(ds, IterableDataset), isinstance(Own(), IterableDataset))
print(isinstance(grain.MapDataset.range(3), IterableDataset), [x.tolist() for x in ds])
"""
    )
    assert output == "True True\nFalse [[0, 1], [2]]\n"


def test_a_module_that_is_being_imported_is_left_alone():
    output = run(
        """
        sys.modules["torch.utils.data"] = types.ModuleType("torch.utils.data")
        import grain
        print(list(grain.MapDataset.range(2).to_iter_dataset()))
        import_torch()
        print(isinstance(grain.MapDataset.range(2).to_iter_dataset().batch(2), IterableDataset))
        """
    )
    assert output == "[0, 1]\nTrue\n"


def test_several_workers_of_torch_are_refused_unless_they_share_out_the_elements():
    output = run(
        """
        import_torch()
        import grain
        ds = grain.MapDataset.range(4).to_iter_dataset()
        for count in (1, 2):
            info = types.SimpleNamespace(num_workers=count, id=0, dataset=ds)
            try:
                print(list(ds))
            except RuntimeError as error:
                print(error)
        info.dataset = object()
        print(list(ds))
        """
    )
    first, refused, shared = output.splitlines()
    assert first == shared == "[0, 1, 2, 3]"
    assert "DataLoader(num_workers=2) of torch" in refused
    assert "ds.mp_prefetch(num_workers=2)" in refused
