"""Cases refuse invalid arguments."""

from __future__ import annotations

import pytest

from grain.testing import Case


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name"),
        ({"make": 3}, "make"),
        ({"kind": "no-kind"}, "no-kind"),
        ({"expected_failures": {"check_repeatable_read": "because"}}, "a kind and a reason"),
        ({"expected_failures": {"check_repeatable_read": ("not-yet", " ")}}, "reason"),
        ({"kind": "transform"}, "inputs"),
        ({"make_larger": 3}, "make_larger"),
        ({"check_timeout": 0}, "check_timeout"),
        ({"budget": -1}, "budget"),
    ],
)
def test_a_case_refuses_invalid_arguments(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Case(**{"name": "x", "make": list, **options})
