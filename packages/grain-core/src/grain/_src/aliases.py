"""The table of private names and public objects, and the modules made from it."""

from __future__ import annotations

import importlib.util
import opcode
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from grain._lazy import lazy_names

_ROOT = "grain._src"
_FOLDER = os.path.dirname(__file__)

_TRANSFORMS = [
    "Batch",
    "Filter",
    "FlatMap",
    "Map",
    "MapWithIndex",
    "RandomMap",
    "TfRandomMap",
    "Transformation",
    "Transformations",
    # Names of earlier releases.
    *(f"{kind} as {kind}Transform" for kind in ("Batch", "Filter", "FlatMap", "Map", "RandomMap")),
    "MapWithIndex as MapWithIndexTransform",
    "TfRandomMap as TfRandomMapTransform",
]
_CHECKPOINT = ["CheckpointHandler", "CheckpointRestore", "CheckpointSave"]
_SHARED_MEMORY = {"grain.multiprocessing": ["SharedMemoryArray", "SharedMemoryArrayMetadata"]}
_TRANSFORMATIONS = "python.dataset.transformations"

# Module below `grain._src` -> home of the object -> names, as in an import statement.
_ALIASES: dict[str, Mapping[str, Iterable[str]]] = {
    "core.config": {"grain._config": ["config"]},
    "core.constants": {
        "grain.constants": [
            "DATASET_INDEX",
            "EPOCH",
            "INDEX",
            "META_FEATURES",
            "RECORD",
            "RECORD_KEY",
            "SEED",
        ]
    },
    "core.monitoring": {
        "grain.monitoring": [
            "Bucketer",
            "Counter",
            "EventMetric",
            "Metadata",
            "Metric",
            "Units",
            "get_monitoring_root",
        ]
    },
    "core.sharding": {
        "grain.sharding": ["NoSharding", "ShardByJaxProcess", "ShardOptions", "even_split"]
    },
    "core.transforms": {
        "grain.transforms": _TRANSFORMS,
        "grain._exceptions": ["transform_name as get_pretty_transform_name"],
    },
    "core.version": {"grain.version": ["__version__", "__version_info__"]},
    "python.checkpoint.handler": {"grain.checkpoint": _CHECKPOINT},
    "python.checkpoint_handlers": {"grain.checkpoint": _CHECKPOINT},
    "python.data_loader": {
        "grain.loader.data_loader": [
            "DataLoader",
            "DataLoaderIterator",
            "determine_worker_count as _determine_worker_count",
        ]
    },
    "python.data_sources": {
        "grain.sources": [
            "ArrayRecordDataSource",
            "RandomAccessDataSource",
            "RangeDataSource",
            "SharedMemoryDataSource",
            "SharedMemoryDataSource as InMemoryDataSource",
        ]
    },
    "python.dataset.base": {
        "grain.experimental": [
            "DatasetOptions",
            "ExecutionTrackingMode",
            "ShapeDtypeStruct",
            "ShapeDtypeStructProtocol",
        ],
        "grain.sources": ["RandomAccessDataSource"],
        "grain.transforms": ["DatasetSelectionMap"],
    },
    "python.dataset.dataset": {
        "grain.dataset.base": [
            "DatasetIterator",
            "IterDataset",
            "MapDataset",
            "apply_transformations",
        ],
        "grain.experimental": [
            "WithOptionsIterDataset",
            "get_element_spec",
            "get_next_index",
            "set_next_index",
        ],
    },
    "python.dataset.elastic_iterator": {"grain.experimental": ["ElasticIterator"]},
    "python.dataset.sources.parquet_dataset": {"grain.experimental": ["ParquetIterDataset"]},
    "python.dataset.sources.tfrecord_dataset": {
        "grain.experimental": ["TFRecordIterDataset"],
        "grain.dataset.tfrecord.file_reader": [
            "TFRecordFileReader as _TFRecordReader",
            "TFRecordFileIterator as _TFRecordDatasetIterator",
        ],
    },
    "python.dataset.stats": {
        "grain.dataset.stats": [
            "IPL_CAT_ENQUEUE",
            "IPL_CAT_PREFETCH",
            "IPL_CAT_PREPROCESSING",
            "IPL_CAT_READ",
            "IPL_CAT_UNKNOWN",
            "Stats",
            "record_next_duration_if_output",
            "trace_input_pipeline",
            "trace_input_pipeline_next",
            "trace_input_pipeline_prefetch",
        ]
    },
    f"{_TRANSFORMATIONS}.batch": {
        "grain.dataset.batch": ["BatchIterDataset", "BatchMapDataset", "batch_and_pad"]
    },
    f"{_TRANSFORMATIONS}.cache": {"grain.experimental": ["CacheIterDataset"]},
    f"{_TRANSFORMATIONS}.concatenate": {"grain.dataset.concatenate": ["ConcatenateMapDataset"]},
    f"{_TRANSFORMATIONS}.filter": {
        "grain.dataset.filter": ["FilterIterDataset", "FilterMapDataset"]
    },
    f"{_TRANSFORMATIONS}.flatmap": {
        "grain.experimental": ["FlatMapIterDataset", "FlatMapMapDataset"]
    },
    f"{_TRANSFORMATIONS}.interleave": {"grain.experimental": ["InterleaveIterDataset"]},
    f"{_TRANSFORMATIONS}.limit": {"grain.experimental": ["LimitIterDataset"]},
    f"{_TRANSFORMATIONS}.map": {
        "grain.dataset.map": [
            "MapIterDataset",
            "MapMapDataset",
            "MapWithIndexIterDataset",
            "MapWithIndexMapDataset",
        ],
        "grain.dataset.random_map": ["RandomMapIterDataset", "RandomMapMapDataset"],
        "grain.experimental": ["RngPool"],
    },
    f"{_TRANSFORMATIONS}.mix": {"grain.dataset.mix": ["MixedIterDataset", "MixedMapDataset"]},
    f"{_TRANSFORMATIONS}.packing": {
        "grain.experimental": ["BestFitPackIterDataset", "FirstFitPackIterDataset"]
    },
    f"{_TRANSFORMATIONS}.packing_concat_then_split": {
        "grain.experimental": ["BOSHandling", "ConcatThenSplitIterDataset"]
    },
    f"{_TRANSFORMATIONS}.prefetch": {
        "grain.dataset.to_iter": ["PrefetchIterDataset"],
        "grain.experimental": [
            "ThreadPrefetchDatasetIterator",
            "ThreadPrefetchIterDataset",
            "multithread_prefetch",
        ],
    },
    f"{_TRANSFORMATIONS}.prefetch_autotune": {
        "grain.experimental": ["PerformanceConfig", "pick_performance_config"]
    },
    f"{_TRANSFORMATIONS}.rebatch": {"grain.experimental": ["RebatchIterDataset"]},
    f"{_TRANSFORMATIONS}.repeat": {
        "grain.dataset.repeat": ["RepeatIterDataset", "RepeatMapDataset"]
    },
    f"{_TRANSFORMATIONS}.shuffle": {
        "grain.dataset.shuffle": ["ShuffleMapDataset"],
        "grain.experimental": ["WindowShuffleIterDataset", "WindowShuffleMapDataset"],
    },
    f"{_TRANSFORMATIONS}.slice": {"grain.dataset.slice": ["SliceMapDataset"]},
    f"{_TRANSFORMATIONS}.source": {"grain.dataset.source": ["RangeMapDataset", "SourceMapDataset"]},
    f"{_TRANSFORMATIONS}.zip": {"grain.experimental": ["ZipIterDataset", "ZipMapDataset"]},
    "python.experimental.device_put.device_put": {"grain.experimental": ["device_put"]},
    "python.experimental.example_packing.packing": {
        "grain.experimental": ["PackAndBatchOperation"]
    },
    "python.experimental.index_shuffle.python.index_shuffle_module": {
        "grain.experimental": ["index_shuffle"]
    },
    "python.ipc.shared_memory_array": _SHARED_MEMORY,
    "python.load": {"grain.loader.load": ["load"]},
    "python.operations": {
        "grain.loader.operations": [
            "BatchOperation",
            "FilterOperation",
            "MapOperation",
            "Operation",
            "RandomMapOperation",
        ]
    },
    "python.options": {"grain.options": ["MultiprocessingOptions", "ReadOptions"]},
    "python.record": {"grain.records": ["Record", "RecordMetadata"]},
    "python.samplers": {"grain.samplers": ["IndexSampler", "Sampler", "SequentialSampler"]},
    "python.shared_memory_array": _SHARED_MEMORY,
    "python.testing.experimental": {"grain.experimental": ["assert_equal_output_after_checkpoint"]},
}

