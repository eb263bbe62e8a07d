"""Trees of elements: what is a node, and what becomes of stacked leaves."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain import tree


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Example:
    image: Any
    label: Any = 0


@dataclasses.dataclass
class WithDerived:
    value: Any
    derived: Any = dataclasses.field(init=False, default=7)


class Tokens(list):
    """A list of a user's own kind."""


class Features(dict):
    """A dict of a user's own kind."""


NODES = [
    ({"a": 1, "b": 2}, {"a": 2, "b": 3}),
    ([1, 2], [2, 3]),
    ((1, 2), (2, 3)),
    (Point(1, 2), Point(2, 3)),
    (namedtuple("Pair", "first second")(1, 2), None),
    (Example(1, 2), Example(2, 3)),
    (OrderedDict(b=1, a=2), OrderedDict(b=2, a=3)),
    (defaultdict(list, b=1, a=2), defaultdict(list, b=2, a=3)),
    (Tokens([1, 2]), Tokens([2, 3])),
    (Features(b=1, a=2), Features(b=2, a=3)),
    ({"a": None, "b": (1, {"c": [2]})}, {"a": None, "b": (2, {"c": [3]})}),
    ({}, {}),
    ((), ()),
    (None, None),
]


@pytest.mark.parametrize(("before", "after"), NODES, ids=lambda node: type(node).__name__)
def test_a_function_of_the_leaves_keeps_the_structure(before, after):
    made = tree.map_leaves(lambda x: x + 1, before)
    assert type(made) is type(before)
    assert made == (type(before)(2, 3) if after is None and before is not None else after)


@pytest.mark.parametrize("leaf", [1, 2.0, True, "text", b"bytes", np.int8(3), np.zeros(2), {1, 2}])
def test_everything_else_is_a_leaf(leaf):
    assert list(tree.leaves(leaf)) == [leaf]
    assert tree.map_leaves(lambda x: ("seen", x), [leaf]) == [("seen", leaf)]


def test_leaves_come_from_left_to_right_without_none():
    element = {"a": 1, "b": [2, None, (3, Point(4, {"z": 5}))], "c": Example(6, 7)}
    assert list(tree.leaves(element)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_dictionary_has_its_keys_in_sorted_order_whatever_order_it_was_built_in():
    element = {"b": 1, "a": {"z": 2, "y": 3}}
    assert list(tree.leaves(element)) == [3, 2, 1]
    stacked = tree.stack([element, element])
    assert (list(stacked), list(stacked["a"])) == (["a", "b"], ["y", "z"])
    assert list(tree.stack([OrderedDict(b=1, a=2)])) == ["b", "a"]


def test_keys_that_cannot_be_sorted_stay_as_they_are():
    assert list(tree.stack([{"b": 1, 2: 2, "a": 3}])) == ["b", 2, "a"]


def test_a_class_that_happens_to_be_a_dataclass_is_a_leaf():
    assert list(tree.leaves([Example])) == [Example]


def test_a_field_of_a_dataclass_that_init_does_not_take_is_left_alone():
    stacked = tree.stack([WithDerived(1), WithDerived(2)])
    assert stacked.value.tolist() == [1, 2]
    assert stacked.derived == 7


def test_a_defaultdict_keeps_its_factory():
    stacked = tree.stack([defaultdict(list, a=1), defaultdict(list, a=2)])
    assert stacked["a"].tolist() == [1, 2]
    assert stacked["missing"] == []


# --- stacking ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [dict, OrderedDict, Features, lambda *a, **k: defaultdict(int, **k)]
)
def test_mappings_are_stacked_by_key_whatever_the_order_of_the_keys(kind):
    stacked = tree.stack([kind(a=1, b=2), kind(b=4, a=3)])
    assert list(stacked) == ["a", "b"]
    assert stacked["a"].tolist() == [1, 3]
    assert stacked["b"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 1}),
        (OrderedDict(a=1, b=2), OrderedDict(c=1, d=2)),
        (defaultdict(int, a=1), defaultdict(int, b=1)),
        (Features(a=1), Features(b=1)),
        ({"a": 1}, OrderedDict(a=1)),
        ({"a": 1}, [1]),
        ([1, 2], [1, 2, 3]),
        ((1, 2), [1, 2]),
        (Point(1, 2), (1, 2)),
        ({"a": 1}, 1),
        (1, {"a": 1}),
        (1, [1]),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2), np.zeros(())),
        (np.zeros(()), np.zeros(2)),
        (np.zeros(2), 1.0),
        (1.0, np.zeros(2)),
        (np.zeros(2), None),
        (None, np.zeros(2)),
        ({"a": 1}, None),
        (None, {"a": 1}),
        (Example(1), Point(1, 0)),
    ],
)
def test_elements_of_different_structure_cannot_be_stacked(first, second):
    with pytest.raises(ValueError, match=r"(?s)same structure but got:.*and.*`batch_fn`"):
        tree.stack([first, second])


