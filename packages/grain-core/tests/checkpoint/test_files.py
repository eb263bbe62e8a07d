"""A changed set of files is reported file by file; needs the plugins."""

from __future__ import annotations

import shutil

import pytest

import grain
from grain.checkpoint import ChangedPipelineError, CheckpointHandler


def array_record_files(folder):
    module = pytest.importorskip("array_record.python.array_record_module")
    pytest.importorskip("grain_arrayrecord")
    paths = [folder / f"part-{number}.array_record" for number in range(3)]
    for path in paths:
        writer = module.ArrayRecordWriter(str(path), "group_size:1")
        for record in range(4):
            writer.write(b"%d" % record)
        writer.close()
    return [str(path) for path in paths]


def parquet_files(folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("grain_parquet")
    paths = [folder / f"part-{number}.parquet" for number in range(3)]
    for path in paths:
        pq.write_table(pa.table({"x": list(range(4))}), path)
    return [str(path) for path in paths]


MAKERS = {
    "array record": (array_record_files, lambda paths: grain.sources.ArrayRecordDataSource(paths)),
    "parquet": (parquet_files, lambda paths: grain.sources.ParquetDataSource(paths)),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_changed_set_of_files_is_reported_file_by_file(tmp_path, kind):
    write, open_source = MAKERS[kind]
    paths = write(tmp_path)

    def pipeline(paths):
        return iter(grain.MapDataset.source(open_source(paths)).shuffle(seed=1))

    folder = tmp_path / "checkpoint"
    folder.mkdir()
    CheckpointHandler().save(folder, pipeline(paths[:2]))
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(folder, pipeline([paths[0], paths[2]]))
    message = str(caught.value)
    assert f"    file: {paths[0]}\n" in message
    assert f"  - file: {paths[1]}\n" in message
    assert f"  + file: {paths[2]}\n" in message
    assert {"file"} <= set(caught.value.kinds) <= {"source", "file"}
    CheckpointHandler().restore(folder, pipeline([paths[0], paths[2]]), allow=("source", "file"))
    CheckpointHandler().restore(folder, pipeline(paths[:2]))


def test_files_that_moved_are_allowed_by_name(tmp_path):
    paths = parquet_files(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in paths:
        shutil.copy(path, moved)
    here = iter(grain.MapDataset.source(grain.sources.ParquetDataSource(paths)))
    next(here)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    CheckpointHandler().save(folder, here)
    there = iter(
        grain.MapDataset.source(
            grain.sources.ParquetDataSource([str(path) for path in sorted(moved.iterdir())])
        )
    )
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(folder, there)
    assert caught.value.kinds == ("file",)
    CheckpointHandler().restore(folder, there, allow="file")
    assert next(there) == next(here)
