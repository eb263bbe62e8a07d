"""Elements move to a device, or the error names what to install."""

from __future__ import annotations

import pytest

from grain.experimental import device_put

from ...helpers.pipelines import numbers


def test_device_put_moves_elements_or_says_what_to_install() -> None:
    try:
        import jax
    except ImportError:
        with pytest.raises(ImportError, match=r"grain-core\[jax\]"):
            device_put(numbers(3), None)
        return
    ds = device_put(numbers(6).batch(2), jax.devices()[0])
    iterator = iter(ds)
    assert isinstance(next(iterator), jax.Array)
    assert iterator.get_state() == {"next_index": 2}
    assert [batch.tolist() for batch in iterator] == [[2, 3], [4, 5]]
