"""Texts of others in one line of a terminal or a log."""

from __future__ import annotations


def one_line(text: object) -> str:
    r"""Return a text in one line, without characters that control a terminal.

    >>> one_line("a\x1b[31m\nb")
    'a [31m b'
    """
    return "".join(char if char.isprintable() else " " for char in str(text))
