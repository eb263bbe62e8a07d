"""The fenced code blocks of a Markdown page, and what is said about each right before it."""

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
    """A block that is wrong, and where it stands."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
      language: the word behind the fence.
      text: what stands inside.
      line: the line in the page on which `text` begins.
      not_run: why this block is not run, if the page says so.
      needs: a library without which it cannot run, if the page names one.
    """

    language: str
    text: str
    line: int
    not_run: str | None = None
    needs: str | None = None

    @property
    def file(self) -> str | None:
        """The file that a program's first line names, `# train.py`, if it does."""
        found = FILE_NAME.match(self.text.split("\n", 1)[0])
        return found[1] if found and self.language == "python" else None


def needs_of(page: pathlib.Path) -> list[str]:
    """The libraries without which nothing of a page can run."""
    found = PAGE_NEEDS.search(page.read_text(encoding="utf-8"))
    return [name.strip() for name in found[1].split(",")] if found else []


def blocks_of(page: pathlib.Path) -> list[Block]:
    """All blocks of a page, from top to bottom."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks: list[Block] = []
    place = 0
    while place < len(lines):
        opening = FENCE.match(lines[place])
        if opening is None:
            place += 1
            continue
        start = place + 1
        closing = re.compile(rf"^ *{opening['ticks'][0]}{{{len(opening['ticks'])},}} *$")
        end = next((i for i in range(start, len(lines)) if closing.match(lines[i])), None)
        if end is None:
            raise PageError(f"{page.name}, line {place + 1}: this fence is never closed.")
        marks = _marks_above(lines, place)
        blocks.append(
            Block(
                language=opening["language"],
                text=textwrap.dedent("\n".join(lines[start:end])) + "\n",
                line=start + 1,
                not_run=marks.get("not run"),
                needs=marks.get("needs"),
            )
        )
        place = end + 1
    return blocks


def _marks_above(lines: list[str], place: int) -> dict[str, str]:
    marks: dict[str, str] = {}
    for line in reversed(lines[:place]):
        found = MARK.match(line)
        if found is None:
            break
        marks[found["kind"]] = found["text"]
    return marks
