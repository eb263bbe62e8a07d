"""Elements as people like to look at them: images, text, tables, signals, arrays and trees as HTML."""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grain.observe.page.markup import Markup, join, tag, visible
from grain.observe.page.png import encode_png
from grain.observe.page.preview import (
    array_text,
    array_type,
    counted,
    numbers_note,
    safe_repr,
    shortened,
    type_name,
)
from grain.observe.page.tabular import TablePreview, as_table
from grain.observe.page.thumbnail import ImageLayout, image_layout, thumbnail
from grain.observe.page.waveform import signals, waveform

# Larger arrays of other libraries are not converted to numpy to look at them.
_MOST_CONVERTED_BYTES = 64 * 2**20
_MOST_DEPTH = 6
_MOST_FIELDS = 24
_MOST_ITEMS = 4
_MOST_LEAVES = 120
_MOST_CHARACTERS = 600
_MOST_IMAGES = 6
_SIDE = 112
_SIDE_IN_BATCHES = 72
_HEX_BYTES = 48
_MOST_FILE_BYTES = 96 * 2**10
_IMAGE_FILES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class ElementView:
    """Renders elements as HTML; pictures stop when those of one page have reached a number of bytes.

    Args:
        image_bytes: The most bytes of all pictures together.
    """

    def __init__(self, image_bytes: int = 1_500_000):
        self._image_bytes = image_bytes
        self._leaves = 0

    def render(self, element: Any) -> Markup:
        """Return an element as HTML.

        >>> ElementView().render({"label": 3})
        '<dl class="tree"><dt>label</dt><dd><code class="value">3</code> <small>int</small></dd></dl>'
        """
        self._leaves = 0
        return self._node(element, 0)

    def _node(self, value: Any, depth: int) -> Markup:
        self._leaves += 1
        if self._leaves > _MOST_LEAVES or depth > _MOST_DEPTH:
            return tag("small", "…")
        try:
            return self._rendered(value, depth)
        except Exception as error:  # A user's class may raise in any of its methods.
            note = f"{visible(type_name(value))}, which raised {type_name(error)} when it was shown"
            return tag("small", note)

    def _rendered(self, value: Any, depth: int) -> Markup:
        if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
            return _scalar(value)
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(value)
        if (table := as_table(value)) is not None:
            return _table(table)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Mapping):
            return self._fields(value.items(), len(value), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._named(value, names, depth)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._named(value, value._fields, depth)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, depth)
        if (array := _converted(value)) is not None:
            return join([self._array(array), " ", tag("small", type_name(value))])
        return _described(value)

    def _fields(self, items: Iterable[tuple[Any, Any]], count: int, depth: int) -> Markup:
        if not count:
            return join([tag("code", "{}", class_="value"), " ", tag("small", "empty")])
        parts: list[object] = []
        for key, value in itertools.islice(items, _MOST_FIELDS):
            name = key if isinstance(key, str) and key else safe_repr(key)
            parts.append(tag("dt", shortened(name)))
            parts.append(tag("dd", self._node(value, depth + 1)))
        if count > _MOST_FIELDS:
            parts.append(tag("dt", "…"))
            parts.append(tag("dd", tag("small", f"{count - _MOST_FIELDS:,} more")))
        return tag("dl", *parts, class_="tree")

    def _named(self, value: Any, names: Sequence[str], depth: int) -> Markup:
        pairs = ((name, getattr(value, name)) for name in names)
        fields = self._fields(pairs, len(names), depth)
        return join([tag("small", type_name(value), class_="kind"), fields])

    def _sequence(self, value: Sequence[Any], depth: int) -> Markup:
        plain = all(
            item is None or isinstance(item, (bool, int, float, np.generic))
            for item in itertools.islice(value, _MOST_FIELDS)
        )
        if plain:
            kind = f"{type_name(value)}[{len(value)}]"
            return join(
                [tag("code", safe_repr(value, 160), class_="value"), " ", tag("small", kind)]
            )
        items: list[object] = [
            tag("li", self._node(item, depth + 1)) for item in itertools.islice(value, _MOST_ITEMS)
        ]
        if len(value) > _MOST_ITEMS:
            items.append(tag("li", tag("small", f"… {len(value) - _MOST_ITEMS:,} more")))
        kind = tag("small", f"{type_name(value)} of {len(value):,}", class_="kind")
        return join([kind, tag("ol", *items, class_="items", start="0")])

    def _bytes(self, value: bytes | bytearray | memoryview) -> Markup:
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        label = f"bytes[{size:,}]"
        start = bytes(value[:_MOST_CHARACTERS])
        mime = next((mime for magic, mime in _IMAGE_FILES if start.startswith(magic)), None)
        if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
            mime = "image/webp"
        if mime is not None and size <= min(_MOST_FILE_BYTES, self._image_bytes):
            self._image_bytes -= size
            return _figure(mime, bytes(value), f"Encoded image of {size:,} bytes", label)
        try:
            text = start.decode("utf-8")
        except UnicodeDecodeError as error:
            # A character may be cut at the end of the preview.
            text = (
                start[: error.start].decode("utf-8") if size > error.end >= len(start) - 3 else ""
            )
        if text and text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
            return _text(text, label, size - len(start))
        return join([tag("code", _hex(start, size), class_="value"), " ", tag("small", label)])

    def _array(self, array: NDArray[Any]) -> Markup:
        label = array_type(array)
        if array.ndim == 0:
            return _scalar(array.dtype.type(array[()]) if array.dtype.kind != "O" else array[()])
        if not array.size:
            return join([tag("code", "empty", class_="value"), " ", tag("small", label)])
        layout = image_layout(array.shape, array.dtype)
        if layout is not None and self._image_bytes > 0:
            return self._images(array, layout, label)
        if channels := signals(array):
            notes = [label, numbers_note(array)]
            if (
                channels[0].size == array.shape[-1]
                and len(array) > len(channels)
                and array.ndim == 2
            ):
                notes.append(f"{len(channels)} of {len(array):,} signals shown")
            waves = [waveform(channel) for channel in channels]
            return tag("figure", *waves, tag("figcaption", " · ".join(filter(None, notes))))
        if array.dtype.kind in "US" and array.ndim == 1:
            return join([_lines(array), tag("small", label)])
        notes = [label, numbers_note(array)]
        note = tag("small", " · ".join(filter(None, notes)))
        return join([tag("code", array_text(array), class_="value"), " ", note])

    def _images(self, array: NDArray[Any], layout: ImageLayout, label: str) -> Markup:
        while layout.batched > 1:  # Of videos, the frames of the first.
            array, layout = array[0], ImageLayout(layout.batched - 1, layout.channels)
        images = [array] if not layout.batched else list(array[:_MOST_IMAGES])
        side = _SIDE_IN_BATCHES if layout.batched else _SIDE
        pictures: list[object] = []
        notes = [label]
        for number, image in enumerate(images):
            small = thumbnail(image, layout.channels, 2 * side)
            data = encode_png(small.pixels)
            if len(data) > self._image_bytes:
                break
            self._image_bytes -= len(data)
            width, height = small.size
            which = f"Image {number + 1} of {len(array):,}" if layout.batched else "Image"
            alt = f"{which}, {width} by {height} pixels"
            pictures.append(_picture("image/png", data, alt, small.pixels.shape, side))
            if small.note and small.note not in notes:
                notes.append(small.note)
        if layout.batched and len(array) > len(pictures):
            notes.append(f"{len(pictures)} of {len(array):,} shown")
        caption = tag("figcaption", " · ".join(notes[:4]))
        return tag("figure", tag("div", *pictures, class_="pictures"), caption)