def test_a_mismatch_shows_types_and_shapes_and_not_the_data():
    with pytest.raises(ValueError, match="same structure") as caught:
        tree.stack([{"a": np.zeros((2, 3), np.float32)}, {"a": np.zeros((2, 4), np.float32)}])
    assert "ndarray<float32>[2, 3]" in str(caught.value)
    assert "ndarray<float32>[2, 4]" in str(caught.value)
    assert "0." not in str(caught.value)


@pytest.mark.parametrize("elements", [[1, None], [None, 1], [None, "a", None]])
def test_none_among_scalars_makes_an_array_of_objects(elements):
    stacked = tree.stack([{"a": element} for element in elements])["a"]
    assert stacked.dtype == object
    assert stacked.tolist() == elements


def test_none_everywhere_stays_none():
    assert tree.stack([{"a": None}, {"a": None}]) == {"a": None}


NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.complex_numbers(),
    st.text("ab\0é", max_size=3),
    st.binary(max_size=3),
    st.builds(np.int8, st.integers(-128, 127)),
    st.builds(np.uint64, st.integers(0, 2**64 - 1)),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.datetime64, st.dates(), st.just("D")),
)
DTYPES = st.sampled_from(
    ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", "c8", "O", "S2", "U3", ">i4"]
)
ARRAYS = st.builds(
    lambda dtype, fortran: np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype, order="FC"[fortran]),
    DTYPES,
    st.booleans(),
)


def outcome(function: Any, argument: Any) -> tuple[Any, ...]:
    try:
        result = function(argument)
    except Exception as error:
        return (type(error),)
    return (
        str(result.dtype),
        result.shape,
        result.tobytes() if result.dtype != object else str(result),
    )


@given(
    st.one_of(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(ARRAYS, min_size=1, max_size=4))
)
@settings(deadline=None, max_examples=300)
@pytest.mark.filterwarnings("ignore")
def test_leaves_are_promoted_as_numpy_stacks_them(elements):
    expected = outcome(lambda parts: np.stack([np.asanyarray(part) for part in parts]), elements)
    assert outcome(tree.stack, elements) == expected


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,)])
def test_arrays_without_elements_are_stacked(shape):
    stacked = tree.stack([np.zeros(shape), np.zeros(shape)])
    assert stacked.shape == (2, *shape)


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a.T])
def test_views_of_any_layout_are_stacked(view):
    base = np.arange(36).reshape(6, 6)
    parts = [view(base), view(base + 1)]
    assert np.array_equal(tree.stack(parts), np.stack(parts))


# --- memory --------------------------------------------------------------------------------------


def shuffled_source(kind: str) -> grain.MapDataset:
    data = np.arange(24.0).reshape(12, 2)
    return {
        "array": lambda: grain.MapDataset.source(data),
        "rows": lambda: grain.MapDataset.source(list(data)),
        "dicts": lambda: grain.MapDataset.source([{"a": row} for row in data]),
        "mixed": lambda: grain.MapDataset.mix([grain.MapDataset.source(data)] * 2),
    }[kind]()


