"""Elements spread over eight devices; run by `test_many_devices.py` in a process that has them."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import grain
from grain.experimental import device_put, get_element_spec, to_mesh

from .rows import BATCHES, SIZE, assert_is_batch, batches

MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def table(size: int = 16, width: int = 6, **options: Any) -> grain.IterDataset[Any]:
    ds = grain.MapDataset.range(64).seed(1).shuffle()
    ds = ds.map(lambda i: {"x": np.full(width, i, np.float32), "y": np.int32(i)})
    return ds.batch(size, **options).to_iter_dataset()


def assert_same(placed: Any, plain: Any) -> None:
    assert jax.tree.structure(placed) == jax.tree.structure(plain)
    for ours, theirs in zip(jax.tree.leaves(placed), jax.tree.leaves(plain), strict=True):
        assert isinstance(ours, jax.Array)
        np.testing.assert_array_equal(ours, theirs)


def test_there_are_eight_devices() -> None:
    assert len(jax.devices()) == 8


@pytest.mark.parametrize("number", [0, 7])
def test_elements_go_to_the_device_that_was_named(number: int) -> None:
    device = jax.devices()[number]
    for element, plain in zip(device_put(table(), device), table(), strict=True):
        assert_same(element, plain)
        assert element["x"].devices() == {device}


@pytest.mark.parametrize("spec", [P(), P("data"), P(("data", "model")), P("model")])
def test_elements_are_spread_as_the_sharding_says(spec: Any) -> None:
    sharding = NamedSharding(MESH, spec)
    for element, plain in zip(device_put(table(), sharding), table(), strict=True):
        assert_same(element, plain)
        assert element["x"].sharding == sharding
        assert element["y"].sharding == sharding


def test_each_leaf_may_have_a_sharding_of_its_own() -> None:
    shardings = {"x": NamedSharding(MESH, P("data", "model")), "y": jax.devices()[3]}
    for element, plain in zip(device_put(table(), shardings), table(), strict=True):
        assert_same(element, plain)
        assert element["x"].sharding == shardings["x"]
        assert element["y"].devices() == {jax.devices()[3]}


SPECS = {
    "rows": P("data"),
    "rows over everything": P(("data", "model")),
    "everywhere": P(),
    "each its own": {"x": P("data", "model"), "y": P("model")},
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_mesh_has_the_elements_as_the_spec_says(spec: Any) -> None:
    ds = to_mesh(table(), MESH, spec)
    for element, plain in zip(ds, table(), strict=True):
        assert_same(element, plain)
        for name in ("x", "y"):
            wanted = spec[name] if isinstance(spec, dict) else spec
            assert element[name].sharding == NamedSharding(MESH, wanted)
    assert len(ds) == 4


def test_a_spec_may_be_a_prefix_of_nested_elements() -> None:
    nested = table().map(lambda e: {"in": (e["x"], {"deep": e["y"]}), "none": None, "one": 1.5})
    spec = {"in": P("data"), "none": P(), "one": P()}
    for element, plain in zip(to_mesh(nested, MESH, spec), nested, strict=True):
        assert_same(element, plain)
        assert element["in"][1]["deep"].sharding.spec == P("data")


def test_elements_of_several_structures_and_shapes_are_placed_each_as_it_is() -> None:
    elements = [
        {"a": np.ones(4), "b": np.ones((8, 2))},
        {"a": np.ones(8)},
        {"b": np.ones(12), "a": np.zeros(0)},
        np.ones((4, 4)),
    ]
    ds = grain.MapDataset.source(elements).to_iter_dataset()
    for element, plain in zip(to_mesh(ds, MESH, P("data")), elements, strict=True):
        assert_same(element, plain)


@pytest.mark.parametrize("spec", [P("data"), {"x": P("data", "model"), "y": P()}], ids=str)
def test_the_state_on_a_mesh_counts_what_was_taken_and_resumes_at_every_step(spec: Any) -> None:
    ds = to_mesh(table(8), MESH, spec)
    everything = [np.asarray(element["y"]).tolist() for element in ds]
    iterator = iter(ds)
    for taken in range(len(everything) + 1):
        state = iterator.get_state()
        assert state == {"next_index": taken}
        fresh = iter(ds)
        fresh.set_state(state)
        assert [np.asarray(element["y"]).tolist() for element in fresh] == everything[taken:]
        next(iterator, None)


def message_of(ds: Any) -> str:
    with pytest.raises(ValueError, match=r"element") as caught, iter(ds) as iterator:
        for _ in iterator:
            pass
    return str(caught.value)


@pytest.mark.parametrize("way", ["device_put", "to_mesh"])
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (P("data"), "Dimension 0 of element['x'] has size 6, which does not divide by 4, the size "
                    "of mesh axis 'data'. Its shape is (6, 5)"),
        (P(("model", "data")), "Dimension 0 of element['x'] has size 6, which does not divide by 8, "
                               "the size of mesh axes 'model' (2) * 'data' (4)"),
        ({"x": P(None, "model"), "y": P()}, "Dimension 1 of element['x'] has size 5, which does not "
                                            "divide by 2, the size of mesh axis 'model'"),
        ({"x": P(), "y": P("data")}, "Dimension 0 of element['y'] has size 6"),
        (P("model", None), "element['y'] has 1 dimensions, and its spec divides 2"),
    ],
    ids=["rows", "two axes", "columns", "second leaf", "too few dimensions"],
)  # fmt: skip
def test_the_error_says_which_dimension_of_which_leaf_does_not_divide(
    way: str, spec: Any, says: str
) -> None:
    ds = table(6, width=5)
    if way == "to_mesh":
        message = message_of(to_mesh(ds, MESH, spec))
    else:
        shardings = jax.tree.map(
            lambda one: NamedSharding(MESH, one), spec, is_leaf=lambda node: isinstance(node, P)
        )
        message = message_of(device_put(ds, shardings))
    assert says in message
    assert "the mesh data=4, model=2" in message


@pytest.mark.parametrize("way", ["device_put", "to_mesh"])
def test_only_the_last_batch_that_is_too_small_fails_and_the_error_says_what_to_do(
    way: str,
) -> None:
    def put(ds: Any) -> Any:
        if way == "to_mesh":
            return to_mesh(ds, MESH, P("data"))
        return device_put(ds, NamedSharding(MESH, P("data")))

    iterator = iter(put(table(20)))
    assert [len(next(iterator)["y"]) for _ in range(3)] == [20, 20, 20]
    assert len(next(iterator)["y"]) == 4
    iterator = iter(put(grain.MapDataset.range(10).batch(4).to_iter_dataset()))
    assert [len(next(iterator)) for _ in range(2)] == [4, 4]
    with pytest.raises(ValueError, match=r"size 2.*multiple of 4.*drop_remainder.*batch_and_pad"):
        next(iterator)
    assert next(iterator, "end") == "end"
    whole = grain.MapDataset.range(10).batch(4, drop_remainder=True).to_iter_dataset()
    assert len(list(put(whole))) == 2


def test_an_axis_that_the_mesh_does_not_have_is_refused_when_built() -> None:
    with pytest.raises(ValueError, match=r"'dat'; the mesh has 'data', 'model'"):
        to_mesh(table(), MESH, {"x": P("data"), "y": P("dat")})


@pytest.mark.parametrize("spec", ["data", None, ("data",), {"x": None, "y": P()}], ids=str)
def test_what_is_no_partition_spec_is_refused_when_built(spec: Any) -> None:
    with pytest.raises(TypeError, match=r"PartitionSpec or a tree of them, got"):
        to_mesh(table(), MESH, spec)


def test_what_is_no_mesh_is_refused_when_built() -> None:
    with pytest.raises(TypeError, match=r"jax.sharding.Mesh, got .* of type list.*make_mesh"):
        to_mesh(table(), jax.devices(), P())


@pytest.mark.parametrize("spec", [{"z": P()}, [P()], {"x": {"y": P()}, "y": P()}], ids=str)
def test_a_spec_that_does_not_fit_the_elements_is_shown_with_what_they_look_like(spec: Any) -> None:
    shown = re.escape("{'x': 'float32[16, 6]', 'y': 'int32[16]'}")
    with pytest.raises(ValueError, match=f"no prefix of the elements, which look like {shown}"):
        next(iter(to_mesh(table(), MESH, spec)))


@pytest.mark.parametrize("value", ["text", b"bytes", np.datetime64("2026-01-01"), [None]], ids=str)
def test_a_leaf_that_no_device_can_hold_is_named(value: Any) -> None:
    elements = [{"good": 1, "bad": np.array(value)}]
    ds = grain.MapDataset.source(elements).to_iter_dataset()
    with pytest.raises(TypeError, match=r"element\['bad'\] is an array of .*Remove it"):
        next(iter(to_mesh(ds, MESH, P())))


def test_the_element_spec_tells_shapes_on_the_mesh() -> None:
    ds = grain.MapDataset.source(np.zeros((64, 6), np.float64)).batch(16, drop_remainder=True)
    placed = to_mesh(ds.to_iter_dataset(), MESH, P("data"))
    spec = get_element_spec(placed)
    first = next(iter(placed))
    assert (spec.shape, spec.dtype) == (first.shape, first.dtype)


def test_nothing_is_copied_where_a_device_s_rows_are_aligned() -> None:
    page = np.empty(16 * 1024 + 64, np.uint8)
    start = -page.ctypes.data % 64
    aligned = page[start : start + 16 * 1024].view(np.float32).reshape(16, 256)
    aligned[:] = np.arange(16)[:, None]
    ds = grain.MapDataset.source([aligned]).to_iter_dataset()
    for spread in (
        to_mesh(ds, MESH, P(("data", "model"))),
        device_put(ds, NamedSharding(MESH, P(("data", "model")))),
    ):
        [element] = spread
        addresses = [shard.data.unsafe_buffer_pointer() for shard in element.addressable_shards]
        assert sorted(addresses) == [aligned[2 * n :].ctypes.data for n in range(8)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("spec", [P("data"), P(None, "data"), P()], ids=str)
def test_batches_on_a_mesh_keep_their_values_while_the_iterator_goes_on(
    workers: int, spec: Any
) -> None:
    assert SIZE == 4, "one row for each device along `data`"
    ds = to_mesh(batches(workers), MESH, {"x": spec, "small": P("data")})
    with iter(ds) as iterator:
        kept = list(iterator)
    assert len(kept) == BATCHES
    for number, element in enumerate(kept):
        assert_is_batch(element, number)
