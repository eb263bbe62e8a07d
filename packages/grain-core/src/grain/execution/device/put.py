"""`device_put`: whole elements on a device, or divided over the devices of a sharding."""

from __future__ import annotations

import dataclasses
from typing import Any

from grain.dataset.base import IterDataset
from grain.dataset.element_spec import ShapeDtypeStruct
from grain.execution.device.dividing import undivided
from grain.execution.device.placing import place_ahead, require_jax
from grain.tree import map_leaves


def device_put(
    ds: IterDataset[Any], device: Any, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2
) -> IterDataset[Any]:
    """Move elements to a device, or divide them over devices, ahead of the consumer.

    In a job of several processes, every process must have the same elements; `to_mesh` is for processes
    that each read a part of the batch.

    Args:
        ds: The dataset.
        device: Argument of `jax.device_put`: a `jax.Device`, a `jax.sharding.Sharding`, or a tree of them
            that is a prefix of the elements.
        cpu_buffer_size: Elements kept ready in host memory.
        device_buffer_size: Elements kept ready on the device, besides the one in use.
    """
    require_jax("device_put")
    return place_ahead(ds, DevicePut(device), cpu_buffer_size, device_buffer_size)


@dataclasses.dataclass(frozen=True, repr=False)
class DevicePut:
    """Placement by `jax.device_put`."""

    device: Any

    def __repr__(self) -> str:
        return f"device_put({self.device})"

    def place(self, element: Any) -> Any:
        """Return the element on the device; an error names the leaf that cannot be divided."""
        jax = require_jax("device_put")
        try:
            return jax.device_put(element, self.device)
        except ValueError as error:
            reason = undivided(element, self.device)
            if reason is None:
                raise
            raise ValueError(reason) from error

    def spec(self, spec: Any) -> Any:
        """Return the same shapes with the types of JAX, without 64 bits unless they are enabled."""
        jax = require_jax("device_put")

        def leaf(value: Any) -> ShapeDtypeStruct:
            return ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))

        return map_leaves(leaf, spec)
