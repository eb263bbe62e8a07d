"""Placement of elements on JAX devices, ahead of the consumer."""

from grain.execution.device.mesh import to_mesh
from grain.execution.device.put import device_put

__all__ = ["device_put", "to_mesh"]
