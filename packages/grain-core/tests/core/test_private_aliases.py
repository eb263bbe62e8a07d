"""Names of private modules of google/grain that other programs import, and how they recognise pipelines."""

from __future__ import annotations

import importlib.util
import inspect
import os
import struct
import subprocess
import sys

import pytest

import grain
import grain.python
from grain._src import aliases
from grain.dataset.tfrecord.crc32c import masked_crc32c


@pytest.mark.parametrize("module", aliases.modules())
def test_every_alias_is_an_object_of_the_library(module):
    names = aliases.names_in(module)
    assert names
    found = importlib.import_module(f"grain._src.{module}")
    for name in names:
        assert getattr(found, name) is not None
        assert name in dir(found)


@pytest.mark.parametrize(
    ("statement", "public"),
    [
        ("from grain._src.core.sharding import even_split, ShardByJaxProcess", None),
        ("from grain._src.core.transforms import Batch", "grain.transforms.Batch"),
        ("from grain._src.core.transforms import FlatMapTransform", "grain.transforms.FlatMap"),
        ("from grain._src.core import constants, transforms, sharding", None),
        ("import grain._src.core.constants as gc", None),
        ("from grain._src.python import data_loader, samplers, options", None),
        ("from grain._src.python import dataset as gd; gd.dataset.MapDataset", None),
        ("from grain._src.python.data_loader import DataLoader", "grain.DataLoader"),
        ("from grain._src.python.dataset import dataset, stats", None),
        ("from grain._src.python.dataset.dataset import MapDataset", "grain.MapDataset"),
        ("from grain._src.python.dataset.transformations import packing, source, flatmap", None),
        ("import grain._src.python.dataset.transformations.zip as zip_ds", None),
        (
            "from grain._src.python.dataset.transformations.prefetch import "
            "ThreadPrefetchIterDataset",
            "grain.experimental.ThreadPrefetchIterDataset",
        ),
        (
            "from grain._src.python.ipc.shared_memory_array import SharedMemoryArrayMetadata",
            "grain.multiprocessing.SharedMemoryArrayMetadata",
        ),
        (
            "from grain._src.python.shared_memory_array import SharedMemoryArrayMetadata",
            "grain.multiprocessing.SharedMemoryArrayMetadata",
        ),
        ("from grain._src.python.samplers import IndexSampler", "grain.samplers.IndexSampler"),
    ],
)
def test_import_statements_of_other_programs_work(statement, public):
    names = {}
    exec(statement, names)
    if public is not None:
        assert names[statement.rpartition(" ")[2]] is eval(public, {"grain": grain})


def test_importing_grain_loads_no_alias():
    program = "import sys, grain; print([m for m in sys.modules if m.startswith('grain._src')])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "from grain._src.python.samplers import ReadOptions",
            r"it is public: `grain\.ReadOptions`",
        ),
        ("from grain._src.python.samplers import Foo", "has no 'Foo' here"),
        ("from grain._src.python import foo", "has no 'foo' here"),
        ("from grain._src import foo", "has no 'foo' here"),
        (
            "import grain._src.python.foo",
            r"No module named 'grain\._src\.python\.foo': grain\._src",
        ),
    ],
)
def test_an_unknown_name_is_an_import_error_with_advice(statement, message):
    with pytest.raises(ImportError, match=message):
        exec(statement)


def test_programs_may_ask_whether_a_module_is_there():
    assert importlib.util.find_spec("grain._src.python.foo") is None
    assert importlib.util.find_spec("grain._src.python.samplers") is not None


def test_an_unknown_attribute_is_missing():
    module = importlib.import_module("grain._src.python.samplers")
    assert not hasattr(module, "Foo")
    with pytest.raises(AttributeError, match="The public API is `import grain`"):
        module.Foo  # noqa: B018


def test_helper_functions_have_the_results_programs_expect():
    sharding = importlib.import_module("grain._src.core.sharding")
    options = [grain.sharding.ShardOptions(i, 3, drop) for drop in (False, True) for i in range(3)]
    found = [sharding.even_split(10, option) for option in options]
    assert found == [(0, 4), (4, 7), (7, 10), (0, 3), (3, 6), (6, 9)]
    loader = importlib.import_module("grain._src.python.data_loader")
    assert loader._determine_worker_count(None) == os.cpu_count()
    assert [loader._determine_worker_count(count) for count in (0, 3)] == [0, 3]


