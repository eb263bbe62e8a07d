from __future__ import annotations

import pytest
from benchmarks import data


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files of the cases, few of each."""
    sizes = data.Sizes(images=40, small_files=80, lines=200, records=1000, rows=1000)
    return data.make(tmp_path_factory.mktemp("benchmarks") / "data", sizes)
