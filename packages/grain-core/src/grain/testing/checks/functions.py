"""Transforms: functions of an element, and of the generator they are given, and of nothing else."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

import numpy as np

from grain import transforms
from grain.testing.apply import apply
from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject


def check_result_type(subject: Subject) -> None:
    """A transform takes every input; a filter gives a boolean, a flat map no more than it says.

    Return `bool(…)` from `filter`, and a sequence of at most `max_fan_out` elements from `flat_map`.
    """
    transform = subject.fresh()
    for place, element in enumerate(subject.case.inputs):
        try:
            result = apply(transform, copy.deepcopy(element), place)
        except Exception as error:
            raise AssertionError(f"input {place} raised {error!r}.") from error
        if isinstance(transform, transforms.Filter):
            assert isinstance(result, (bool, np.bool_)), f"filter gave {result!r:.80}, no boolean."
        if isinstance(transform, transforms.FlatMap):
            assert isinstance(result, Sequence), f"flat_map gave {result!r:.80}, no sequence."
            most = transform.max_fan_out
            assert len(result) <= most, f"flat_map gave {len(result)} elements, more than {most}."


def check_no_global_rng(subject: Subject) -> None:
    """A transform neither draws from nor seeds the global generators of `random` and numpy.

    Draw from the `rng` that `random_map` is given: it is seeded for each element.
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
            assert before == after, "a global generator has moved."
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
    expect_same_all(results[0], results[1], "under another global seed")


def check_input_not_mutated(subject: Subject) -> None:
    """A transform does not change the element it is given.

    Copy what is changed (`{**element, …}`, `array.copy()`), or say `mutates_input=True` in the case.
    """
    if subject.case.mutates_input:
        return
    transform = subject.fresh()
    inputs = [copy.deepcopy(element) for element in subject.case.inputs]
    for place, element in enumerate(inputs):
        apply(transform, element, place)
    expect_same_all(list(subject.case.inputs), inputs, "an input after it was transformed")
