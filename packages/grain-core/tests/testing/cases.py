"""Cases shared by the tests of the kit."""

from __future__ import annotations

import functools

import grain
from grain.plugins import Capability
from grain.testing import Case, Result, Subject, check_one, checks_for

RANGE = Case(
    name="range",
    make=functools.partial(grain.sources.RangeDataSource, 0, 10, 2),
    elements=[0, 2, 4, 6, 8],
    capabilities={Capability.BATCHED_READ, Capability.COLUMNS, Capability.THREAD_SAFE},
)
DOUBLE = Case(
    name="double", kind="transform", make=lambda: lambda x: 2 * x, inputs=[1, 2], elements=[2, 4]
)


def result_of(case: Case, name: str) -> Result:
    """Run one check of a case."""
    check = next(check for check in checks_for(case) if check.name == name)
    return check_one(check, Subject(case))
