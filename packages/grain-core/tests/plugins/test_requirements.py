"""The small reader of requirements agrees with the packaging library wherever it claims to know."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier
from packaging.version import Version as Reference

from grain.plugins.requirements import Version, unmet

NUMBERS = st.integers(0, 3)


RELEASES = st.lists(NUMBERS, min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))


@st.composite
def versions(draw: st.DrawFn) -> str:
    text = draw(RELEASES)
    if draw(st.booleans()):
        text += draw(st.sampled_from(["a", "b", "rc", ".alpha", "-beta", "c"])) + str(draw(NUMBERS))
    if draw(st.integers(0, 3)) == 0:
        text += f".post{draw(NUMBERS)}"
    if draw(st.integers(0, 3)) == 0:
        text += f".dev{draw(NUMBERS)}"
    if draw(st.integers(0, 9)) == 0:
        text = f"1!{text}"
    return text


@st.composite
def requirements(draw: st.DrawFn) -> str:
    clauses = []
    for _ in range(draw(st.integers(0, 3))):
        operator = draw(st.sampled_from(["<", "<=", "==", "!=", ">=", ">", "~="]))
        # What `>1a1` says about 1.0.post1 is read differently by different packaging libraries.
        version = draw(RELEASES if operator in ("<", ">") else versions())
        if operator in ("==", "!=") and draw(st.booleans()):
            version = draw(RELEASES) + ".*"
        clauses.append(operator + draw(st.sampled_from(["", " "])) + version)
    extras = draw(st.sampled_from(["", "[parquet]", " [a, b]"]))
    return f"grain-core{extras}{draw(st.sampled_from(['', ' ']))}{','.join(clauses)}"


@settings(deadline=None)
@given(versions(), versions())
def test_versions_sort_as_the_packaging_library_sorts_them(one: str, other: str) -> None:
    assert (Version.parse(one) < Version.parse(other)) == (Reference(one) < Reference(other))
    assert (Version.parse(one) == Version.parse(other)) == (Reference(one) == Reference(other))


@settings(deadline=None)
@given(requirements(), versions())
def test_a_requirement_holds_exactly_when_the_packaging_library_says_so(
    requirement: str, version: str
) -> None:
    try:
        expected = Requirement(requirement).specifier.contains(version, prereleases=True)
    except (InvalidSpecifier, ValueError):
        return
    assert (unmet([requirement], "grain-core", version) == "") == expected


@pytest.mark.parametrize(
    "requirement",
    [
        "grain-core @ file:///wheels/grain_core.whl",
        "grain-core===1.0.0-local",
        'grain-core>=99; extra == "new"',
        'grain-core>=99; python_version < "3.0"',
        "grain-core>=not.a.version",
        "grain>=99",
        "!!!",
        "",
    ],
)
def test_what_is_not_understood_or_not_about_the_core_is_left_to_the_installer(
    requirement: str,
) -> None:
    assert unmet([requirement], "grain-core", "1.0.0") == ""


@pytest.mark.parametrize("spelling", ["grain-core>=2", "Grain_Core (>=2)", "grain.core[x] >= 2"])
def test_every_spelling_of_the_name_is_recognised(spelling: str) -> None:
    assert unmet(["numpy", spelling], "grain-core", "1.0.0") == spelling


def test_the_core_of_the_next_generation_keeps_out_plugins_of_this_one_from_its_first_preview() -> (
    None
):
    assert unmet(["grain-core>=1,<2"], "grain-core", "2.0.0rc1") == "grain-core>=1,<2"


def test_a_core_whose_version_is_no_version_is_not_judged() -> None:
    assert unmet(["grain-core>=99"], "grain-core", "from-a-branch") == ""
