"""The progress line and tracebacks in the kernel of a notebook."""

from __future__ import annotations

import re

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

PROGRESS = """
import grain

ds = grain.MapDataset.range(50).map(str).to_iter_dataset().batch(2)
for batch in grain.experimental.progress(ds, description="<b>train", interval=0):
    pass
"""
ERROR = """
def fail(x):
    raise ValueError("no")

next(iter(grain.MapDataset.range(5).map(fail)))
"""


@pytest.fixture(scope="module")
def cells():
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in (PROGRESS, ERROR)]
    )
    client = nbclient.NotebookClient(
        notebook, timeout=100, kernel_name="python3", allow_errors=True
    )
    client.execute()
    return notebook.cells


def test_one_output_is_updated_and_escaped(cells):
    (output,) = cells[0].outputs
    assert output.output_type == "display_data"
    assert output.data["text/plain"].startswith("<b>train: 25 of 25 (100%) | ")
    assert output.data["text/html"].startswith("<pre>&lt;b&gt;train: ")


def test_a_traceback_hides_the_frames_of_the_library(cells):
    (output,) = cells[1].outputs
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    assert re.search(r"skipping hidden \d+ frame", text)
    assert "iterator.py" not in text
    assert 'raise ValueError("no")' in text
