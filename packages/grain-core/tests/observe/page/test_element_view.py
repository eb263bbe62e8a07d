"""Elements as HTML: images, text, tables, signals, arrays, trees, and hostile objects."""

from __future__ import annotations

import dataclasses
from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import grain
from grain.observe.page.element_view import ElementView
from grain.observe.page.png import encode_png

from .test_markup import HOSTILE, Tags

IMAGE = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)


def render(element: Any) -> str:
    return ElementView().render(element)


def tags(element: Any) -> list[str]:
    return Tags(render(element)).tags


class RaisingRepr:
    def __repr__(self):
        raise RuntimeError("no repr")


class HostileRepr:
    def __repr__(self):
        return "<script>alert(1)</script>" * 10_000


class RaisingEverywhere:
    def __getattr__(self, name):
        raise RuntimeError("no attributes")

    def __len__(self):
        raise RuntimeError("no length")

    __repr__ = RaisingRepr.__repr__


class RaisingDict(UserDict):
    def items(self):
        raise ValueError("no items")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_contents_and_names_are_text(text):
    kind = dataclasses.make_dataclass("Kind", ["field"])
    kind.__qualname__ = text
    element = {
        text: text,
        "bytes": text.encode(),
        "array": np.array([text, text]),
        "objects": np.array([text, None], dtype=object),
        "list": [text, {text: text}],
        "kind": kind(text),
        "table": {text: [text, text], "b": [1, 2]},
        "frame": pd.DataFrame({text: [text]}),
        "structured": np.zeros(2, [("a", "i4"), ("b", "f4")]),
    }
    parsed = Tags(render(element))
    assert not {"script", "svg", "iframe", "title"} & set(parsed.tags)
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert all(value != text for name, value in parsed.attributes if name in ("src", "href"))
    assert "img" not in parsed.tags
    assert text in parsed.text


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        (None, "None"),
        (True, "True bool"),
        (7, "7 int"),
        (1.5, "1.5 float"),
        (np.float32(1.5), "1.5 float32"),
        (np.int64(3), "3 int64"),
        (np.array(2.5), "2.5 float64"),
        (np.datetime64("2026-01-01"), "2026-01-01"),
        (1 + 2j, "(1+2j) complex"),
        ("", "''"),
        ("hello", "hello"),
        (b"hello", "hello"),
        (b"", "bytes[0]"),
        (b"\x00\xff", "00 ff bytes[2]"),
        ({}, "{} empty"),
        ([], "[] list[0]"),
        ((), "() tuple[0]"),
        ([1, None, 2.5], "[1, None, 2.5] list[3]"),
        (np.zeros((0, 3), np.float32), "empty float32[0, 3]"),
        (np.arange(3), "[0 1 2] int64[3] · 0 to 2, mean 1"),
        (np.arange(1000).reshape(10, 100), "int64[10, 100] · 0 to 999, mean 499.5"),
        (np.array(["a", "b"]), "str[2]"),
        (np.array([object()]), "object[1]"),
        (np.array(["2026-01-01"], "datetime64[D]"), "datetime64[D][1]"),
        pytest.param(10**5000, "bits", id="huge integer"),
        (float("nan"), "nan float"),
        (range(3), "range(0, 3) range"),
        ({1, 2}, "{1, 2} set"),
        (ElementView, "type"),
    ],
)
def test_each_kind_of_element_has_its_value_and_type(element, shown):
    assert shown in Tags(render(element)).text


def test_images_are_thumbnails_with_alternative_text():
    parsed = Tags(render({"image": IMAGE}))
    assert parsed.tags.count("img") == 1
    attributes = dict(parsed.attributes)
    assert attributes["src"].startswith("data:image/png;base64,")
    assert attributes["alt"] == "Image, 16 by 16 pixels"
    assert "uint8[16, 16, 3]" in parsed.text


def test_of_a_batch_of_images_some_are_shown():
    parsed = Tags(render(np.stack([IMAGE] * 32)))
    assert parsed.tags.count("img") == 6
    assert "6 of 32 shown" in parsed.text
    assert ("alt", "Image 2 of 32, 16 by 16 pixels") in parsed.attributes


def test_of_videos_the_frames_of_the_first_are_shown():
    assert tags(np.zeros((2, 4, 16, 16, 3), np.uint8)).count("img") == 4


def test_pictures_of_a_page_are_bounded():
    view = ElementView(image_bytes=3000)
    shown = [Tags(view.render(IMAGE)).tags.count("img") for _ in range(6)]
    assert shown[0] == 1
    assert shown[-1] == 0


@pytest.mark.parametrize(
    ("start", "mime"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (encode_png(IMAGE), "image/png"),
    ],
)
def test_encoded_images_are_shown_as_images(start, mime):
    parsed = Tags(render(start + b"\x00" * 10))
    assert dict(parsed.attributes)["src"].startswith(f"data:{mime};base64,")


def test_an_encoded_image_of_many_bytes_is_described():
    assert "img" not in tags(b"\xff\xd8\xff\xe0" + b"\x00" * 10**6)


