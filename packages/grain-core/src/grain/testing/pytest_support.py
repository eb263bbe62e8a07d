"""pytest support: a decorator that turns cases into tests, and a base class for test classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from grain.testing.case import Case
from grain.testing.registry import Check, checks_for
from grain.testing.report import Outcome, Result
from grain.testing.runner import check_one, unknown_names
from grain.testing.subject import Subject

ARGUMENT = "conformance"
"""The test argument that `parametrize` fills."""


@dataclass(frozen=True)
class BoundCheck:
    """One check bound to a subject; the checks of a case share the subject."""

    subject: Subject
    check: Check | None
    result: Result | None = None

    def __str__(self) -> str:
        name = self.check.name if self.check is not None else "expected_failures"
        return f"{self.subject.case.name}-{name}"

    def run(self) -> Result:
        """Run the check and return its result."""
        if self.check is not None:
            return check_one(self.check, self.subject)
        assert self.result is not None
        return self.result

    def __call__(self) -> None:
        """Run the check as a pytest test that passes, fails, skips or xfails."""
        import pytest

        result = self.run()
        if result.outcome is Outcome.SKIPPED:
            pytest.skip(result.reason)
        if result.outcome is Outcome.EXPECTED_FAILURE:
            pytest.xfail(result.reason)
        if not result.ok:
            pytest.fail(
                f"{result.check}: {result.outcome.value}\n{result.reason}\n"
                f"contract: {result.contract}\nfix: {result.fix}",
                pytrace=False,
            )


def bound_checks(cases: Iterable[Case]) -> list[BoundCheck]:
    """Return every check of every case, and a failure for each unknown name in a case."""
    bound: list[BoundCheck] = []
    for case in cases:
        subject = Subject(case)
        bound += [BoundCheck(subject, check) for check in checks_for(case)]
        bound += [BoundCheck(subject, None, result) for result in unknown_names(case)]
    return bound


def parametrize(cases: Iterable[Case]) -> Callable[[Any], Any]:
    """Return a decorator that parametrizes a test with every check of every case.

    The test calls its argument `conformance`.

    Example:
        @grain.testing.parametrize(CASES)
        def test_contract(conformance):
            conformance()
    """
    import pytest

    return pytest.mark.parametrize(ARGUMENT, bound_checks(cases), ids=str)


class ConformanceSuite:
    """Base class for a test class with one test per check; subclasses only set `cases`.

    Example:
        class TestMySource(grain.testing.ConformanceSuite):
            cases = [grain.testing.Case(name="mine", make=make_source, elements=[1, 2, 3])]
    """

    cases: ClassVar[Sequence[Case]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fixed = {"test_contract", "pytest_generate_tests"} & set(vars(cls))
        if fixed:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(sorted(fixed))}, but checks cannot be dropped: list"
                " a check that must fail in the case's expected_failures, with a reason."
            )

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Generate one test per check (pytest hook)."""
        if ARGUMENT in metafunc.fixturenames:
            if not self.cases:
                raise TypeError(f"{type(self).__name__} has no cases: write `cases = [Case(…)]`.")
            metafunc.parametrize(ARGUMENT, bound_checks(self.cases), ids=str)

    def test_contract(self, conformance: BoundCheck) -> None:
        """Run one check of one case."""
        conformance()
