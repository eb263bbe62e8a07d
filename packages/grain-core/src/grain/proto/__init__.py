"""Protocol buffers of google/grain, for programs that read or write them; they need protobuf."""

from __future__ import annotations

from grain._lazy import lazy_names

__all__ = ["execution_summary_pb2"]

__getattr__, __dir__ = lazy_names(__name__, submodules=__all__)
