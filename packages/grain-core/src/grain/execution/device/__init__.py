"""The last mile: elements on the devices of JAX before they are asked for."""

from grain.execution.device.mesh import to_mesh
from grain.execution.device.put import device_put

__all__ = ["device_put", "to_mesh"]
