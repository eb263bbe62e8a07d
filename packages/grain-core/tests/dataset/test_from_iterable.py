"""`IterDataset.from_iterable`: elements, states by position and of the iterable itself, and errors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import grain

from_iterable = grain.IterDataset.from_iterable


def numbers() -> Iterator[int]:
    yield from range(20)


class Stream:
    """An iterable like those of torch: a class with `__iter__`."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(20))


class Resumable(Stream):
    """An iterable with a state, like the streaming datasets of Hugging Face."""

    def __init__(self) -> None:
        self.position = 0
        self.read = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.position, 20):
            self.read += 1
            self.position = number + 1
            yield number

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["at"]


class NoJSON(Resumable):
    def state_dict(self) -> dict[str, Any]:
        return {"at": {1, 2}}


def failing() -> Iterator[int]:
    yield 0
    yield 1
    raise ValueError("damaged")


MADE = {
    "function": lambda: from_iterable(numbers),
    "class": lambda: from_iterable(Stream),
    "object": lambda: from_iterable(Stream()),
    "list": lambda: from_iterable(list(range(20))),
    "own state": lambda: from_iterable(Resumable()),
    "factory of own state": lambda: from_iterable(Resumable),
    "own state by position": lambda: from_iterable(Resumable, own_state=False),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("name", MADE)
def test_every_state_restores_after_json_in_this_and_other_pipelines(name, workers):
    ds = MADE[name]().map(lambda x: x * 2).batch(3)
    parallel = ds.mp_prefetch(num_workers=workers)
    expected = [batch.tolist() for batch in ds]
    assert [x for batch in expected for x in batch] == list(range(0, 40, 2))
    assert [batch.tolist() for batch in ds] == expected  # a second epoch
    states = []
    with iter(parallel) as iterator, iter(ds) as inline:
        for batch in expected:
            states.append(iterator.get_state())
            assert states[-1] == inline.get_state()
            assert next(iterator).tolist() == next(inline).tolist() == batch
        states.append(iterator.get_state())
    with iter(parallel) as iterator:
        for step in (len(expected), 3, 0):
            iterator.set_state(json.loads(json.dumps(states[step])))
            assert [batch.tolist() for batch in iterator] == expected[step:]


def test_an_own_state_resumes_without_reading_what_came_before():
    made: list[Resumable] = []

    def make() -> Resumable:
        made.append(Resumable())
        return made[-1]

    iterator = iter(from_iterable(make))
    first = [next(iterator) for _ in range(15)]
    resumed = iter(from_iterable(make))
    resumed.set_state(iterator.get_state())
    assert first + list(resumed) == list(range(20))
    assert made[1].read == 5


def test_iterators_of_one_object_with_a_state_are_independent():
    ds = from_iterable(Resumable())
    one, two = iter(ds), iter(ds)
    assert [next(one), next(one), next(two)] == [0, 1, 0]
    assert list(pickle.loads(pickle.dumps(ds))) == list(range(20))


def test_an_endless_generator_is_read_as_far_as_needed():
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    assert list(from_iterable(endless).limit(5)) == [0, 1, 2, 3, 4]


def test_elements_before_an_error_come_first_and_a_dead_generator_does_not_look_like_the_end():
    iterator = iter(from_iterable(failing))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(iterator)
    with pytest.raises(
        RuntimeError, match=r"cannot continue after its error at element 2.*damaged"
    ):
        next(iterator)
    iterator.set_state(iter(from_iterable(failing)).get_state())
    assert next(iterator) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_iterable(numbers()), r"can be read only once. Pass the function"),
        (lambda: from_iterable(3), "needs a function without arguments"),
        (lambda: next(iter(from_iterable(lambda: 3))), "returns an iterable, got 3 of type int"),
        (lambda: from_iterable(numbers, own_state=1), "own_state must be a bool or None"),
        (
            lambda: next(iter(from_iterable(numbers, own_state=True))),
            "needs an iterable with `state",
        ),
    ],
    ids=range(5),
)
def test_wrong_iterables_say_what_to_pass(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_state_that_is_not_json_and_one_past_the_end_are_errors():
    iterator = iter(from_iterable(NoJSON()))
    next(iterator)
    with pytest.raises(TypeError, match="own_state=False"):
        iterator.get_state()
    short = iter(from_iterable([1, 2]))
    short.set_state({"position": 3, "own": None})
    with pytest.raises(ValueError, match=r"after 3 elements.*has only 2"):
        next(short)
    with pytest.raises(ValueError, match="position"):
        short.set_state({"position": -1, "own": None})


def test_length_fingerprint_and_repr():
    assert len(from_iterable([1, 2])) == 2
    with pytest.raises(TypeError, match="no len"):
        len(from_iterable(numbers))
    assert [str(line) for line in from_iterable(numbers).fingerprint()] == [
        "source: from_iterable(of=numbers)"
    ]
    assert repr(from_iterable(numbers).batch(2)) == (
        "IterDataset.from_iterable(numbers)\n    .batch(2)"
    )


@pytest.mark.parametrize("value", ["train.jsonl", b"bytes", {"x": [1, 2]}])
def test_text_and_dictionaries_are_refused(value):
    with pytest.raises(TypeError, match="whose items are characters or keys"):
        from_iterable(value)


def test_an_error_of_the_iterable_names_it_and_the_position():
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("oops")

    iterator = iter(from_iterable(failing))
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="oops") as caught:
        next(iterator)
    assert "at element 1" in "".join(caught.value.__notes__)
