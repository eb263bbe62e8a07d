"""Cases of correct subjects, which pass every check."""

from __future__ import annotations

import functools

from grain.plugins import Capability
from grain.testing import Case, CaseKind
from grain.testing.transform_calls import apply_all

from . import datasets, good
from .candidates import candidate


def good_cases() -> list[Case]:
    kinds = {
        kind: list(apply_all(kind(), good.ELEMENTS))
        for kind in (good.GoodMap, good.GoodRandomMap, good.GoodFilter, good.GoodFlatMap)
    }
    return [
        Case(
            name="source",
            prepare=good.write,
            make=good.GoodSource,
            make_larger=functools.partial(good.GoodSource, name="larger"),
            elements=good.ELEMENTS,
            capabilities=good.ALL | {Capability.GLOBS},
            ways={Capability.GLOBS: good.GoodSource},
        ),
        Case(
            name="source with a lock",
            prepare=good.write,
            make=good.GoodLockedSource,
            make_larger=functools.partial(good.GoodLockedSource, name="larger"),
            elements=good.ELEMENTS,
            capabilities=good.ALL,
        ),
        Case(
            name="stream",
            kind=CaseKind.ITER_SOURCE,
            prepare=good.write,
            make=good.GoodStream,
            make_larger=functools.partial(good.GoodStream, name="larger"),
            elements=good.ELEMENTS,
            capabilities=frozenset(),
        ),
        *(
            Case(
                name=kind.__name__,
                kind=CaseKind.TRANSFORM,
                make=kind,
                inputs=good.ELEMENTS,
                elements=elements,
            )
            for kind, elements in kinds.items()
        ),
        Case(
            name="batch function",
            kind=CaseKind.TRANSFORM,
            make=good.good_batch,
            inputs=[good.ELEMENTS[:4], good.ELEMENTS[4:8]],
            elements=[good.stacked_rows(good.ELEMENTS[:4]), good.stacked_rows(good.ELEMENTS[4:8])],
            invalid_inputs=[[]],
        ),
        Case(
            name="map dataset",
            kind=CaseKind.MAP_DATASET,
            make=datasets.rows,
            make_different=functools.partial(datasets.rows, datasets.GoodRows, 3),
            elements=list(datasets.ROWS * 2),
        ),
        Case(
            name="iter dataset",
            kind=CaseKind.ITER_DATASET,
            make=datasets.sums,
            make_different=functools.partial(datasets.sums, datasets.GoodSums, 3),
            elements=list(datasets.ROWS.cumsum(axis=0)),
        ),
        Case(name="plugin", kind=CaseKind.PLUGIN, make=good_candidate),
        Case(name="plugin with a writer", kind=CaseKind.PLUGIN, make=good_writing_candidate),
    ]


def good_candidate():
    return candidate("metadata:good")


def good_writing_candidate():
    return candidate("writing:good")
