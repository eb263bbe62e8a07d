"""Requirements on the core: release numbers are compared as the packaging library compares them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier

from grain.plugins.metadata import unmet_requirement

RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))


@st.composite
def requirements(draw: st.DrawFn) -> str:
    clauses = []
    for _ in range(draw(st.integers(0, 3))):
        operator = draw(st.sampled_from(["<", "<=", "==", "!=", ">=", ">", "~="]))
        version = draw(RELEASES)
        if operator in ("==", "!=") and draw(st.booleans()):
            version += ".*"
        clauses.append(operator + draw(st.sampled_from(["", " "])) + version)
    extras = draw(st.sampled_from(["", "[parquet]", " [a, b]"]))
    return f"grain-core{extras}{draw(st.sampled_from(['', ' ']))}{','.join(clauses)}"


@settings(deadline=None)
@given(requirements(), RELEASES)
def test_a_requirement_holds_exactly_when_the_packaging_library_says_so(
    requirement: str, version: str
) -> None:
    try:
        expected = Requirement(requirement).specifier.contains(version)
    except (InvalidSpecifier, ValueError):
        return
    assert (unmet_requirement([requirement], "grain-core", version) == "") == expected


@pytest.mark.parametrize(
    "requirement",
    [
        "grain-core @ file:///wheels/grain_core.whl",
        "grain-core===1.0.0-local",
        'grain-core>=99; extra == "new"',
        'grain-core>=99; python_version < "3.0"',
        "grain-core>=not.a.version",
        "grain-core>=99rc1",
        "grain>=99",
        "grain-core-extras>=99",
        "!!!",
        "",
    ],
)
def test_an_unsupported_requirement_or_one_on_another_package_is_left_to_the_installer(
    requirement: str,
) -> None:
    assert unmet_requirement([requirement], "grain-core", "1.0.0") == ""


@pytest.mark.parametrize("spelling", ["grain-core>=2", "Grain_Core (>=2)", "grain.core[x] >= 2"])
def test_every_spelling_of_the_name_is_recognised(spelling: str) -> None:
    assert unmet_requirement(["numpy", spelling], "grain-core", "1.0.0") == spelling


@pytest.mark.parametrize("version", ["2.0.0", "2.0.0rc1", "2.0.0.dev3+local"])
def test_the_next_major_version_of_the_core_excludes_plugins_of_this_one(version: str) -> None:
    assert unmet_requirement(["grain-core>=1,<2"], "grain-core", version) == "grain-core>=1,<2"


def test_a_core_whose_version_is_not_a_version_is_not_judged() -> None:
    assert unmet_requirement(["grain-core>=99"], "grain-core", "from-a-branch") == ""
