"""Why the conformance checks fail for sources of other libraries: a short program shows each reason.

Each function receives the subject's folder and returns the source's behaviour as text, which the page shows.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from grain.testing import Case

from . import subjects


@dataclass(frozen=True)
class Explanation:
    """The reason of failures of one subject.

    Attributes:
        subject: The name of the case.
        checks: The checks that fail for this reason.
        text: What to do about it.
        shows: Returns the behaviour, and raises if the reason does not apply.
    """

    subject: str
    checks: tuple[str, ...]
    text: str
    shows: Callable[[str], Any]


def raised(function: Callable[[], Any]) -> str:
    """Return the exception that a function raises, which must not be an IndexError."""
    try:
        function()
    except Exception as error:
        if isinstance(error, IndexError):
            raise
        return f"{type(error).__name__}: {error}".split("\n")[0][:100]
    raise AssertionError("no exception was raised")


def pickled_memory_map(directory: str) -> str:
    rows = subjects.memory_map(directory)
    data = pickle.dumps(rows)
    assert rows.tobytes() in data
    return f"a file of {rows.nbytes} bytes gives a pickle of {len(data)} bytes that contains it"


def tfds_outside(directory: str) -> str:
    source = subjects.tfds_source(directory)
    return raised(lambda: source[len(source)])


def tfds_array(directory: str) -> str:
    source = subjects.tfds_source(directory)
    return raised(lambda: source.__getitems__(np.arange(2)))


def lance_outside(directory: str) -> str:
    source = subjects.lance_rows(directory)
    return raised(lambda: source[len(source)])


def bagz_outside(directory: str) -> str:
    reader = subjects.bagz_reader(directory)
    return raised(lambda: reader[-len(reader) - 1])


def zarr_length(directory: str) -> str:
    array = subjects.zarr_array(directory)
    return raised(lambda: len(array))


def hdf5_pickle(directory: str) -> str:
    dataset = subjects.hdf5_dataset(directory)
    return raised(lambda: pickle.dumps(dataset))


def polars_outside(directory: str) -> str:
    rows = subjects.polars_rows()
    return raised(lambda: rows[len(rows)])


def concatenated_outside(directory: str) -> str:
    dataset = subjects.concatenated()
    return raised(lambda: dataset[-len(dataset) - 1])


def written_tensor(directory: str) -> str:
    dataset = subjects.tensor_dataset()
    dataset[0][0].fill_(7)
    assert dataset[0][0].tolist() == [7, 7, 7]
    return "after dataset[0][0].fill_(7), dataset[0][0] is all 7"


def written_subset(directory: str) -> str:
    dataset = subjects.torch_subset()
    dataset[0][0].fill_(7)
    assert dataset[0][0].tolist() == [7, 7, 7]
    return "after subset[0][0].fill_(7), subset[0][0] is all 7"


def two_reprs(case: Case, directory: str) -> str:
    arguments = (directory,) if case.prepare else ()
    one, other = case.make(*arguments), case.make(*arguments)
    assert repr(one) != repr(other)
    return f"two instances of the same data are {type(one).__name__} objects at two addresses"


_INDEX = ("check_out_of_range_index",)
_BOTH = (*_INDEX, "check_batched_read_out_of_range")
_ALIASED = ("check_elements_not_aliased",)
_REPR = ("check_repr_without_address",)
_REPR_TEXT = (
    "The default `repr` has an address, so no checkpoint of a `DataLoader` restores in another process."
    " Give the class a `__repr__`, or wrap it."
)
_INDEX_TEXT = (
    "An index after the last record does not raise an IndexError, so code that reads a sequence to its"
    " end does not stop there."
)
_NEGATIVE_TEXT = "An index before the first record does not raise an IndexError."
_ALIASED_TEXT = (
    "Records are views of the tensors: a transform that changes one in place changes the data of the"
    " next epoch. Use transforms that copy, or return `tensor.clone()`."
)

EXPLANATIONS = (
    Explanation(
        "numpy.memmap",
        ("check_pickle_without_file_contents",),
        "torch, Ray and `multiprocessing` copy the whole file into every worker. grain's own workers"
        " receive a reference to the file instead.",
        pickled_memory_map,
    ),
    Explanation("tfds.data_source", _BOTH, _INDEX_TEXT, tfds_outside),
    Explanation(
        "tfds.data_source",
        ("check_batched_read_array_indices",),
        "`if not record_keys` is ambiguous for an array. grain passes lists to it: use"
        " `grain.sources.TfdsDataSource` of grain-tfds.",
        tfds_array,
    ),
    Explanation("lance (SafeLanceDataset)", _BOTH, _INDEX_TEXT, lance_outside),
    Explanation("bagz.Reader", _INDEX, _NEGATIVE_TEXT, bagz_outside),
    Explanation(
        "zarr.Array",
        ("check_all_indices_readable",),
        "It has no length, so it is no sequence. Wrap it in a class whose `__len__` returns"
        " `array.shape[0]`, or read it into an array. All other failures follow from this one.",
        zarr_length,
    ),
    Explanation(
        "h5py.Dataset",
        ("check_pickle_new_instance",),
        "Keep the path and open the file on first use, in each process.",
        hdf5_pickle,
    ),
    Explanation("polars.DataFrame, by row", _INDEX, _INDEX_TEXT, polars_outside),
    Explanation("torch TensorDataset", _ALIASED, _ALIASED_TEXT, written_tensor),
    Explanation("torch Subset", _ALIASED, _ALIASED_TEXT, written_subset),
    Explanation("torch ConcatDataset", _ALIASED, _ALIASED_TEXT, written_tensor),
    Explanation("torch ConcatDataset", _INDEX, _NEGATIVE_TEXT, concatenated_outside),
    *(
        Explanation(case.name, _REPR, _REPR_TEXT, functools.partial(two_reprs, case))
        for case in subjects.cases()
        if case.name.startswith(("lance", "bagz", "pandas", "polars", "torch"))
    ),
)
