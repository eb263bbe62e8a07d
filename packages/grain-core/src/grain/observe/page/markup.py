"""HTML that is escaped by construction: whatever is not `Markup` already is text, and is escaped.

Contents of elements, reprs, and names of functions and plugins may be hostile. They reach a page only as
children or attributes of `tag`, which replaces characters with a meaning in HTML by entities, and shows
characters that are invisible, or that change the order of others, as escape sequences.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

# Joiners are part of emoji and of several scripts; a newline and a tab are layout.
_KEPT = frozenset("\n\t\u200c\u200d")
# Elements without content, and without an end tag.
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Markup(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def visible(text: str) -> str:
    r"""Return a text with control characters, bidirectional controls and lone surrogates escaped.

    >>> visible("a\x00b\u202ec")
    'a\\x00b\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in _KEPT or character.isprintable()
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def escape(value: object) -> Markup:
    """Return a value as HTML: `Markup` as it is, the text of anything else escaped.

    >>> escape("<script>"), escape(tag("b", "x"))
    ('&lt;script&gt;', '<b>x</b>')
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(visible(str(value)), quote=True))


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Return parts as HTML, one after the other."""
    return Markup(str(escape(separator)).join(map(escape, parts)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an HTML element.

    Args:
        name: The name of the element; given by this library, never by data.
        *children: The contents, escaped unless they are `Markup`.
        **attributes: The attributes; `class_` stands for `class`, and `aria_label` for `aria-label`.
            True is an attribute without value; None and False leave the attribute out.

    >>> tag("p", "1 < 2", class_="note", title='"')
    '<p class="note" title="&quot;">1 &lt; 2</p>'
    """
    texts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        texts.append(f" {attribute}" if value is True else f' {attribute}="{escape(value)}"')
    start = f"<{name}{''.join(texts)}>"
    if name in _VOID:
        return Markup(start)
    return Markup(f"{start}{''.join(map(escape, children))}</{name}>")
