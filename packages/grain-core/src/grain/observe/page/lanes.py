"""The layout of a pipeline as rows with lanes, as in the log of a version control system.

Each node is a row below those of its parents. A chain of operations keeps to one lane. The branches of a
node that reads several datasets have lanes side by side, which merge at its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grain.observe.page.page_graph import PageNode

MOST_BRANCHES = 6
MOST_LANES = 10


@dataclass(frozen=True, kw_only=True)
class LaneRow:
    """One row of the layout.

    Attributes:
        node: The id of its node; of a row for branches that are left out, that of the node they join.
        lane: The lane of its node, from 0.
        passing: The lanes of other branches that pass by.
        merging: The lanes that end here, besides that of the node.
        starts: Whether no line comes from above.
        ends: Whether no line leaves to below.
        label: The name of the branch that starts above this row, where branches have names.
        repeated: Whether the node has a row before: another branch reads it, too.
        left_out: The ids of the nodes of branches that are left out, in a row that stands for them.
    """

    node: int
    lane: int = 0
    passing: tuple[int, ...] = ()
    merging: tuple[int, ...] = ()
    starts: bool = False
    ends: bool = False
    label: str = ""
    repeated: bool = False
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Visit:
    """A branch to lay out: the node at its end, and where it is."""

    node: int
    lane: int
    passing: tuple[int, ...]
    label: str


def lay_out(nodes: Sequence[PageNode], shown: int | None = None) -> list[LaneRow]:
    """Return the rows of a pipeline, sources first.

    Args:
        nodes: The nodes, each after its parents; the last is the output.
        shown: The id of a node that must not be left out, such as the bottleneck.

    >>> chain = [PageNode(id=0, name="a"), PageNode(id=1, name="b", parents=(0,))]
    >>> [(row.node, row.lane) for row in lay_out(chain)]
    [(0, 0), (1, 0)]
    """
    if not nodes:
        return []
    by_id = {node.id: node for node in nodes}
    output = nodes[-1].id
    rows: list[LaneRow] = []
    done: set[int] = set()
    stack: list[_Visit | LaneRow] = [_Visit(output, 0, (), "")]
    while stack:
        step = stack.pop()
        if isinstance(step, LaneRow):
            rows.append(step)
            continue
        # Steps of this branch in the order of the rows; the stack takes them reversed.
        stack.extend(reversed(_branch(step, by_id, done, shown, output)))
    return rows


def _branch(
    visit: _Visit,
    by_id: Mapping[int, PageNode],
    done: set[int],
    shown: int | None,
    output: int,
) -> list[_Visit | LaneRow]:
    """Return the rows of the chain that ends at a node, and before them the branches it reads."""
    chain: list[int] = []
    head = visit.node
    while head not in done:
        done.add(head)
        chain.append(head)
        if len(by_id[head].parents) != 1:
            break
        head = by_id[head].parents[0]
    lane, passing = min(visit.lane, MOST_LANES - 1), visit.passing
    steps: list[_Visit | LaneRow] = []
    if not chain or chain[-1] != head:  # The node above has a row in another branch.
        repeated = LaneRow(
            node=head,
            lane=lane,
            passing=passing,
            starts=True,
            repeated=True,
            label=visit.label,
            ends=not chain and head == output,
        )
        steps.append(repeated)
        top = chain.pop() if chain else None
        label = ""
        merging: tuple[int, ...] = ()
    else:
        top, label = chain.pop(), visit.label
        branches, merging = _branches(by_id[top], lane, passing, by_id, shown)
        steps += branches
    if top is not None:
        steps.append(
            LaneRow(
                node=top,
                lane=lane,
                passing=passing,
                merging=merging,
                starts=not by_id[top].parents,
                ends=top == output,
                label=label,
            )
        )
    steps += [
        LaneRow(node=node, lane=lane, passing=passing, ends=node == output)
        for node in reversed(chain)
    ]
    return steps


def _branches(
    node: PageNode,
    lane: int,
    passing: tuple[int, ...],
    by_id: Mapping[int, PageNode],
    shown: int | None,
) -> tuple[list[_Visit | LaneRow], tuple[int, ...]]:
    """Return the branches that a node reads, and the lanes that end at it."""
    parents = list(enumerate(node.parents))
    kept, left_out = parents, []
    if len(parents) > MOST_BRANCHES:
        kept, left_out = parents[: MOST_BRANCHES - 1], parents[MOST_BRANCHES - 1 :]
        needed = [p for p in left_out if shown is not None and shown in _ancestors(p[1], by_id)]
        kept, left_out = kept + needed[:1], [p for p in left_out if p not in needed[:1]]
    steps: list[_Visit | LaneRow] = []
    used: list[int] = []
    for position, (number, parent) in enumerate(kept):
        own = min(lane + position, MOST_LANES - 1)
        label = node.labels[number] if number < len(node.labels) else ""
        others = tuple(sorted({*passing, *used} - {own}))
        steps.append(_Visit(parent, own, others, label))
        used.append(own)
    if left_out:
        own = min(lane + len(kept), MOST_LANES - 1)
        hidden = sorted({a for _, parent in left_out for a in _ancestors(parent, by_id)})
        others = tuple(sorted({*passing, *used} - {own}))
        steps.append(
            LaneRow(node=node.id, lane=own, passing=others, starts=True, left_out=tuple(hidden))
        )
        used.append(own)
    return steps, tuple(sorted({own for own in used if own != lane}))


def _ancestors(number: int, by_id: Mapping[int, PageNode]) -> set[int]:
    """Return the ids of a node and of all nodes that it reads."""
    found: set[int] = set()
    stack = [number]
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack.extend(by_id[current].parents)
    return found
