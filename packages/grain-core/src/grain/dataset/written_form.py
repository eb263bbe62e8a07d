"""The text of a pipeline as one would write it, with lengths and element specs: what `repr` shows.

Nothing is read for it: a length or a spec that is known only by reading is left out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grain import tree
from grain.dataset.element_spec import ShapeDtypeStruct, get_element_spec
from grain.dataset.fingerprint.stable_text import stable_line, stable_text

_INDENT = "    "
_MOST_CHARACTERS = 72
_MOST_PARENTS = 8
# Notes after longer lines are not aligned.
_MOST_ALIGNED = 50
# Sequences up to this length may be shown as they are.
_SHORT_SEQUENCE = 8


def call(name: str, *given: Any, **named: Any) -> str:
    """Return a call as one would write it; named arguments that are None or False are left out.

    >>> call("batch", 32, drop_remainder=True, batch_fn=None)
    'batch(32, drop_remainder=True)'
    """
    texts = [value_text(value) for value in given]
    for key, value in named.items():
        if value is not None and value is not False:
            texts.append(f"{key}={value_text(value)}")
    return f"{name}({', '.join(texts)})"


def operation_call(node: Any) -> str:
    """Return the operation of a node with a fingerprint, as a call of the method of that name."""
    arguments = dict(node.fingerprint_arguments())
    if "seed" in arguments and arguments["seed"] == _derived_seed(node):
        del arguments["seed"]
    # As most people write it: the first argument by position, a seed by name.
    first = next(iter(arguments), "seed")
    given = [] if first == "seed" != node.fingerprint_name else [arguments.pop(first)]
    return call(
        node.fingerprint_name, *(value for value in given if value is not None), **arguments
    )


def _derived_seed(node: Any) -> int | None:
    """Return the seed that a node derives from `seed()` upstream, if it was given none."""
    return None if node.own_seed is not None else node.default_seed


def value_text(value: Any) -> str:
    """Return an argument as one would write it, shortened.

    >>> value_text(np.zeros((2, 3))), value_text(lambda x: x), value_text([1, 2])
    ('<float64 array of shape (2, 3)>', '<lambda>', '[1, 2]')
    """
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.size <= _SHORT_SEQUENCE and value.dtype.kind in "biu":
            return str(value.tolist())
        return f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, functools.partial):
        return call("partial", value.func, *value.args, **value.keywords)
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str) and not hasattr(value, "__self__"):
        return name.rpartition("<locals>.")[2]
    return _shortened(stable_text(value))


def source_text(source: Any) -> str:
    """Return a data source as an argument, shortened."""
    if isinstance(source, np.ndarray):
        return value_text(source)
    if isinstance(source, (list, tuple, str, bytes, Mapping)):
        text = repr(source) if len(source) <= _SHORT_SEQUENCE else ""
        if text and len(text) <= _MOST_CHARACTERS and "\n" not in text and " at 0x" not in text:
            return text
        return f"<{type(source).__name__} of {len(source)}>"
    kind: Any = type(source)
    if hasattr(source, "written_form"):
        return str(source.written_form())
    if kind.__repr__ is object.__repr__:
        return f"<{kind.__qualname__}>"
    text = repr(source)
    if "\n" in text:  # A table or a series, whose text is a picture of it.
        return f"<{kind.__qualname__} of {len(source)}>"
    return _shortened(stable_line(text))


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def pipeline_text(node: Any) -> str:
    """Return the pipeline up to a node: one operation per line, with what is known of its elements."""
    lines, _ = _pipeline_lines(node)
    widths = (len(line) for line, note in lines if note)
    width = max((width for width in widths if width <= _MOST_ALIGNED), default=0)
    return "\n".join(f"{line:<{width}}  # {note}" if note else line for line, note in lines)


_Lines = list[tuple[str, str]]


def _pipeline_lines(node: Any) -> tuple[_Lines, str]:
    """Return the lines of a pipeline, each with its note, and what is known of its elements."""
    parents = node.parents
    call_of_node = call_of(node)
    known = _known(node)
    if not parents:
        return [(call_of_node, known)], known
    if len(parents) == 1 and not node.written_names():
        lines, before = _pipeline_lines(parents[0])
        form = call_of_node if call_of_node.startswith("[") else f".{call_of_node}"
        return [*lines, (_INDENT + form, known if known != before else "")], known
    return _combined_lines(node, call_of_node, known), known


def _combined_lines(node: Any, call_of_node: str, known: str) -> _Lines:
    """Return the lines of a node that reads several datasets, each of them indented."""
    name, _, arguments = call_of_node.partition("(")
    names = node.written_names()
    left, right = "{}" if any(names) else "[]"
    lines: _Lines = [(f"{name}({left}", "")]
    parents: Sequence[Any] = node.parents[:_MOST_PARENTS]
    for number, parent in enumerate(parents):
        nested, _ = _pipeline_lines(parent)
        label = f"{names[number]!r}: " if number < len(names) else ""
        texts = [(_INDENT + label + nested[0][0], nested[0][1])]
        texts += [(_INDENT + text, note) for text, note in nested[1:]]
        texts[-1] = (texts[-1][0] + ",", texts[-1][1])
        lines += texts
    if len(node.parents) > len(parents):
        lines.append((f"{_INDENT}… {len(node.parents) - len(parents)} more,", ""))
    rest = f", {arguments}" if arguments != ")" else ")"
    return [*lines, (right + rest, known)]


def call_of(node: Any) -> str:
    """Return the operation of a node as one would write it; never raises."""
    try:
        text: str = node.written_call()
        return text
    except Exception:  # `repr` is used in debuggers and messages: it must not fail.
        return f"pipe({type(node).__qualname__})"


def _known(node: Any) -> str:
    """Return the length and the element spec, as far as they are known without reading."""
    length, spec = length_text(node), element_text(node)
    if not length:
        return spec and f"elements: {spec}"
    if spec:
        return f"{length} x {spec}"
    return "1 element" if length == "1" else f"{length} elements"


def element_text(node: Any) -> str:
    """Return the element spec of a node as text; empty if it is unknown without reading."""
    try:
        return _spec_text(get_element_spec(node))
    except Exception:
        return ""


def length_text(node: Any) -> str:
    """Return the number of elements of a node as text; empty if it is unknown without reading."""
    try:
        length = node.known_length() if hasattr(node, "known_length") else len(node)
        sparse = getattr(node, "is_sparse", False)
    except Exception:
        return ""
    if length is None:
        return ""
    if length >= sys.maxsize:
        return "endless"
    return f"up to {length}" if sparse and length else str(length)


def _spec_text(spec: Any) -> str:
    if isinstance(spec, dict):
        return _shortened(
            "{" + ", ".join(f"{key!r}: {_spec_text(part)}" for key, part in spec.items()) + "}"
        )
    if isinstance(spec, (list, tuple)):
        left, right = "[]" if isinstance(spec, list) else "()"
        return _shortened(left + ", ".join(map(_spec_text, spec)) + right)
    if isinstance(spec, ShapeDtypeStruct):
        shape = ", ".join("?" if length is None else str(length) for length in spec.shape)
        name = {"U": "str", "S": "bytes"}.get(spec.dtype.kind, str(spec.dtype))
        return f"{name}[{shape}]" if shape else name
    return _shortened(str(tree.map_leaves(_spec_text, spec)))
