"""Examples of a TFDS dataset on disk: splits, decoders, order, processes, errors."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tests.descriptors import open_files
from tests.equality import same
from tests.threads import run_in_threads

from grain_tfds import TfdsDataSource


@pytest.fixture
def source(data_dir, skip_image) -> TfdsDataSource:
    return TfdsDataSource("tiny_pictures", split="train", data_dir=data_dir, decoders=skip_image)


def test_tensorflow_is_not_needed(source):
    assert source[0]
    assert "tensorflow" not in sys.modules


def test_the_examples_equal_those_of_tfds(source, data_dir, skip_image):
    theirs = tfds.data_source(
        "tiny_pictures", split="train", data_dir=data_dir, decoders=skip_image
    )
    assert len(source) == len(theirs) == 24
    assert all(same(source[i], theirs[i]) for i in range(24))
    assert all(map(same, source, theirs))
    assert sorted(example["text"] for example in source) == sorted(
        f"picture {i}".encode() for i in range(24)
    )
    assert source.dataset_info.features["label"].num_classes == 3


def test_splits_may_be_sliced(data_dir, skip_image, source):
    part = TfdsDataSource("tiny_pictures", "train[5:9]", data_dir, skip_image)
    assert len(part) == 4
    assert same(part[0], source[5])
    test = TfdsDataSource("tiny_pictures:1.2.0", "test", data_dir, skip_image)
    assert len(test) == 5


def test_decoders_are_used(source):
    assert source[0]["image"].startswith(b"\x89PNG")


def test_a_batched_read_equals_single_reads_in_the_requested_order(source):
    for indices in ([], [3], [5, 0, 23, 5, 5], np.array([7, 2]), range(24)):
        examples = source.__getitems__(indices)
        assert len(examples) == len(indices)
        assert all(same(source[i], example) for i, example in zip(indices, examples, strict=True))


def test_a_batched_read_is_one_call_of_tfds(source, monkeypatch):
    calls = []
    reader = tfds.core.data_sources.array_record.ArrayRecordDataSource
    read = reader.__getitems__

    def counting(self, indices):
        calls.append(list(indices))
        return read(self, indices)

    monkeypatch.setattr(reader, "__getitems__", counting)
    source.__getitems__([3, 1, 2])
    assert calls == [[3, 1, 2]]


def test_indices_are_whole_numbers_inside_of_the_source(source):
    assert same(source[np.int64(3)], source[3])
    for outside in (-1, 24, 10**20):
        with pytest.raises(IndexError, match=r"tiny_pictures/1\.2\.0, split train, with 24"):
            source[outside]
        with pytest.raises(IndexError):
            source.__getitems__([0, outside])
        with pytest.raises(ValueError, match="outside"):
            source[outside]
    for wrong in ("a", 1.0, slice(0, 1)):
        with pytest.raises(TypeError):
            source[wrong]


def test_the_repr_is_the_same_in_every_process(source, data_dir):
    script = (
        "import sys, tensorflow_datasets as tfds; from grain_tfds import TfdsDataSource;"
        "decoders = {'image': tfds.decode.SkipDecoding()};"
        "print(repr(TfdsDataSource('tiny_pictures', 'train', sys.argv[1], decoders)))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, data_dir], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == repr(source)
    assert repr(source) == (
        "TfdsDataSource(name='tiny_pictures/1.2.0', split='train', len=24, "
        "decoders={'image': 'SkipDecoding'})"
    )


def open_array_records() -> int:
    # TFDS writes the number of the shard after the suffix.
    return len([path for path in open_files("") if "array_record" in path])


def test_files_are_opened_when_read_and_released_by_close(source):
    gc.collect()
    before = open_array_records()
    assert source[0]
    assert open_array_records() == before + 1
    source.close()
    assert open_array_records() == before
    with source:
        assert source[0]
    assert open_array_records() == before


def test_a_used_source_pickles_small_and_its_copy_reads(source):
    first = source[0]
    data = pickle.dumps(source)
    assert len(data) < 10_000
    copy = pickle.loads(data)
    assert len(copy) == 24
    assert same(copy[0], first)
    assert repr(copy) == repr(source)


def _texts(source, indices, queue):
    queue.put([example["text"] for example in source.__getitems__(indices)])


def test_a_used_source_works_in_a_spawned_process(source):
    expected = [source[i]["text"] for i in (20, 3, 3)]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_texts, args=(source, [20, 3, 3], queue))
    child.start()
    assert queue.get(timeout=100) == expected
    child.join(60)
    assert child.exitcode == 0


def test_threads_read_while_others_close(source):
    expected = [example["text"] for example in source]

    def read(seed: int) -> None:
        for indices in np.random.default_rng(seed).integers(0, 24, (15, 6)):
            examples = source.__getitems__(indices)
            assert [e["text"] for e in examples] == [expected[i] for i in indices]
            if seed == 0:
                source.close()

    run_in_threads(read, 4)


def test_a_missing_split_is_refused_with_the_available_splits(data_dir):
    with pytest.raises(ValueError, match="got no split; available: 'train', 'test'"):
        TfdsDataSource("tiny_pictures", data_dir=data_dir)
    with pytest.raises(ValueError, match="nope"):
        TfdsDataSource("tiny_pictures", split="nope", data_dir=data_dir)


def test_a_dataset_that_is_not_on_the_machine_has_no_known_splits(monkeypatch):
    monkeypatch.setattr(tfds, "data_source", lambda *args, **kwargs: {})
    with pytest.raises(
        ValueError, match="got no split; its splits are known once it has been down"
    ):
        TfdsDataSource("mnist", download=False)


@pytest.mark.parametrize("damage", ["missing", "truncated", "junk"])
def test_a_damaged_file_is_reported_with_dataset_and_directory(
    damage, data_dir, tmp_path, skip_image
):
    copied = str(tmp_path / "copied")
    shutil.copytree(data_dir, copied)
    directory = os.path.join(copied, "tiny_pictures", "1.2.0")
    (name,) = (name for name in os.listdir(directory) if "train" in name)
    path = os.path.join(directory, name)
    with open(path, "rb") as file:
        whole = file.read()
    if damage == "missing":
        os.unlink(path)
    elif damage == "truncated":
        os.truncate(path, 70_000)
    else:
        with open(path, "wb") as file:
            file.write(b"junk" * 50_000)
    source = TfdsDataSource("tiny_pictures", split="train", data_dir=copied, decoders=skip_image)
    for read in (lambda: source[0], lambda: source.__getitems__([0, 5])):
        with pytest.raises((RuntimeError, OSError)) as caught:
            read()
        (note,) = caught.value.__notes__
        assert directory in note
        assert "prepare the dataset again" in note
    with open(path, "wb") as file:
        file.write(whole)
    assert source[0]["text"].startswith(b"picture")


class Blobs(tfds.core.GeneratorBasedBuilder):
    """Examples that do not compress, so that they take more than the first block of a file."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"blob": tfds.features.Tensor(shape=(250,), dtype=np.float32)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for number in range(400):
            yield number, {"blob": np.random.default_rng(number).random(250, np.float32)}


