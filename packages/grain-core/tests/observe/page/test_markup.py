"""Escaping: whatever data contains, a page shows it as text."""

from __future__ import annotations

import html.parser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.observe.page.markup import Markup, escape, join, tag, visible

HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "'-alert(1)-'",
    "<!-- -->",
    "]]>",
    "&lt;b&gt;",
]


class Tags(html.parser.HTMLParser):
    """Collects the tags, attributes and text of a document."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_content_and_in_attributes(text):
    parsed = Tags(tag("p", text, title=text))
    assert parsed.tags == ["p"]
    assert parsed.attributes == [("title", text)]
    assert parsed.text == text


@given(st.text())
def test_any_text_survives_as_its_visible_form(text):
    parsed = Tags(tag("p", text, title=text))
    assert parsed.tags == ["p"]
    assert parsed.text.replace("\r", "\n") == visible(text).replace("\r", "\n")
    tag("p", text).encode("utf-8")


def test_control_and_bidirectional_characters_are_shown_as_escapes():
    shown = visible("a\x00\x1b[31m\u202e\u2066\u200e\ud800z")
    assert shown == r"a\x00\x1b[31m\u202e\u2066\u200e\ud800z"


def test_joiners_of_emoji_and_lines_are_kept():
    text = "👩\u200d👩\u200d👧\n\t\u05e9\u05dc\u05d5\u05dd"
    assert visible(text) == text


def test_markup_is_not_escaped_twice():
    inner = tag("b", "<")
    assert inner == "<b>&lt;</b>"
    assert escape(inner) is inner
    assert join([inner, "<", 3]) == "<b>&lt;</b>&lt;3"
    assert isinstance(join([]), Markup)


def test_attributes_that_are_none_or_false_are_left_out():
    assert tag("details", open=True, hidden=False, id=None) == "<details open></details>"
    assert tag("img", src="a", aria_label="b", class_="c") == (
        '<img src="a" aria-label="b" class="c">'
    )
