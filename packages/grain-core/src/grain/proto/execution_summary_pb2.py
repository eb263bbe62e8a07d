"""Messages that summarise the execution of a pipeline, made from their fields."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["DESCRIPTOR", "ExecutionSummaries", "ExecutionSummary"]

_PACKAGE = "grain.python.execution_summary"
_NODE = f".{_PACKAGE}.ExecutionSummary.Node"
_Field = descriptor_pb2.FieldDescriptorProto


def _add(
    message: descriptor_pb2.DescriptorProto, number: int, kind: int, name: str, **rest: str
) -> None:
    label = _Field.LABEL_REPEATED if rest.pop("repeated", "") else _Field.LABEL_OPTIONAL
    message.field.add(name=name, number=number, type=kind, label=label, **rest)


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="grain/proto/execution_summary.proto", package=_PACKAGE, syntax="proto3"
    )
    summary = file.message_type.add(name="ExecutionSummary")
    node = summary.nested_type.add(name="Node")
    _add(node, 2, _Field.TYPE_INT32, "id")
    _add(node, 3, _Field.TYPE_STRING, "name")
    _add(node, 4, _Field.TYPE_INT32, "inputs", repeated="yes")
    _add(node, 5, _Field.TYPE_DOUBLE, "wait_time_ratio")
    for number, name in enumerate(("total", "min", "max"), start=6):
        _add(node, number, _Field.TYPE_INT64, f"{name}_processing_time_ns")
    _add(node, 9, _Field.TYPE_INT64, "num_produced_elements")
    _add(node, 10, _Field.TYPE_STRING, "output_spec")
    _add(node, 11, _Field.TYPE_BOOL, "is_output")
    _add(node, 12, _Field.TYPE_BOOL, "is_prefetch")
    _add(node, 13, _Field.TYPE_INT64, "bytes_consumed")
    _add(node, 14, _Field.TYPE_INT64, "bytes_produced")
    entry = summary.nested_type.add(name="NodesEntry")
    entry.options.map_entry = True
    _add(entry, 1, _Field.TYPE_INT32, "key")
    _add(entry, 2, _Field.TYPE_MESSAGE, "value", type_name=_NODE)
    nodes = f".{_PACKAGE}.ExecutionSummary.NodesEntry"
    _add(summary, 1, _Field.TYPE_MESSAGE, "nodes", repeated="yes", type_name=nodes)
    summaries = file.message_type.add(name="ExecutionSummaries")
    one = f".{_PACKAGE}.ExecutionSummary"
    _add(summaries, 1, _Field.TYPE_MESSAGE, "execution_summaries", repeated="yes", type_name=one)
    return file


_POOL = descriptor_pool.DescriptorPool()
DESCRIPTOR = _POOL.AddSerializedFile(_file().SerializeToString())
ExecutionSummary = message_factory.GetMessageClass(
    DESCRIPTOR.message_types_by_name["ExecutionSummary"]
)
ExecutionSummaries = message_factory.GetMessageClass(
    DESCRIPTOR.message_types_by_name["ExecutionSummaries"]
)
