"""Mixtures of named components whose components or weights change between saving and restoring."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.checkpoint import (
    ChangedMixtureWarning,
    ChangedPipelineError,
    CheckpointHandler,
    allow_changes,
)


def part(number: int, size: int = 100) -> grain.MapDataset:
    """Return numbers that identify their component."""
    return grain.MapDataset.range(1000 * number, 1000 * number + size)


def mixed(weights: dict[str, float], size: int = 100) -> grain.IterDataset:
    parts = {name: part(ord(name), size).to_iter_dataset() for name in weights}
    return grain.IterDataset.mix(parts, weights)


def take(iterator, count):
    return [int(x) for x in itertools.islice(iterator, count)]


def of(name: str, elements: list[int]) -> list[int]:
    return [x % 1000 for x in elements if x // 1000 == ord(name)]


# --- in order ------------------------------------------------------------------------------------


# The state of a mixture of a and b after five elements, as google/grain 0.2.18 gives it, and what it
# gives when it is restored to other mixtures.
STATE = {"parents": {"a": {"next_index": 3}, "b": {"next_index": 2}}, "index": 5, "stop": False}
A, B, C, ZERO = (1000 * ord(name) for name in "abc0")
REFERENCE = {
    "weights": ({"a": 1, "b": 3}, [B + 2, B + 3, B + 4, A + 3, B + 5, B + 6, B + 7]),
    "added behind": (
        {"a": 1, "b": 1, "c": 1},
        [C + 0, A + 3, B + 2, C + 1, A + 4, B + 3, C + 2],
    ),
    "added before": (
        {"a": 1, "b": 1, "0": 1},
        [B + 2, ZERO + 0, A + 3, B + 3, ZERO + 1, A + 4, B + 4],
    ),
    "removed": ({"b": 1}, [B + 2, B + 3, B + 4, B + 5, B + 6, B + 7, B + 8]),
    "replaced": ({"b": 1, "c": 1}, [C + 0, B + 2, C + 1, B + 3, C + 2, B + 4, C + 3]),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_a_changed_mixture_resumes_as_in_the_reference(name):
    weights, expected = REFERENCE[name]
    iterator = iter(mixed(weights))
    next(iterator)  # A component that the state does not know starts at its beginning all the same.
    with allow_changes("component"):
        iterator.set_state(STATE)
    assert take(iterator, 7) == expected


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1, "c": 1}, {"a": 1}], ids=["more", "less"])
def test_components_that_came_or_went_are_warned_of(weights):
    with pytest.warns(ChangedMixtureWarning, match=r"  [+-] [bc]\n"):
        iter(mixed(weights)).set_state(STATE)


def test_a_mixture_without_any_component_of_the_state_is_refused_unless_allowed():
    iterator = iter(mixed({"x": 1}))
    with pytest.raises(KeyError, match="'x'"):
        iterator.set_state(STATE)
    with allow_changes("component"):
        iterator.set_state(STATE)


def test_changed_weights_of_a_checkpoint_are_warned_of_or_allowed(tmp_path):
    saved = iter(mixed({"a": 1, "b": 1}))
    before = take(saved, 10)
    CheckpointHandler().save(tmp_path, saved)
    with pytest.warns(ChangedMixtureWarning, match=r"- weights: \{'a': 100, 'b': 100\}\n"):
        CheckpointHandler().restore(tmp_path, iter(mixed({"a": 3, "b": 1})))
    iterator = iter(mixed({"a": 3, "b": 1}))
    CheckpointHandler().restore(tmp_path, iterator, allow="weights")
    after = take(iterator, 40)
    for name, share in (("a", 35), ("b", 15)):
        assert of(name, before) + of(name, after) == list(range(share))


def test_a_changed_component_is_not_a_changed_mixture(tmp_path):
    CheckpointHandler().save(tmp_path, iter(mixed({"a": 1, "b": 1})))
    with pytest.raises(
        ChangedPipelineError, match=r"\+ \[a\] source: range\(97000, 97050\)"
    ) as caught:
        CheckpointHandler().restore(tmp_path, iter(mixed({"a": 1, "b": 1}, size=50)))
    assert caught.value.kinds == ("source",)


def test_components_of_a_checkpoint_may_come_and_go(tmp_path):
    saved = iter(mixed({"a": 1, "b": 1}))
    take(saved, 10)
    CheckpointHandler().save(tmp_path, saved)
    iterator = iter(mixed({"b": 1, "c": 1}))
    with pytest.warns(ChangedMixtureWarning, match=r"- component: mix of a, b\n") as caught:
        CheckpointHandler().restore(tmp_path, iterator)
    assert len(caught) == 1
    CheckpointHandler().restore(tmp_path, iterator, allow=("component", "weights"))
    after = take(iterator, 20)
    assert of("b", after) == list(range(5, 15))
    assert of("c", after) == list(range(10))


# --- by index ------------------------------------------------------------------------------------


def test_a_mixture_by_index_takes_names_in_their_order():
    named = grain.MapDataset.mix({"b": part(2), "a": part(1)}, {"a": 1, "b": 3})
    assert list(named) == list(grain.MapDataset.mix([part(1), part(2)], [1, 3]))
    with pytest.raises(ValueError, match=r"named \['a'\] but weights for \['b'\]"):
        grain.MapDataset.mix({"a": part(1)}, {"b": 1})
    with pytest.raises(TypeError, match="named weights for a list"):
        grain.MapDataset.mix([part(1)], {"b": 1})


names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)
mixtures = names.flatmap(
    lambda chosen: st.fixed_dictionaries({name: st.integers(1, 7) for name in chosen})
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), mixtures), min_size=1, max_size=4), mixtures)
def test_every_component_resumes_at_its_position_at_each_change(changes, first):
    def parts(weights):
        return {name: part(ord(name), 1000) for name in weights}

    ds = grain.MapDataset.mix(parts(first), first)
    at, before = 0, ds
    for step, weights in changes:
        at, before = at + step, ds
        ds = ds.change_at(at, parts(weights), weights)
    elements = [int(x) for x in ds.__getitems__(range(at + 40))]
    for name in "abcd":
        mine = of(name, elements)
        assert mine == list(range(len(mine)))
    # One by one and all at once, and what is before the last change is what was there.
    assert [int(ds[i]) for i in range(0, at + 40, 7)] == elements[::7]
    assert elements[:at] == [int(x) for x in before.__getitems__(range(at))]


def test_new_proportions_hold_from_the_change_on():
    parts = {"a": part(ord("a")), "b": part(ord("b"))}
    ds = grain.MapDataset.mix(parts).change_at(20, parts, {"a": 3, "b": 1})
    late = [int(ds[i]) for i in range(20, 60)]
    assert (len(of("a", late)), len(of("b", late))) == (30, 10)
    # It ends when the first component would have to repeat: 90 of a are left, three in four.
    assert len(ds) == 20 + 120


def test_a_mixture_that_is_changed_restores_the_state_before_the_change(tmp_path):
    parts = {"a": part(ord("a")), "b": part(ord("b"))}
    before = grain.MapDataset.mix(parts).batch(2).to_iter_dataset()
    iterator = iter(before)
    first = [x for _ in range(5) for x in next(iterator).tolist()]
    CheckpointHandler().save(tmp_path, iterator)
    parts |= {"c": part(ord("c"))}
    changed = grain.MapDataset.mix({k: parts[k] for k in "ab"}).change_at(10, parts).batch(2)
    iterator = iter(changed.to_iter_dataset())
    with pytest.warns(ChangedMixtureWarning, match=r"\+ component: from 10: mix of a, b, c\n"):
        CheckpointHandler().restore(tmp_path, iterator)
    CheckpointHandler().restore(tmp_path, iterator, allow=("component", "weights"))
    rest = np.concatenate(list(itertools.islice(iterator, 15))).tolist()
    for name, share in (("a", 15), ("b", 15), ("c", 10)):
        assert of(name, first + rest) == list(range(share))
    # And a state of the changed mixture restores to it.
    CheckpointHandler().save(tmp_path, iterator)
    fresh = iter(changed.to_iter_dataset())
    CheckpointHandler().restore(tmp_path, fresh)
    assert next(fresh).tolist() == next(iterator).tolist()


def test_a_change_that_cannot_be_is_refused():
    parts = {"a": part(1), "b": part(2)}
    with pytest.raises(TypeError, match="named components"):
        grain.MapDataset.mix([part(1)]).change_at(3, parts)
    with pytest.raises(TypeError, match="named components"):
        grain.MapDataset.mix(parts).change_at(3, [part(1)])
    with pytest.raises(ValueError, match="index at which a mixture changes"):
        grain.MapDataset.mix(parts).change_at(-1, parts)
    with pytest.raises(ValueError, match="index at which a mixture changes"):
        grain.MapDataset.mix(parts).change_at(5, parts).change_at(4, parts)
    with pytest.raises(ValueError, match="positive length"):
        grain.MapDataset.mix(parts).change_at(3, {"a": part(1, 0)})
