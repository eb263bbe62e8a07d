"""Checks of the outputs of a case, the same for every peer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import work

Check = Callable[[list[Any]], None]
"""Takes the first outputs of a pipeline; raises `WrongOutputError` if they are wrong."""


class WrongOutputError(Exception):
    """A peer's program did not do the work that is measured."""


def must(right: bool, expected: str, got: Any) -> None:
    """Raise an error unless `right`."""
    if not right:
        raise WrongOutputError(f"expected {expected}, got {str(got)[:200]}")


def column(output: Any, name: str = "x") -> np.ndarray:
    """Return an output's array, which may be alone, in a dict or in a tuple of one."""
    if isinstance(output, dict):
        output = output[name]
    if isinstance(output, (tuple, list)) and len(output) == 1:
        output = output[0]
    return np.asarray(output)


def anything(outputs: list[Any]) -> None:
    """Check that there are outputs."""
    must(len(outputs) > 0, "outputs", outputs)


def ints(outputs: list[Any], *, size: int, low: int, high: int, step: int = 1) -> None:
    """Check for batches of integers in a range."""
    values = [column(output) for output in outputs]
    for batch in values:
        must(batch.shape == (size,), f"a batch of {size} numbers", batch.shape)
        must(batch.dtype.kind == "i", "whole numbers", batch.dtype)
        must(bool((batch >= low).all() and (batch < high).all()), f"{low} to {high}", batch)
        must(bool((batch % step == 0).all()), f"multiples of {step}", batch)


def in_order(outputs: list[Any], *, size: int) -> None:
    """Check for batches of consecutive numbers from 0 on."""
    got = np.concatenate([column(output) for output in outputs])
    must(np.array_equal(got, np.arange(size * len(outputs))), "0, 1, 2, ...", got)


def elements(outputs: list[Any]) -> None:
    """Check for single numbers."""
    must(all(np.asarray(x).shape == () for x in outputs), "single numbers", outputs)


def shuffled(outputs: list[Any], **expected: Any) -> None:
    """Check for batches of numbers in shuffled order."""
    ints(outputs, **expected)
    got = np.concatenate([column(output) for output in outputs])
    must(bool((np.diff(got) < 0).any()), "a shuffled order", got)


def constant(outputs: list[Any], *, size: int, value: int) -> None:
    """Check for batches of one number, here the length of every record."""
    for output in outputs:
        got = column(output)
        must(got.shape == (size,) and bool((got == value).all()), f"{size} times {value}", got)


def images(outputs: list[Any], *, size: int, dtype: str, labelled: bool) -> None:
    """Check for batches of images of the right shape and type that are not blank."""
    shape = (size, work.IMAGE_SIDE, work.IMAGE_SIDE, 3)
    for output in outputs:
        got = column(output, "image")
        must(got.shape == shape, f"shape {shape}", got.shape)
        must(got.dtype == np.dtype(dtype), dtype, got.dtype)
        must(float(got.std()) > 0, "images that are not blank", got)
        if dtype == "float32":
            must(float(got.min()) >= 0 and float(got.max()) <= 1, "values from 0 to 1", got.max())
        if labelled:
            must(column(output, "label").shape == (size,), "a label each", output["label"])


def arrays(outputs: list[Any], *, shape: tuple[int, ...], dtype: str) -> None:
    """Check for arrays of the right shape and type."""
    for output in outputs:
        got = column(output)
        must(got.shape == shape, f"shape {shape}", got.shape)
        must(got.dtype == np.dtype(dtype), dtype, got.dtype)


def rows(outputs: list[Any], *, shape: tuple[int, ...], full: bool) -> None:
    """Check for packed rows of token numbers; full rows have no padding, which is 0."""
    for output in outputs:
        got = column(output, "tokens")
        must(got.shape == shape, f"shape {shape}", got.shape)
        must(got.dtype.kind == "i", "whole numbers", got.dtype)
        must(bool((got > 0).any()), "tokens", got)
        if full:
            must(bool((got > 0).all()), "rows without padding", got)


def table(outputs: list[Any], *, size: int) -> None:
    """Check for batches of all columns of the Parquet file, in order."""
    for number, output in enumerate(outputs):
        must(set(output) == {"id", "x", "text"}, "id, x and text", list(output))
        start = number * size
        got = column(output, "id")
        must(np.array_equal(got, np.arange(start, start + size)), f"rows from {start} on", got)
        text = output["text"][0]
        text = text.decode() if isinstance(text, bytes) else str(text)
        must(text == f"w{start} " * 8, "the text of the row", text)


def expecting(check: Callable[..., None], **expected: Any) -> Check:
    """Return a check with its expectations filled in."""
    return functools.partial(check, **expected)
