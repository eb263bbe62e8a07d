"""The cases by name, in the order of the report."""

from __future__ import annotations

import dataclasses
import enum

from benchmarks import checks, work
from benchmarks.checks import Check, expecting


class Measure(enum.Enum):
    """The measured quantity of a case."""

    RATE = "rate"
    """Elements in a second, in the steady state."""
    FIRST = "first"
    """Seconds from the description of a pipeline to some number of its outputs."""
    MEMORY = "memory"
    """MiB of each worker process, shared memory divided by the number of its users."""
    IMPORT = "import"
    """Seconds that a new process takes to import the library, and to exit."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One pipeline that every peer runs as well as it can.

    Attributes:
        name: Its name on the command line and in the report.
        group: Its heading in the report.
        summary: One line of description.
        check: Checks the first outputs.
        measure: The measured quantity.
        unit: Of the measured value.
        per_output: Number of elements of one output.
        outputs: Number of outputs that are awaited, where time is measured.
        workers: Number of worker processes.
    """

    name: str
    group: str
    summary: str
    check: Check
    measure: Measure = Measure.RATE
    unit: str = "elements/s"
    per_output: int = 1
    outputs: int = 1
    workers: int = 0

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is better."""
        return self.measure is Measure.RATE


LENGTHS = {f"length_1e{power}": 10**power for power in (3, 6, 9, 12)}
HEAVY_WORKERS = {f"heavy_mp{workers}": workers for workers in (1, 2, 3, 4)}

_MANY = 10**7
_added = expecting(checks.shuffled, size=128, low=1, high=_MANY + 1)
_heavy = expecting(checks.arrays, shape=(64, 1024), dtype="int32")


def _element(
    name: str, summary: str, check: Check, per_output: int = 128, workers: int = 0
) -> Case:
    return Case(
        name=name,
        group="Cost of an element",
        summary=summary,
        check=check,
        per_output=per_output,
        workers=workers,
    )


def _pack(name: str, summary: str, full: bool = False) -> Case:
    return Case(
        name=name,
        group="Text",
        summary=summary,
        check=expecting(checks.rows, shape=(work.ROW_LENGTH,), full=full),
        unit="tokens/s",
        per_output=work.ROW_LENGTH,
    )


def _image(
    name: str, summary: str, size: int, dtype: str, labelled: bool, workers: int = 0
) -> Case:
    return Case(
        name=name,
        group="Images and large arrays",
        summary=summary,
        check=expecting(checks.images, size=size, dtype=dtype, labelled=labelled),
        unit="images/s",
        per_output=size,
        workers=workers,
    )


def _large(name: str, summary: str, workers: int = 0) -> Case:
    shape = (4, work.LARGE_SIDE, work.LARGE_SIDE)
    return Case(
        name=name,
        group="Images and large arrays",
        summary=summary,
        check=expecting(checks.arrays, shape=shape, dtype="float32"),
        unit="arrays/s",
        per_output=4,
        workers=workers,
    )


def _file(
    name: str, summary: str, check: Check, unit: str, per_output: int, workers: int = 0
) -> Case:
    return Case(
        name=name,
        group="Files and far-away data",
        summary=summary,
        check=check,
        unit=unit,
        per_output=per_output,
        workers=workers,
    )


def _memory(name: str, summary: str, check: Check) -> Case:
    return Case(
        name=name,
        group="Start and memory",
        summary=summary,
        check=check,
        measure=Measure.MEMORY,
        unit="MiB per worker",
        workers=2,
    )


def _start(name: str, summary: str, check: Check, measure: Measure, workers: int = 0) -> Case:
    return Case(
        name=name,
        group="Start and memory",
        summary=summary,
        check=check,
        measure=measure,
        unit="s",
        workers=workers,
    )


_RECORD_LENGTHS = expecting(checks.constant, size=128, value=1024)
_REMOTE = expecting(checks.ints, size=32, low=0, high=_MANY)
_SMALL = expecting(checks.arrays, shape=(64, 256), dtype="float32")

ALL = [
    _element(
        "range_batch", "numbers in order, batches of 128", expecting(checks.in_order, size=128)
    ),
    _element("shuffle_map_batch", "shuffle 10^7 numbers, map, batch of 128; one thread", _added),
    _element("shuffle_map_batch_threads", "the same, read ahead by default threads", _added),
    _element(
        "map_elems_threads", "shuffle, map, single elements; default threads", checks.elements, 1
    ),
    _element(
        "iter_batch_after_threads", "a user's source, shuffle, map, threads, then batch", _added
    ),
    _element(
        "random_map",
        "a user's source, shuffle, a random draw for each element, batch",
        expecting(checks.shuffled, size=128, low=0, high=_MANY + 5),
    ),
    _element(
        "filter_iter_batch",
        "shuffle, keep every second element, then batch",
        expecting(checks.shuffled, size=128, low=0, high=_MANY, step=2),
    ),
    _element(
        "mix3",
        "three shuffled streams of 10^6 mixed by weight, batch",
        expecting(checks.shuffled, size=128, low=0, high=10**6),
    ),
    _element("ints_batch_mp2", "a user's source, shuffle, map, batch; 2 workers", _added, 128, 2),
    _element("dataloader_w0", "DataLoader: shuffle, map, batch; no workers", _added),
    _element("dataloader_w2", "DataLoader: shuffle, map, batch; 2 workers", _added, 128, 2),
    *(
        Case(
            name=name,
            group="Heavy functions in worker processes",
            summary=f"a heavy Python function on each element, batch of 64; workers: {workers}",
            check=_heavy,
            per_output=64,
            workers=workers,
        )
        for name, workers in HEAVY_WORKERS.items()
    ),
    *(
        Case(
            name=name,
            group="Heavy functions in worker processes",
            summary=f"filter, then batch of 64, then a heavy function on the batch; workers: {workers}",
            check=_heavy,
            per_output=64,
            workers=workers,
        )
        for name, workers in (("filter_batch_heavy_w0", 0), ("filter_batch_heavy_mp2", 2))
    ),
    _image("images_batch", "224x224 images in memory, shuffle, batch of 64", 64, "uint8", True),
    _image(
        "images_norm_batch_mp2",
        "the same, made float32 before the batch; 2 workers",
        64,
        "float32",
        True,
        2,
    ),
    _image("image_decode", "JPEG files: read, decode, crop, batch of 32", 32, "uint8", False),
    _image("image_decode_mp2", "the same; 2 workers", 32, "uint8", False, 2),
    _large("large_arrays", "arrays of 4 MiB, batch of 4"),
    _large("large_arrays_mp2", "the same; 2 workers", 2),
    _pack("pack_first_fit", "pack documents into rows of 2048, first fit, 64 bins"),
    _pack("pack_best_fit", "pack documents into rows of 2048, best fit, 64 bins"),
    _pack("pack_concat_split", "join documents and cut rows of 2048", full=True),
    Case(
        name="text_pack",
        group="Text",
        summary="lines of text: tokenize, join, cut rows of 1024, batch of 8",
        check=expecting(checks.rows, shape=(8, work.TEXT_ROW_LENGTH), full=True),
        unit="tokens/s",
        per_output=8 * work.TEXT_ROW_LENGTH,
    ),
    _file(
        "arrayrecord_1k_seq",
        "ArrayRecord, 1 KiB records, shuffle, batch of 128; one thread",
        _RECORD_LENGTHS,
        "records/s",
        128,
    ),
    _file(
        "arrayrecord_1k_threads",
        "the same, records read by default threads, then batch",
        _RECORD_LENGTHS,
        "records/s",
        128,
    ),
    _file(
        "arrayrecord_1k_batch_threads",
        "the same, batches read by default threads",
        _RECORD_LENGTHS,
        "records/s",
        128,
    ),
    _file(
        "parquet_iter",
        "Parquet rows in order, batch of 128",
        expecting(checks.table, size=128),
        "rows/s",
        128,
    ),
    _file("small_files", "4000 files of 1 KiB, shuffle, batch of 64", _SMALL, "files/s", 64),
    _file("small_files_mp2", "the same; 2 workers", _SMALL, "files/s", 64, 2),
    _file("latency_threads", "each read waits 2 ms; default threads", _REMOTE, "elements/s", 32),
    _file("latency_mp2", "the same; 2 workers", _REMOTE, "elements/s", 32, 2),
    *(
        Case(
            name=name,
            group="Cost as the length grows",
            summary=f"from nothing to 100 batches of 128 of 10^{len(str(length)) - 1} shuffled numbers",
            check=expecting(checks.shuffled, size=128, low=0, high=length),
            measure=Measure.FIRST,
            unit="s",
            per_output=128,
            outputs=100,
        )
        for name, length in LENGTHS.items()
    ),
    _start("import", "a new process that imports the library", checks.anything, Measure.IMPORT),
    _start(
        "first_batch",
        "time to the first batch of 10^6 shuffled numbers",
        expecting(checks.shuffled, size=128, low=1, high=10**6 + 1),
        Measure.FIRST,
    ),
    _start(
        "first_batch_mp2",
        "the same; 2 workers are started",
        expecting(checks.shuffled, size=128, low=1, high=10**6 + 1),
        Measure.FIRST,
        2,
    ),
    _memory(
        "memory_mp2",
        "image batches of 38 MB pass through 2 workers; default read options",
        expecting(checks.images, size=64, dtype="float32", labelled=True),
    ),
    _memory(
        "memory_list_mp2",
        "a list of 200 000 Python objects behind 2 workers",
        expecting(checks.shuffled, size=128, low=0, high=200_000),
    ),
]

BY_NAME = {case.name: case for case in ALL}
GROUPS = list(dict.fromkeys(case.group for case in ALL))