@pytest.mark.parametrize("kind", ["array", "rows", "dicts", "mixed"])
@pytest.mark.parametrize("as_iter", [False, True])
def test_changing_a_batch_changes_nothing_else(kind, as_iter):
    ds = shuffled_source(kind)
    batched = ds.to_iter_dataset().batch(3) if as_iter else ds.batch(3)
    untouched = [[leaf.copy() for leaf in tree.leaves(batch)] for batch in batched]
    kept = list(batched)
    for batch in kept:
        for leaf in tree.leaves(batch):
            assert leaf.flags.writeable
    for leaf in tree.leaves(kept[1]):
        leaf[:] = -1
    for batch in (kept[0], kept[2]):
        assert (next(iter(tree.leaves(batch))) >= 0).all()
    again = [list(tree.leaves(batch)) for batch in batched]
    assert all(
        np.array_equal(one, other)
        for before, after in zip(untouched, again, strict=True)
        for one, other in zip(before, after, strict=True)
    )


def test_the_size_of_an_element_counts_arrays_text_and_bytes():
    element = {"a": np.zeros(10), "b": ["four", b"123"], "c": None, "d": 1}
    assert tree.nbytes(element) == 80 + 4 + 3 + 32


def test_the_size_of_a_long_list_is_estimated_from_its_first_items():
    assert tree.nbytes([np.zeros(2)] * 1000) == 16 * 1000
    assert tree.nbytes(tuple(range(5000))) == 32 * 5000


class Opaque:
    nbytes = property(lambda self: self.size)

    def __init__(self, size: Any):
        self.size = size


@pytest.mark.parametrize(("size", "expected"), [(100, 100), (None, 32), (lambda: 3, 32)])
def test_an_objects_own_size_counts_where_it_is_a_number(size, expected):
    assert tree.nbytes(Opaque(size)) == expected


# --- JAX -----------------------------------------------------------------------------------------


def test_registered_types_of_jax_are_nodes_once_jax_is_imported():
    pytest.importorskip("jax")
    program = """
        import collections
        import numpy as np
        from grain import tree

        class Box:
            def __init__(self, value, static):
                self.value, self.static = value, static

        assert list(tree.leaves(box := Box({"a": 1}, "s"))) == [box]

        import jax
        # Each access creates the child again.
        jax.tree_util.register_pytree_node(
            Box,
            lambda box: ((dict(box.value),), box.static),
            lambda static, children: Box(children[0], static),
        )
        assert list(tree.leaves(Box({"a": 1, "b": None}, "s"))) == [1]
        mapped = tree.map_leaves(lambda x: x + 1, Box({"a": 1}, "s"))
        assert (mapped.value, mapped.static) == ({"a": 2}, "s")
        stacked = tree.stack([Box({"a": 1}, "s"), Box({"a": 2}, "s")])
        assert stacked.value["a"].tolist() == [1, 2]
        try:
            tree.stack([Box({"a": 1}, "s"), Box({"a": 2}, "t")])
        except ValueError as error:
            assert "same structure" in str(error)
        else:
            raise AssertionError("static parts differ")
        # Mappings are stacked by key with JAX as without it.
        ordered = collections.OrderedDict
        stacked = tree.stack([ordered(b=1, a=2), ordered(a=4, b=3)])
        assert {key: value.tolist() for key, value in stacked.items()} == {"b": [1, 3], "a": [2, 4]}
        # Arrays of JAX are leaves, and batches are numpy's.
        stacked = tree.stack([jax.numpy.zeros(2), jax.numpy.ones(2)])
        assert type(stacked) is np.ndarray and stacked.tolist() == [[0, 0], [1, 1]]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=100)


def test_trees_never_import_jax():
    program = """
        import sys
        import collections
        import grain
        from grain import tree
        for element in ({"a": 1}, [object()], collections.OrderedDict(a=1), None):
            tree.stack([element, element])
            tree.nbytes(element)
        list(grain.MapDataset.range(8).batch(2).to_iter_dataset())
        assert "jax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