# Modules whose public names an unknown name is looked up in, for the message.
_PUBLIC = ("grain", "grain.experimental", "grain.python", "grain.transforms", "grain.sources")

_PACKAGES = {
    module[:end]
    for module in _ALIASES
    for end in range(len(module))
    if module[end : end + 1] == "."
}
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


def modules() -> list[str]:
    """Return the modules of the table, without the leading `grain._src.`."""
    return list(_ALIASES)


def names_in(module: str) -> list[str]:
    """Return the names that the table has for a module."""
    pairs = (name.partition(" as ") for names in _ALIASES[module].values() for name in names)
    return [alias or name for name, _, alias in pairs]


def names_of(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module of this package."""
    below = module.removeprefix(_ROOT).removeprefix(".")
    prefix = f"{below}." if below else ""
    inside = {
        name.removeprefix(prefix).partition(".")[0] for name in _ALIASES if name.startswith(prefix)
    }
    find, names = lazy_names(module, _ALIASES.get(below), submodules=inside)

    def __getattr__(name: str) -> Any:  # noqa: N807
        try:
            return find(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            error = AttributeError(_unknown(module, name), name=name, obj=sys.modules.get(module))
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            # An import statement would replace an AttributeError by one without the advice.
            raise ImportError(str(error), name=module) from None
        raise error

    return __getattr__, names


def _unknown(module: str, name: str) -> str:
    """Return the message about a name that this package does not have."""
    for home in _PUBLIC:
        if name in importlib.import_module(home).__all__:
            return f"{module} has no {name!r} here; it is public: `{home}.{name}`."
    return (
        f"{module} has no {name!r} here: {_ROOT} has only names of google/grain's private modules that "
        "other programs are known to import. The public API is `import grain`."
    )


class _AliasFinder:
    """Finder and loader of modules that exist in the table only."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in the table; an import of others below `_src` fails with advice."""
        if not fullname.startswith(f"{_ROOT}."):
            return None
        below = fullname.removeprefix(f"{_ROOT}.")
        if below not in _ALIASES and below not in _PACKAGES:
            if sys._getframe(2).f_code is importlib.util.find_spec.__code__:
                return None  # A program asks whether the module is there, and does not import it.
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: {_ROOT} has only modules of google/grain that other "
                "programs are known to import names from. The public API is `import grain`.",
                name=fullname,
            )
        spec = ModuleSpec(fullname, _AliasFinder, is_package=below in _PACKAGES)  # type: ignore[arg-type]
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.join(_FOLDER, *below.split(".")))
        return spec

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Let the import system create the module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give the module its names."""
        module.__doc__ = "Aliases; see `grain._src`."
        module.__getattr__, module.__dir__ = names_of(module.__name__)  # type: ignore[method-assign]


def install() -> None:
    """Let the import system find the modules of the table."""
    if _AliasFinder not in sys.meta_path:
        sys.meta_path.append(_AliasFinder)
