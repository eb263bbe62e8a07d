"""Transforms: pure functions of an element and of the generator passed to them."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

import numpy as np

from grain import transforms
from grain.testing.compare import expect_same_all
from grain.testing.subject import NotApplicable, Subject
from grain.testing.transform_calls import apply


def check_result_type(subject: Subject) -> None:
    """Check that a transform accepts every input; a filter returns a boolean, a flat map a bounded sequence.

    Return `bool(…)` from `filter`, and a sequence of at most `max_fan_out` elements from `flat_map`.
    """
    transform = subject.fresh()
    for index, element in enumerate(subject.case.inputs):
        try:
            result = apply(transform, copy.deepcopy(element), index)
        except Exception as error:
            raise AssertionError(f"input {index} raised {error!r}.") from error
        if isinstance(transform, transforms.Filter):
            assert isinstance(result, (bool, np.bool_)), (
                f"filter returned {result!r:.80}, not a bool."
            )
        if isinstance(transform, transforms.FlatMap):
            assert isinstance(result, Sequence), (
                f"flat_map returned {result!r:.80}, not a sequence."
            )
            limit = transform.max_fan_out
            assert len(result) <= limit, (
                f"flat_map returned {len(result)} elements; max_fan_out is {limit}."
            )


def check_no_global_rng(subject: Subject) -> None:
    """Check that a transform neither draws from nor seeds the global generators of `random` and numpy.

    Draw from the `rng` argument of `random_map`: it is seeded per element.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    results = []
    try:
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            before = repr((random.getstate(), np.random.get_state()))  # noqa: NPY002
            results.append(subject.read(subject.fresh()))
            after = repr((random.getstate(), np.random.get_state()))  # noqa: NPY002
            assert before == after, "the state of a global generator has changed."
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
    expect_same_all(results[0], results[1], "under another global seed")


def check_input_not_mutated(subject: Subject) -> None:
    """Check that a transform does not mutate its input.

    Copy before changing (`{**element, …}`, `array.copy()`), or set `mutates_input=True` in the case.
    """
    if subject.case.mutates_input:
        raise NotApplicable("the case declares mutates_input")
    transform = subject.fresh()
    inputs = [copy.deepcopy(element) for element in subject.case.inputs]
    for index, element in enumerate(inputs):
        apply(transform, element, index)
    expect_same_all(list(subject.case.inputs), inputs, "an input after the transform")