def _scalar(value: Any) -> Markup:
    kind = "None" if value is None else type_name(value)
    text = "None" if value is None else _scalar_text(value)
    code = tag("code", text, class_="value")
    return code if value is None else join([code, " ", tag("small", kind)])


def _scalar_text(value: Any) -> str:
    if isinstance(value, np.generic) and value.dtype.kind != "O":
        return safe_repr(value.item() if value.dtype.kind in "biufc" else str(value))
    return safe_repr(value)


def _text(text: str, label: str | None = None, more: int | None = None) -> Markup:
    shown = text[:_MOST_CHARACTERS]
    rest = len(text) - len(shown) + (more or 0)
    unit = "byte" if more is not None else "character"
    note = label or f"str[{len(text):,}]"
    if rest:
        note += f" · {counted(rest, unit)} more"
    return join([tag("p", shown or "''", class_="text", dir="auto"), tag("small", note)])


def _hex(start: bytes, size: int) -> str:
    return start[:_HEX_BYTES].hex(" ") + (" …" if size > _HEX_BYTES else "")


def _lines(array: NDArray[Any]) -> Markup:
    rows = [tag("li", shortened(str(text), 120), dir="auto") for text in array[:_MOST_ITEMS]]
    if len(array) > _MOST_ITEMS:
        rows.append(tag("li", tag("small", f"… {len(array) - _MOST_ITEMS:,} more")))
    return tag("ol", *rows, class_="items", start="0")


def _described(value: Any) -> Markup:
    kind = type_name(value)
    return join([tag("code", safe_repr(value, 160), class_="value"), " ", tag("small", kind)])


def _converted(value: Any) -> NDArray[Any] | None:
    """Return an array of another library, such as JAX, or a picture of PIL, as an array of numpy."""
    kind = type(value)
    if not hasattr(kind, "__array__") and not hasattr(kind, "__array_interface__"):
        return None
    if getattr(value, "nbytes", 0) > _MOST_CONVERTED_BYTES:
        return None
    array = np.asarray(value)
    return None if array.dtype.kind == "O" else array


def _table(table: TablePreview) -> Markup:
    head = tag("tr", *(tag("th", shortened(name, 40), scope="col") for name in table.columns))
    body = [tag("tr", *(tag("td", cell) for cell in row)) for row in table.rows]
    caption = f"{table.kind} · {counted(table.length, 'row')}"
    if table.hidden_columns:
        caption += f" · {counted(table.hidden_columns, 'column')} more"
    inner = tag("table", tag("thead", head), tag("tbody", *body), class_="data")
    area = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("figure", area, tag("figcaption", caption))


def _figure(mime: str, data: bytes, alt: str, label: str) -> Markup:
    picture = _picture(mime, data, alt, None, _SIDE)
    return tag("figure", tag("div", picture, class_="pictures"), tag("figcaption", label))


def _picture(mime: str, data: bytes, alt: str, shape: tuple[int, ...] | None, side: int) -> Markup:
    """Return an image, enlarged or reduced to sides of at most `side` CSS pixels."""
    source = f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
    if shape is None:
        return tag("img", src=source, alt=alt, style=f"max-width:{side}px;max-height:{side}px")
    height, width = shape[:2]
    scale = side / max(height, width)
    sharp = "pixel" if scale > 1 else None
    return tag(
        "img",
        src=source,
        alt=alt,
        class_=sharp,
        width=max(1, round(width * scale)),
        height=max(1, round(height * scale)),
    )
