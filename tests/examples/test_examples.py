"""The examples run as documented, write nothing to stderr, and print the expected results."""

from __future__ import annotations

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(file.name for file in EXAMPLES.glob("*.py"))
# Examples with a separate test module.
ELSEWHERE = {"demo.py", "train_nnx.py"}


def run(name: str, cwd: pathlib.Path) -> list[str]:
    """Run an example in an empty folder and return the lines that it prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    finished = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=110
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert not list(cwd.iterdir()), "an example leaves files"
    return finished.stdout.splitlines()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_documents_its_purpose_and_command(name: str) -> None:
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text()))
    assert text is not None
    assert f"python examples/{name}" in text
    if name != "demo.py":
        assert re.search(r"^Install: pip install .*\./packages/grain-core", text, re.MULTILINE)


def test_every_example_is_tested() -> None:
    here = pathlib.Path(__file__).read_text()
    tested = {f"{name}.py" for name in re.findall(r'run\("(\w+)\.py", tmp_path\)', here)}
    assert tested | ELSEWHERE == set(PROGRAMS)


def test_numpy_arrays_are_split_and_batched_in_epochs(tmp_path: pathlib.Path) -> None:
    first, *batches, again, last = run("numpy_arrays.py", tmp_path)
    assert first == "160 pictures to learn from, 40 to judge by"
    shapes = [re.search(r"\((\d+), 8, 8\)", line)[1] for line in batches]
    assert shapes == ["48", "48", "48", "16"] * 2
    labels = [re.search(r"labels (\[.*\])", line)[1] for line in batches]
    assert len(set(labels)) == 8, "the epochs have other orders"
    assert again == f"batch 7 once more: {labels[7]}"
    assert re.fullmatch(r"the first of the 40: label [01]", last)


def test_an_image_folder_is_read_by_worker_processes(tmp_path: pathlib.Path) -> None:
    first, *batches = run("image_folder.py", tmp_path)
    assert first == "60 files of the classes ['blue', 'green', 'red']"
    assert [line.split(")")[0] for line in batches] == ["(16, 24, 24, 3"] * 3 + ["(12, 24, 24, 3"]
    assert set(re.findall(r"[a-z]+", "".join(batches))) == {"blue", "green", "red"}


def test_packed_text_fills_rows(tmp_path: pathlib.Path) -> None:
    batch, resumed, text, segments, *_, packed, alone = run("packing_text.py", tmp_path)
    assert len(text) == len(segments) == 2 + 80
    filled = [number != "0" for number in segments[2:]]
    assert filled == [letter != "." for letter in text[2:]]
    assert int(re.search(r"(\d+)%", packed)[1]) > 85 > 60 > int(re.search(r"(\d+)%", alone)[1])
    assert "'inputs_segment_ids': (4, 80)" in batch
    assert resumed == "the same after a resume: True"


def test_a_mixture_has_its_weights_before_and_after_a_change(tmp_path: pathlib.Path) -> None:
    _, before, after, same, batch, state = run("mixture.py", tmp_path)
    assert before == "of the first 1000: {'book': 200, 'code': 300, 'page': 500}"
    counts = "{'book': 100, 'code': 600, 'page': 100, 'proof': 200}"
    assert after == f"of 1000 after the change: {counts}"
    assert same == "the same before it: True"
    assert len(batch.split(" | ")) == 5
    assert state == "state: {'next_index': 1}"


def test_parquet_rows_are_shuffled_over_all_files(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("grain_parquet")
    first, *batches, whole = run("parquet_shuffle.py", tmp_path)
    assert first.startswith("2000 rows; the first: {'id': 0, ")
    for line in batches:
        counts = list(map(int, re.findall(r"\d+", line)))
        assert len(counts) == 4
        assert sum(counts) == 100
        assert min(counts) > 0
    assert whole == "every row once: True"


def test_a_preempted_job_resumes_at_its_position(tmp_path: pathlib.Path) -> None:
    assert run("resume_after_preemption.py", tmp_path) == [
        'preempted after 17 batches; saved: {"next_index": 17}',
        "resumed for 21 more, of 38 in all",
        "the same as undisturbed: True",
    ]


def test_a_torch_style_loop_ends_with_the_same_weights_after_a_break(
    tmp_path: pathlib.Path,
) -> None:
    undisturbed, stopped, resumed, same = run("torch_style_loop.py", tmp_path)
    assert undisturbed.replace("undisturbed:", "resumed:    ") == resumed
    assert stopped.split("weights")[1] != resumed.split("weights")[1]
    assert same == "the same weights: True"


def test_images_of_a_tar_file_are_augmented_alike_with_and_without_workers(
    tmp_path: pathlib.Path,
) -> None:
    first, *epochs = run("images_from_tar.py", tmp_path)
    assert first == "48 pictures of the classes ['dark', 'light']"
    assert [line for line in epochs if "without workers" in line] == [
        f"epoch {number}: the same without workers: True" for number in range(2)
    ]
    assert epochs[0].split("labels")[1] != epochs[2].split("labels")[1]


def test_text_is_tokenized_mixed_packed_and_resumed(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("tokenizers")
    lines = run("text_with_tokenizer.py", tmp_path)
    assert re.search(r"9\d% filled", lines[1])
    assert lines[2].endswith("all known: True")
    assert lines[3] == "resumed after 4 batches, the next is the same: True"


def test_evaluation_counts_each_element_once_in_equal_steps(tmp_path: pathlib.Path) -> None:
    *hosts, last = run("evaluate.py", tmp_path)
    assert {line.split(": ")[1].split(",")[0] for line in hosts} == {"4 steps"}
    mean, expected = re.findall(r"\d+\.\d+", last)
    assert mean == expected


def test_hosts_read_different_elements(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("jax")
    *lines, last = run("multi_host.py", tmp_path)
    assert len(lines) == 4
    assert last == "16 elements, 16 different"


def test_keras_learns_from_a_pipeline(tmp_path: pathlib.Path) -> None:
    if (
        importlib.util.find_spec("keras") is None
    ):  # importing it here would load its default backend
        pytest.skip("Keras is not installed")
    first, last = run("keras_fit.py", tmp_path)
    assert first == "4 epochs, state {'next_index': 64}"
    assert last == "accuracy above 0.9: True"


def test_a_torch_model_resumes_with_its_data(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    [line] = run("torch_training.py", tmp_path)
    assert line.endswith("equal: True")
