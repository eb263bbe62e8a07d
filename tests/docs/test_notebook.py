"""Datasets, pages and statistics in the kernel of a notebook, as users of notebooks see them."""

from __future__ import annotations

import os

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    """
import numpy as np
import grain

def decode(x):
    return {"image": np.full((16, 16, 3), x, np.uint8), "text": "<script>alert(1)</script>"}

ds = grain.MapDataset.range(40).shuffle(seed=1).map(decode).to_iter_dataset().batch(4)
""",
    "ds",
    "ds.visualize(max_seconds=30)",
    "grain.load(list(range(8)), num_epochs=1, batch_size=2)",
    """
with grain.observing():
    iterator = iter(ds.mp_prefetch(num_workers=1))
elements = list(iterator)
iterator.stats().elements, len(elements)
""",
    """
iterator = iter(ds)
next(iterator)
state = iterator.get_state()
with grain.observe.live(announce=False) as server:
    other = iter(ds)
    other.set_state(state)
    rest = len(list(other))
rest
""",
]


@pytest.fixture(scope="module")
def outputs():
    """Run the cells in a fresh kernel, and return the data of the last output of each."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    kernel = {"metadata": {"kernelspec": {"name": "python3"}}}
    client = nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3", resources=kernel)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    client.execute(env=os.environ | {"JAX_PLATFORMS": "cpu"})
    return [cell.outputs[-1].get("data", {}) if cell.outputs else {} for cell in notebook.cells]


def test_a_dataset_is_shown_as_its_graph_and_as_text(outputs):
    shown = outputs[1]["text/html"]
    assert "grain fragment" in shown
    assert "map(decode)" in shown
    assert "<script" not in shown
    assert "MapDataset.range(40)" in outputs[1]["text/plain"]


def test_a_page_is_shown_in_a_frame(outputs):
    shown = outputs[2]["text/html"]
    assert shown.startswith("<iframe")
    assert 'sandbox=""' in shown
    assert "<script" not in shown
    assert "PipelinePage of 5 operations" in outputs[2]["text/plain"]


def test_a_loader_is_shown_as_its_graph(outputs):
    assert "grain fragment" in outputs[3]["text/html"]


def test_statistics_of_workers_are_measured(outputs):
    assert outputs[4]["text/plain"] == "(10, 10)"


def test_a_live_page_is_served_from_a_kernel(outputs):
    assert outputs[5]["text/plain"] == "9"