@pytest.mark.parametrize("indices", [[399], [390, 399]], ids=str)
def test_a_file_truncated_while_open_is_an_error(tmp_path, indices):
    tfds.display_progress_bar(False)
    Blobs(data_dir=tmp_path, file_format="array_record").download_and_prepare()
    source = TfdsDataSource("blobs", split="train", data_dir=tmp_path)
    assert source[399]["blob"].shape == (250,)
    (path,) = tmp_path.glob("**/*train*")
    size = path.stat().st_size
    os.truncate(path, size // 4)
    with pytest.raises(RuntimeError, match=rf"{size // 4} bytes long, but was {size}") as caught:
        source.__getitems__(indices)
    assert "blobs/1.0.0" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError):
        source[399]


@pytest.mark.parametrize("part", ["[:0]", "[3:1]"])
def test_a_slice_of_a_split_without_examples_is_named(data_dir, part):
    with pytest.raises(ValueError, match=r".") as caught:
        TfdsDataSource("tiny_pictures", split=f"train{part}", data_dir=data_dir)
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert f"train{part}" in message
    assert "examples" in message


def test_an_error_of_tfds_names_the_arguments(data_dir):
    with pytest.raises(ValueError, match=r".") as caught:
        TfdsDataSource("tiny_pictures", split="nope", data_dir=data_dir)
    (note,) = caught.value.__notes__
    assert f"TfdsDataSource('tiny_pictures', split='nope', data_dir={data_dir!r})" in note