class _Doubling(grain.MapDataset):
    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.slice(index)
        with self._stats.record_self_time():
            return self._stats.record_output_spec(2 * self._parent[index])


class _AddOneIterator(grain.DatasetIterator):
    def __next__(self):
        element = next(self._parent)
        with self._stats.record_self_time(offset_ns=1, num_elements=1):
            return self._stats.record_bytes_produced(element + 1)

    def get_state(self):
        return self._parent.get_state()

    def set_state(self, state):
        self._parent.set_state(state)


class _AddOne(grain.IterDataset):
    def __iter__(self):
        return _AddOneIterator(iter(self._parent))


def test_classes_of_users_may_record_statistics():
    ds = _AddOne(_Doubling(grain.MapDataset.range(3)).to_iter_dataset())
    assert list(ds) == [1, 3, 5]
    stats = importlib.import_module("grain._src.python.dataset.stats")
    for decorate in (
        stats.record_next_duration_if_output,
        stats.trace_input_pipeline_next(stage_category="mine"),
        stats.trace_input_pipeline_next(stage_category=stats.IPL_CAT_PREPROCESSING),
        stats.trace_input_pipeline("mine", other=1),
    ):
        assert decorate(len) is len


def in_a_pipeline():
    """Return whether a frame of the stack has the file name that Keras looks for."""
    frame = inspect.currentframe()
    while frame is not None:
        if os.path.join("grain", "_src", "python", "dataset") in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _ask(*arguments):
    return in_a_pipeline()


class _AskTwice(grain.transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return [in_a_pipeline()] * 2


class _AskingSource:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return in_a_pipeline()


class _AskingIterator(_AddOneIterator):
    def __next__(self):
        next(self._parent)
        return in_a_pipeline()


class _Asking(grain.IterDataset):
    def __iter__(self):
        return _AskingIterator(iter(self._parent))


Map = grain.MapDataset
ASKING = {
    "map": lambda: Map.range(3).map(_ask),
    "map of the iter dataset": lambda: Map.range(3).to_iter_dataset().map(_ask),
    "map_with_index": lambda: Map.range(3).map_with_index(_ask),
    "random_map": lambda: Map.range(3).random_map(_ask, seed=1),
    "filter": lambda: Map.range(3).filter(_ask).map(lambda x: True),
    "batch function": lambda: Map.range(3).batch(1, batch_fn=_ask),
    "batch function of the iter dataset": lambda: (
        Map.range(3).to_iter_dataset().batch(1, batch_fn=_ask)
    ),
    "flat_map": lambda: grain.experimental.FlatMapMapDataset(Map.range(3), _AskTwice()),
    "flat_map of the iter dataset": lambda: grain.experimental.FlatMapIterDataset(
        Map.range(3).to_iter_dataset(), _AskTwice()
    ),
    "mixture": lambda: Map.mix([Map.range(3).map(_ask), Map.range(3).map(_ask)]),
    "source": lambda: Map.source(_AskingSource()),
    "iterator": lambda: _Asking(Map.range(3).to_iter_dataset()).map(bool),
    "loader": lambda: grain.DataLoader(
        data_source=_AskingSource(), sampler=grain.samplers.SequentialSampler(3)
    ),
}


@pytest.mark.parametrize("name", ASKING)
def test_user_code_sees_that_a_pipeline_calls_it(name):
    assert not in_a_pipeline()
    found = list(ASKING[name]())
    assert found
    assert all(found)


def test_single_elements_and_workers_are_recognised_too():
    assert Map.range(3).map(_ask)[1] is True
    ds = Map.range(3).map(_ask).to_iter_dataset().map(lambda seen: seen and in_a_pipeline())
    with iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))) as iterator:
        assert list(iterator) == [True] * 3


