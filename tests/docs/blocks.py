"""The fenced code blocks of a Markdown page, with the marks in the comments before each."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>[\w{}-]*)[^`]*$")
MARK = re.compile(r"^ *<!-- (?P<kind>not run|needs): (?P<text>.+?) -->$")
PAGE_NEEDS = re.compile(r"^<!-- this page needs: (.+?) -->$", re.MULTILINE)
FILE_NAME = re.compile(r"^# ([\w./-]+\.\w+)$")


class PageError(Exception):
    """An invalid block, with its location."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        language: the word after the fence.
        text: the contents.
        line: the line in the page on which `text` starts.
        not_run: why this block is not run, if the page excludes it.
        needs: a library that it requires, if the page names one.
    """

    language: str
    text: str
    line: int
    not_run: str | None = None
    needs: str | None = None

    @property
    def file(self) -> str | None:
        """The file named in a program's first line, such as `# train.py`, if any."""
        found = FILE_NAME.match(self.text.split("\n", 1)[0])
        return found[1] if found and self.language == "python" else None


def needs_of(page: pathlib.Path) -> list[str]:
    """Return the libraries that a whole page requires."""
    found = PAGE_NEEDS.search(page.read_text(encoding="utf-8"))
    return [name.strip() for name in found[1].split(",")] if found else []


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Return all blocks of a page, from top to bottom."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks: list[Block] = []
    line_number = 0
    while line_number < len(lines):
        opening = FENCE.match(lines[line_number])
        if opening is None:
            line_number += 1
            continue
        start = line_number + 1
        closing = re.compile(rf"^ *{opening['ticks'][0]}{{{len(opening['ticks'])},}} *$")
        end = next((i for i in range(start, len(lines)) if closing.match(lines[i])), None)
        if end is None:
            raise PageError(f"{page.name}, line {line_number + 1}: this fence is never closed.")
        marks = _marks_above(lines, line_number)
        blocks.append(
            Block(
                language=opening["language"],
                text=textwrap.dedent("\n".join(lines[start:end])) + "\n",
                line=start + 1,
                not_run=marks.get("not run"),
                needs=marks.get("needs"),
            )
        )
        line_number = end + 1
    return blocks


def _marks_above(lines: list[str], line_number: int) -> dict[str, str]:
    marks: dict[str, str] = {}
    for line in reversed(lines[:line_number]):
        found = MARK.match(line)
        if found is None:
            break
        marks[found["kind"]] = found["text"]
    return marks
