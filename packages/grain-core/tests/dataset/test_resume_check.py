"""The resume check accepts exactly the datasets that resume."""

from __future__ import annotations

import numpy as np
import pytest

import grain
from grain.experimental import (
    assert_equal_output_after_checkpoint,
)

from ..helpers.pipelines import numbers


def test_the_resume_check_accepts_what_resumes() -> None:
    assert_equal_output_after_checkpoint(numbers(6).batch(4))
    assert_equal_output_after_checkpoint(grain.MapDataset.range(4))
    assert_equal_output_after_checkpoint(numbers(3).map(lambda v: {"a": np.nan, "b": [v]}))


class Forgetful(grain.IterDataset):
    """Counts to four, and forgets in its state how far it was."""

    def __iter__(self) -> grain.DatasetIterator:
        class Count(grain.DatasetIterator):
            def __init__(self) -> None:
                super().__init__()
                self.count = 0

            def __next__(self) -> int:
                if self.count == 4:
                    raise StopIteration
                self.count += 1
                return self.count

            def get_state(self) -> dict[str, int]:
                return {}

            def set_state(self, state: dict[str, int]) -> None:
                self.count = 0

        return Count()


def test_the_resume_check_refuses_a_state_that_forgets() -> None:
    with pytest.raises(AssertionError, match="mismatch at step 1"):
        assert_equal_output_after_checkpoint(Forgetful())


def test_the_resume_check_refuses_elements_that_change() -> None:
    calls = iter(range(1000))
    with pytest.raises(AssertionError, match="mismatch at step 0"):
        assert_equal_output_after_checkpoint(numbers(3).map(lambda v: next(calls)))


def test_the_resume_check_refuses_an_empty_dataset() -> None:
    with pytest.raises(AssertionError, match="did not produce any elements"):
        assert_equal_output_after_checkpoint(numbers(0))
