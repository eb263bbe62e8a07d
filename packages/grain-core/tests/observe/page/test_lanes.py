"""The layout of pipelines: rows in order, lanes that merge, and branches that are left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import grain
from grain.observe.page.lanes import MOST_BRANCHES, MOST_LANES, lay_out
from grain.observe.page.page_graph import PageNode, graph_of, ordered_nodes


def graph(*parents: tuple[int, ...], labels: dict[int, tuple[str, ...]] | None = None):
    return [
        PageNode(id=number, name=f"n{number}", parents=each, labels=(labels or {}).get(number, ()))
        for number, each in enumerate(parents)
    ]


@st.composite
def graphs(draw):
    """Draw a graph in which every node is an ancestor of the last."""
    count = draw(st.integers(1, 14))
    parents: list[tuple[int, ...]] = []
    for number in range(count):
        below = range(number)
        chosen = draw(st.lists(st.sampled_from(below), max_size=9)) if number else []
        parents.append(tuple(chosen))
    used = {p for each in parents for p in each}
    loose = tuple(number for number in range(count - 1) if number not in used)
    parents[-1] = tuple(dict.fromkeys(parents[-1] + loose))
    return graph(*parents)


def test_a_chain_keeps_to_one_lane():
    rows = lay_out(graph((), (0,), (1,)))
    assert [(row.node, row.lane, row.starts, row.ends) for row in rows] == [
        (0, 0, True, False),
        (1, 0, False, False),
        (2, 0, False, True),
    ]


def test_an_empty_graph_has_no_rows():
    assert lay_out([]) == []


def test_branches_have_lanes_side_by_side_that_merge():
    rows = lay_out(graph((), (0,), (), (), (1, 2, 3), (4,)))
    assert [(row.node, row.lane, row.passing, row.merging) for row in rows] == [
        (0, 0, (), ()),
        (1, 0, (), ()),
        (2, 1, (0,), ()),
        (3, 2, (0, 1), ()),
        (4, 0, (), (1, 2)),
        (5, 0, (), ()),
    ]


def test_nested_branches_pass_by_those_outside():
    rows = lay_out(graph((), (), (), (1, 2), (0, 3)))
    assert [(row.node, row.lane, row.passing, row.merging) for row in rows] == [
        (0, 0, (), ()),
        (1, 1, (0,), ()),
        (2, 2, (0, 1), ()),
        (3, 1, (0,), (2,)),
        (4, 0, (), (1,)),
    ]


def test_a_node_that_two_branches_read_has_one_row_and_a_reference():
    rows = lay_out(graph((), (0,), (0,), (1, 2)))
    assert [(row.node, row.lane, row.repeated) for row in rows] == [
        (0, 0, False),
        (1, 0, False),
        (0, 1, True),
        (2, 1, False),
        (3, 0, False),
    ]


def test_a_dataset_given_twice_to_one_node_is_laid_out():
    ds = grain.MapDataset.range(3)
    rows = lay_out(graph_of(grain.MapDataset.mix([ds, ds], [1, 1])))
    assert [(row.node, row.repeated) for row in rows] == [(0, False), (0, True), (1, False)]


def test_names_of_branches_are_at_their_first_row():
    rows = lay_out(graph((), (0,), (), (1, 2), labels={3: ("web", "code")}))
    assert [(row.node, row.label) for row in rows] == [(0, "web"), (1, ""), (2, "code"), (3, "")]


def test_of_many_branches_some_are_left_out_but_never_the_bottleneck():
    count = 100
    nodes = graph(*[() for _ in range(count)], tuple(range(count)))
    rows = lay_out(nodes)
    assert len(rows) == MOST_BRANCHES + 1
    assert len(rows[-2].left_out) == count - MOST_BRANCHES + 1
    shown = [row.node for row in lay_out(nodes, shown=77) if not row.left_out]
    assert 77 in shown


@given(graphs())
def test_every_node_has_one_row_after_those_of_its_parents_or_is_left_out(nodes):
    rows = lay_out(nodes)
    left_out = {number for row in rows for number in row.left_out}
    placed: dict[int, int] = {}
    for position, row in enumerate(rows):
        assert 0 <= row.lane < MOST_LANES
        assert row.lane not in row.passing
        if row.left_out or row.repeated:
            continue
        assert row.node not in placed
        placed[row.node] = position
    assert placed.keys() | left_out == {node.id for node in nodes}
    for node in nodes:
        for parent in node.parents:
            if node.id in placed and parent in placed.keys() - left_out:
                assert placed[parent] < placed[node.id]
    assert rows[-1].node == nodes[-1].id
    assert rows[-1].ends
    assert not any(row.ends for row in rows[:-1])


def test_a_long_chain_and_deep_branches_need_no_recursion():
    chain = graph((), *[(number,) for number in range(5000)])
    assert len(lay_out(chain)) == 5001
    parents: list[tuple[int, ...]] = [()]
    for _ in range(2000):
        parents += [(), (len(parents) - 1, len(parents))]
    assert lay_out(graph(*parents))[-1].node == len(parents) - 1


def test_the_graph_of_a_dataset_has_names_parents_lengths_and_specs():
    a = grain.MapDataset.range(10).shuffle(seed=1)
    mixed = grain.MapDataset.mix({"a": a, "b": grain.MapDataset.range(4)}, {"a": 1, "b": 1})
    nodes = graph_of(mixed.batch(2))
    assert [node.name for node in nodes][:3] == ["range(10)", "shuffle(seed=1)", "range(4)"]
    assert nodes[3].name.startswith("mix(")
    assert nodes[3].labels == ("a", "b")
    assert nodes[3].parents == (1, 2)
    assert (nodes[0].length, nodes[0].spec) == ("10", "int64")


def test_a_node_of_a_user_that_raises_is_in_the_graph():
    class Broken(grain.MapDataset):
        def __len__(self):
            raise RuntimeError("no length")

        def __getitem__(self, index):
            raise RuntimeError("no element")

        def written_call(self):
            raise RuntimeError("no text")

        def written_names(self):
            raise RuntimeError("no names")

    (node,) = graph_of(Broken())
    assert "Broken" in node.name
    assert node.length == node.spec == ""


def test_a_pipeline_of_very_many_nodes_has_a_graph():
    parts = [grain.MapDataset.range(1).map(str) for _ in range(1500)]
    ds = grain.MapDataset.mix(parts, [1] * len(parts)).batch(2)
    assert ordered_nodes(ds)[-1] is ds
    nodes = graph_of(ds)
    assert len(nodes) == 3002
    rows = lay_out(nodes)
    assert len(rows) < 20
    (hidden,) = [row.left_out for row in rows if row.left_out]
    assert len(hidden) == 2 * (1500 - MOST_BRANCHES + 1)