def test_vector_graphics_are_text():
    assert tags(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>") == ["p", "small"]


def test_blocks_of_a_hundred_megabytes_are_shown_in_little_time_and_space():
    size = 100 * 2**20
    for element in (
        bytes(size),
        np.zeros(size, np.uint8),
        "x" * size,
        np.zeros((size // 300, 300)),
    ):
        assert len(render(element)) < 200_000


def test_long_text_is_cut_with_the_number_of_characters_left():
    parsed = Tags(render("é" * 10_000))
    assert "str[10,000] · 9,400 characters more" in parsed.text
    assert "9,400 bytes more" in Tags(render(b"x" * 10_000)).text


def test_a_character_cut_at_the_end_of_the_preview_does_not_hide_the_text():
    assert "ééé" in Tags(render(("x" + "é" * 5000).encode())).text


@pytest.mark.parametrize(
    "frame",
    [
        {"name": ["ann", "bob"], "age": np.array([30, 40])},
        {"name": np.array(["ann", "bob"]), "age": [30, 40]},
        pd.DataFrame({"name": ["ann", "bob"], "age": [30, 40]}),
        pl.DataFrame({"name": ["ann", "bob"], "age": [30, 40]}),
        pa.table({"name": ["ann", "bob"], "age": [30, 40]}),
        np.array([("ann", 30), ("bob", 40)], dtype=[("name", "U3"), ("age", "i8")]),
    ],
)
def test_tables_have_a_header_and_rows(frame):
    parsed = Tags(render(frame))
    assert parsed.tags.count("tr") == 3
    assert parsed.tags.count("th") == 2
    for text in ("name", "age", "ann", "bob", "30", "40", "2 rows"):
        assert text in parsed.text


def test_wide_and_long_tables_are_cut():
    frame = pd.DataFrame({f"c{i}": np.arange(1000) for i in range(40)})
    parsed = Tags(render(frame))
    assert parsed.tags.count("tr") == 6
    assert parsed.tags.count("th") == 12
    assert "1,000 rows · 28 columns more" in parsed.text
    assert tags(frame.iloc[:0]).count("tr") == 1


def test_vectors_of_equal_type_are_fields_and_not_columns():
    assert "table" not in tags({"tokens": np.arange(8), "mask": np.ones(8, int)})


@pytest.mark.parametrize(
    "signal",
    [
        np.sin(np.arange(16_000) / 50),
        np.sin(np.arange(16_000) / 50).astype(np.float16),
        (1000 * np.sin(np.arange(16_000) / 50)).astype(np.int16),
        np.full(1000, np.nan),
        np.full(1000, np.inf),
        np.zeros(1000),
        np.arange(256, dtype=np.float32),
    ],
)
def test_signals_are_waveforms(signal):
    parsed = Tags(render(signal))
    assert parsed.tags.count("svg") == 1
    points = dict(parsed.attributes)["points"]
    assert "nan" not in points
    assert "inf" not in points
    assert f"Signal of {signal.size:,} values" in dict(parsed.attributes)["aria-label"]


def test_a_batch_of_signals_says_how_many_are_drawn():
    batch = render(np.zeros((4, 4000), np.float32))
    assert batch.count("<polygon") == 2
    assert "2 of 4 signals shown" in batch
    for whole in ((2, 4000), (4000, 2), (4000,)):
        assert "shown" not in render(np.zeros(whole, np.float32))


def test_stereo_has_two_waveforms():
    assert tags(np.zeros((16_000, 2), np.float32)).count("svg") == 2
    assert tags(np.zeros((2, 16_000), np.float32)).count("svg") == 2


def test_trees_show_their_keys_and_classes():
    point = namedtuple("point", ["x", "y"])
    element = {"a": {"b": [{"c": 1}]}, "p": point(1, 2), 3: grain.Record(None, "data")}
    text = Tags(render(element)).text
    for part in ("a", "b", "c", "point", "x", "y", "3", "Record", "data"):
        assert part in text


def test_depth_width_and_cycles_are_bounded():
    cycle: dict[str, Any] = {}
    cycle["self"] = [cycle, cycle, cycle, cycle]
    wide = {f"key {i}": i for i in range(1000)}
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert len(render(cycle)) < 50_000
    assert "976 more" in Tags(render(wide)).text
    assert len(render(deep)) < 5_000
    assert "996 more" in Tags(render(["x"] * 1000)).text


@pytest.mark.parametrize(
    "make",
    [
        RaisingRepr,
        RaisingEverywhere,
        lambda: RaisingDict(a=1),
        lambda: [RaisingRepr()],
        lambda: {"a": RaisingEverywhere()},
    ],
)
def test_objects_that_raise_are_named(make):
    assert "Raising" in Tags(render(make())).text


def test_a_hostile_repr_is_cut_and_escaped():
    assert len(render(HostileRepr())) < 2_000
    assert "script" not in tags(HostileRepr())


def test_arrays_of_other_libraries_are_shown_as_arrays():
    class Array:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert "[0 1 2]" in Tags(render(Array())).text
    assert "Array" in Tags(render(Array())).text