def test_a_marked_function_is_found_by_debuggers():
    function = importlib.import_module("grain.dataset.chunk").apply_each
    assert "def apply_each" in inspect.getsource(function)
    assert os.path.samefile(
        function.__code__.co_filename, sys.modules["grain.dataset.chunk"].__file__
    )


@pytest.mark.parametrize("ds", [Map.range(3).map(abs), Map.range(3).to_iter_dataset()])
def test_datasets_are_recognised_by_name_and_module(ds):
    found = [
        cls.__name__ for cls in type(ds).__mro__ if cls.__module__.startswith("grain._src.python")
    ]
    assert found == ["MapDataset" if isinstance(ds, grain.MapDataset) else "IterDataset"]


def _write_records(path, records):
    with open(path, "wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + struct.pack("<I", masked_crc32c(length)))
            file.write(record + struct.pack("<I", masked_crc32c(record)))


def test_tfrecord_readers_can_be_extended(tmp_path):
    module = importlib.import_module("grain._src.python.dataset.sources.tfrecord_dataset")

    class Reader(module._TFRecordReader):
        def __init__(self, path):
            self._reader = open(path, "rb")  # noqa: SIM115

    class RecordIterator(module._TFRecordDatasetIterator):
        def __init__(self, path):
            grain.DatasetIterator.__init__(self)
            self._reader = Reader(path)

    class Records(grain.experimental.TFRecordIterDataset):
        def __iter__(self):
            return RecordIterator(self._path)

    records = [b"one", b"", b"three"]
    _write_records(tmp_path / "records", records)
    for ds in (Records(tmp_path / "records"), Records(tmp_path / "records").map(bytes)):
        with iter(ds) as iterator:
            assert next(iterator) == b"one"
            state = iterator.get_state()
            assert list(iterator) == records[1:]
            iterator.set_state(state)
            assert list(iterator) == records[1:]
    with iter(Records(tmp_path / "records")) as iterator:
        assert iterator.get_state() == {"reader_offset": 0}


@pytest.mark.parametrize("damage", ["length", "data", "end"])
def test_a_damaged_record_is_an_error(tmp_path, damage):
    module = importlib.import_module("grain._src.python.dataset.sources.tfrecord_dataset")
    path = tmp_path / "records"
    _write_records(path, [b"record"])
    found = bytearray(path.read_bytes())
    if damage == "end":
        del found[-2:]
    else:
        found[{"length": 0, "data": 13}[damage]] ^= 1
    path.write_bytes(found)
    reader = module._TFRecordReader(str(path))
    with pytest.raises(ValueError, match="Not a valid TFRecord"):
        next(reader)
    reader.close()


def test_metrics_of_programs_keep_their_values():
    monitoring = grain.monitoring
    counter = monitoring.Counter("/a", monitoring.Metadata(description="a"), fields=[("b", str)])
    counter.Increment("x")
    counter.IncrementBy(3, "x")
    counter.Increment(b="y")
    assert [counter.Get("x"), counter.Get(b="y"), counter.Get("z")] == [4, 1, None]
    counter.ClearAll()
    assert counter.Get("x") is None
    gauge = monitoring.Metric("/b", float, monitoring.Metadata(units=monitoring.Units.SECONDS))
    gauge.Set(2.5)
    gauge.Set(1.5)
    events = monitoring.EventMetric("/c", bucketer=monitoring.Bucketer.PowersOf(2.0))
    events.Record(1)
    events.Record(2)
    assert (gauge.Get(), monitoring.get_monitoring_root()) == (1.5, None)
    assert (events.Get().count, events.Get().total) == (2, 3)


def test_the_execution_summary_is_a_message():
    pytest.importorskip("google.protobuf")
    module = grain.proto.execution_summary_pb2
    summary = module.ExecutionSummary()
    summary.nodes[1].name = "map"
    summary.nodes[1].inputs.append(2)
    summaries = module.ExecutionSummaries(execution_summaries=[summary])
    back = module.ExecutionSummaries.FromString(summaries.SerializeToString())
    assert back.execution_summaries[0].nodes[1].name == "map"


def test_the_version_is_a_tuple_as_well():
    assert ".".join(map(str, grain.__version_info__)) == grain.__version__
    assert grain.__version_info__ > (0, 2, 18)
