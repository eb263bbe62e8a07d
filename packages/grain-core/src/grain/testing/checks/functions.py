"""Transforms: pure functions of an element and of the generator passed to them."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Sequence

import numpy as np

from grain import transforms
from grain.testing.compare import difference, expect_same_all, snapshot
from grain.testing.subject import NotApplicable, Subject
from grain.testing.subprocess_probe import dumps
from grain.testing.transform_calls import apply

_DRAWS = 32
"""The number of generators that a random map is tried with."""


def check_result_type(subject: Subject) -> None:
    """Check that a transform accepts every input and returns a picklable element, not None.

    Return `bool(…)` from `filter`, a sequence of at most `max_fan_out` elements from `flat_map`, and
    lists or arrays instead of generators; drop elements with a `Filter`.
    """
    transform = subject.fresh()
    for index, element in enumerate(subject.case.inputs):
        try:
            result = apply(transform, copy.deepcopy(element), index)
        except Exception as error:
            raise AssertionError(f"input {index} raised {error!r}.") from error
        assert result is not None, (
            f"input {index} gave None, which stands for a filtered element and is dropped."
        )
        try:
            dumps(result)
        except Exception as error:
            raise AssertionError(
                f"the result of input {index}, {result!r:.80}, cannot be sent by a worker process:"
                f" {error!r}."
            ) from error
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


def check_generator_used(subject: Subject) -> None:
    """Check that a random map draws from the generator passed to it: with other ones its results vary.

    Draw all random numbers from `rng`; a generator with a fixed seed gives every element the same
    numbers in every epoch. Use `Map` for a function without randomness.
    """
    transform = subject.fresh()
    if not isinstance(transform, (transforms.RandomMap, transforms.TfRandomMap)):
        raise NotApplicable("it is not a random map")
    for index, element in enumerate(subject.case.inputs):
        results = [
            snapshot(
                apply(transform, copy.deepcopy(element), index + draw * len(subject.case.inputs))
            )
            for draw in range(_DRAWS)
        ]
        if any(difference(results[0], other) is not None for other in results[1:]):
            return
    raise AssertionError(f"{_DRAWS} generators gave the same result, for every input.")


def check_invalid_input_raises(subject: Subject) -> None:
    """Check that an invalid input raises an exception that workers can send, and later inputs are unaffected.

    Raise a ValueError or TypeError, never StopIteration; give an own exception class `args` from which
    it can be made again, and change the state of the transform only after checking the input.
    """
    invalid = subject.case.invalid_inputs
    if not len(invalid):
        raise NotApplicable("the case has no invalid_inputs")
    transform = subject.fresh()
    for number, element in enumerate(invalid):
        try:
            result = apply(transform, copy.deepcopy(element), number)
        except (StopIteration, StopAsyncIteration) as error:
            raise AssertionError(
                f"invalid input {number} raised {error!r}, which ends a stream."
            ) from None
        except Exception as error:
            _expect_sendable(error, number)
        else:
            raise AssertionError(f"invalid input {number} gave {result!r:.80}, not an exception.")
    expect_same_all(
        subject.elements, subject.read(transform), "a valid input after the invalid ones"
    )


def _expect_sendable(error: Exception, number: int) -> None:
    try:
        received = pickle.loads(pickle.dumps(error))
    except Exception as failure:
        raise AssertionError(
            f"invalid input {number} raised a {type(error).__name__} that a worker cannot send:"
            f" {failure!r}."
        ) from error
    same = type(received) is type(error) and str(received) == str(error)
    assert same, (
        f"invalid input {number} raised {error!r}; a worker process would report {received!r}."
    )


def check_batch_sizes(subject: Subject) -> None:
    """Check that a batch function accepts any number of elements from one up, as a list or a tuple.

    The last batch of an epoch is shorter unless `drop_remainder` is set: take the number of elements
    from the argument.
    """
    transform = subject.fresh()
    if not isinstance(transform, transforms.Batch):
        raise NotApplicable("it is not a batch transform")
    for index, elements in enumerate(subject.case.inputs):
        for count in sorted({1, 2, len(elements) - 1, len(elements)} - {0}):
            for kind in (list, tuple):
                part = kind(copy.deepcopy(elements[:count]))
                try:
                    result = apply(transform, part, index)
                except Exception as error:
                    raise AssertionError(
                        f"{kind.__name__} of {len(part)} elements of input {index} raised {error!r}."
                    ) from error
                assert result is not None, f"{len(part)} elements of input {index} gave None."


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
