"""A wrong argument is refused where the pipeline is built, with what was given and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from grain import experimental

from .refused_by_datasets import REFUSED
from .refused_by_experimental import LESS_USED, METHODS, NOTHING_TO_CHECK, WRONG, Wrong


def row(wrong: Wrong) -> tuple[Callable[[], Any], type[Exception], str]:
    """Return a call, its error, and a pattern with everything that the message must mention."""
    mentions = "".join(f"(?=.*{re.escape(text)})" for text in wrong.mentions)
    return wrong.call, wrong.error, mentions


TABLE = {
    **REFUSED,
    **{
        f"{name} {number}": row(w)
        for name, calls in WRONG.items()
        for number, w in enumerate(calls)
    },
    **{f"method {name}": row(wrong) for name, wrong in METHODS.items()},
    **{f"less used {number}": row(wrong) for number, wrong in enumerate(LESS_USED)},
}


@pytest.mark.parametrize("name", TABLE)
def test_a_wrong_argument_is_refused_when_the_pipeline_is_built(name: str) -> None:
    build, error, pattern = TABLE[name]
    with pytest.raises(error, match=f"(?s){pattern}"):
        build()


def test_every_name_of_grain_experimental_has_two_wrong_calls() -> None:
    assert {*WRONG, *NOTHING_TO_CHECK} == set(experimental.__all__)
    assert not set(WRONG) & set(NOTHING_TO_CHECK)
    assert {name for name, calls in WRONG.items() if len(calls) < 2} == set()
