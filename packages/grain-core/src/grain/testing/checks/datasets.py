"""Datasets: own subclasses of `MapDataset`, `IterDataset` and `DatasetIterator` behave as grain's."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from grain import tree
from grain.dataset.base import MapDataset
from grain.dataset.element_spec import get_element_spec
from grain.options import ReadOptions
from grain.testing.compare import expect_same, expect_same_all, snapshot
from grain.testing.sampling import MOST_STREAM_ELEMENTS, sample_steps
from grain.testing.subject import NotApplicable, Subject
from grain.testing.subprocess_probe import fingerprint_text

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def check_map_dataset_type(subject: Subject) -> None:
    """Check that a map dataset is a `grain.MapDataset`.

    Subclass it; it provides `map`, `batch`, `shuffle` and the other operations.
    """
    dataset = subject.fresh()
    assert isinstance(dataset, MapDataset), f"{type(dataset).__name__} is not a grain.MapDataset."


def check_later_epochs(subject: Subject) -> None:
    """Check that an index past the end is an element of a later epoch, the same one on every read.

    Compute `index % len(self)`, or pass the index on to the parent; raise no IndexError.
    """
    dataset, other = subject.fresh(), subject.fresh()
    length = len(dataset)
    if not length or 3 * length >= 2**63:
        raise NotApplicable(f"a dataset of {length} elements has no later epoch")
    for index in subject.indices:
        for epoch in (1, 2):
            later = index + epoch * length
            try:
                element, same = snapshot(dataset[later]), snapshot(other[later])
            except Exception as error:
                raise AssertionError(
                    f"dataset[{later}] of {length} elements raised {error!r}; it is element {index}"
                    f" of epoch {epoch}."
                ) from error
            expect_same(element, same, f"dataset[{later}] of two instances")


def check_slices(subject: Subject) -> None:
    """Check that a slice of a map dataset is the dataset of its elements.

    Start `__getitem__` with `if isinstance(index, slice): return self.slice(index)`.
    """
    dataset = subject.fresh()
    length = len(dataset)
    for part in (slice(None, 5), slice(1, None, 3), slice(None, None, -2), slice(-3, None)):
        indices = range(*part.indices(length))
        try:
            selected = dataset[part]
            count = len(selected)
        except Exception as error:
            raise AssertionError(f"dataset[{_text(part)}] raised {error!r}.") from error
        assert isinstance(selected, MapDataset), (
            f"dataset[{_text(part)}] returned a {type(selected).__name__}, not a grain.MapDataset."
        )
        assert count == len(indices), (
            f"dataset[{_text(part)}] has {count} elements, expected {len(indices)}."
        )
        for position in sample_steps(count):
            what = f"element {position} of dataset[{_text(part)}]"
            expect_same(snapshot(dataset[indices[position]]), snapshot(selected[position]), what)


def check_operations_read_dataset(subject: Subject) -> None:
    """Check that a stream, a batch and a shuffle of a map dataset have its elements, and resume mid-stream.

    Elements must depend on their index alone; `__getitems__` must agree with `__getitem__`.
    """
    dataset = subject.fresh()
    length = min(len(dataset), MOST_STREAM_ELEMENTS)
    elements = [snapshot(dataset[index]) for index in range(length)]
    present = [element for element in elements if element is not None]
    for how, options in (("without threads", ReadOptions(num_threads=0)), ("", ReadOptions())):
        iterator = iter(dataset[:length].to_iter_dataset(options))
        expect_same_all(present, _taken(iterator), f"to_iter_dataset() {how}".rstrip())
    iterator = iter(dataset.to_iter_dataset())
    states = [iterator.get_state()]
    for _ in present:
        next(iterator)
        states.append(iterator.get_state())
    for step in sample_steps(len(states)):
        resumed = iter(subject.fresh().to_iter_dataset())
        resumed.set_state(states[step])
        rest = [snapshot(element) for element in itertools.islice(resumed, len(present) - step)]
        expect_same_all(present[step:], rest, f"the stream, resumed after {step} elements")
    shuffled = dataset[:length].map_with_index(_with_index).shuffle(seed=1)
    for pair in shuffled:
        expect_same(elements[pair[0]], pair[1], f"element {pair[0]}, shuffled")


def check_known_length(subject: Subject) -> None:
    """Check that `len(dataset)` of an iter dataset, where it is known, is the number of its elements.

    Return None from `known_length` unless the number is known without reading.
    """
    dataset = subject.fresh()
    try:
        length = len(dataset)
    except TypeError:
        raise NotApplicable("the number of elements is known only by reading") from None
    if subject.is_truncated:
        raise NotApplicable(f"the stream does not end within {len(subject.elements)} elements")
    count = len(subject.elements)
    assert length == count, f"len(dataset) is {length}, but it has {count} elements."


def check_element_spec(subject: Subject) -> None:
    """Check that every element has the structure, dtypes and shapes of the dataset's element spec.

    Correct `infer_element_spec` (or `_element_spec`): None stands for a length that differs from
    element to element. Without it there is no spec, which is allowed.
    """
    try:
        spec = get_element_spec(subject.fresh())
    except (NotImplementedError, TypeError):
        raise NotApplicable("the class has no element spec") from None
    for number, element in enumerate(subject.elements):
        if element is None:  # dropped by a filter
            continue
        expected, actual = _structure(spec), _structure(element)
        assert expected == actual, (
            f"element {number} has the structure {actual}, but the spec {expected}."
        )
        for described, leaf in zip(tree.leaves(spec), tree.leaves(element), strict=True):
            array = np.asarray(leaf)
            assert _fits(described, array), (
                f"element {number} has {array.dtype} of shape {array.shape}; the spec says"
                f" {described.dtype} of shape {described.shape}."
            )


def check_fingerprint_stable(subject: Subject) -> None:
    """Check that a dataset's fingerprint is the same in every instance and process, also after reading.

    Set `fingerprint_name`, and return from `fingerprint_arguments` the arguments that decide on the
    elements: no address, counter, temporary name or `hash()` of text.
    """
    dataset = subject.fresh()
    if not hasattr(dataset, "fingerprint"):
        raise NotApplicable("it is not a dataset of grain")
    text = fingerprint_text(dataset)
    assert not _ADDRESS.search(text), f"the fingerprint has a memory address: {text!r:.200}."
    subject.read(dataset)
    probe = subject.subprocess
    texts = {"after reading": fingerprint_text(dataset)}
    texts["of another instance"] = fingerprint_text(subject.fresh())
    for how, observation in (("made", probe.made), ("unpickled", probe.sent)):
        if not observation.error:
            texts[f"of a dataset {how} in another process"] = observation.text
    for what, other in texts.items():
        assert other == text, f"the fingerprint is {text!r:.200}, but {what} {other!r:.200}."


def check_fingerprint_distinguishes(subject: Subject) -> None:
    """Check that datasets with other arguments, and therefore other elements, have other fingerprints.

    Return the arguments that decide on the elements from `fingerprint_arguments`, so that a state of one
    dataset is not restored into the other unnoticed.
    """
    if subject.case.make_different is None:
        raise NotApplicable("the case has no make_different")
    dataset, other = subject.fresh(), subject.fresh(subject.case.make_different)
    one, two = fingerprint_text(dataset), fingerprint_text(other)
    assert one != two, f"both have the fingerprint {one!r:.200}."


def check_closed_iterator(subject: Subject) -> None:
    """Check that `close()` closes the iterators of the parents, and a closed stream does not seem to end.

    Call `super().close()` in `close`, and raise an error in `__next__` after it: StopIteration or another
    element would be taken for the stream.
    """
    if len(subject.elements) < 2:
        raise NotApplicable("the stream has fewer than two elements")
    iterator, other = iter(subject.fresh()), iter(subject.fresh())
    for each in (iterator, other):
        next(each)
    iterator.close()
    for parent, same in zip(*(getattr(i, "parents", ()) for i in (iterator, other)), strict=True):
        same.close()
        # Iterators that can be read after close() hold nothing to close.
        assert _is_readable(same) or not _is_readable(parent), (
            f"close() of {type(iterator).__name__} left its parent, a {type(parent).__name__}, open."
        )
    try:
        element = next(iterator)
    except StopIteration:
        raise AssertionError(
            "next() of a closed iterator raised StopIteration, as if the stream had ended."
        ) from None
    except Exception:
        return
    expect_same(subject.elements[1], element, "next() of a closed iterator")


def _is_readable(iterator: Any) -> bool:
    try:
        next(iterator)
    except StopIteration:
        return True
    except Exception:
        return False
    return True


def _taken(iterator: Any) -> list[Any]:
    with iterator:
        return list(map(snapshot, itertools.islice(iterator, MOST_STREAM_ELEMENTS)))


def _with_index(index: int, element: Any) -> Any:
    return index, element


def _fits(spec: Any, array: Any) -> bool:
    return (
        spec.dtype == array.dtype
        and len(spec.shape) == array.ndim
        and all(length in (None, n) for length, n in zip(spec.shape, array.shape, strict=True))
    )


def _structure(element: Any) -> Any:
    return tree.map_leaves(lambda leaf: "·", element)


def _text(part: slice) -> str:
    return ":".join("" if n is None else str(n) for n in (part.start, part.stop, part.step))
