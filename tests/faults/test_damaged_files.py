"""Damaged files give an error that names them, and no wrong data where there are checksums."""

from __future__ import annotations

import pytest

damage = pytest.importorskip("tests.faults.damage", reason="needs the plugins that read files")

# Errors of these do not name the file.
KNOWN_DEFECTS = {"Parquet"}


@pytest.mark.parametrize("name", [name for name in damage.FORMATS if name not in KNOWN_DEFECTS])
def test_damaged_files_are_errors_that_name_the_file(name: str) -> None:
    report = damage.run_apart(name, 7, 25)
    assert not report.bad, "\n".join(report.bad)
    assert report.files == 25
    assert report.errors > 5
