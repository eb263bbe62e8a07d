"""Links between the pages, and from the README to them, have existing targets."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("packages/*/*.md"),
    *sorted(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts),
]
LINK = re.compile(r"\]\((?P<file>[^)#\s:]*)(?:#(?P<anchor>[^)\s]+))?\)")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def anchors(page: pathlib.Path) -> set[str]:
    """Return the anchors of a page: its headings as GitHub and MyST name them, and labels."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r"^\((.+)\)=$", text, re.MULTILINE))


def broken_links(page: pathlib.Path) -> list[str]:
    """Return the links of a page without a target."""
    broken = []
    for link in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / link["file"]) if link["file"] else page
        anchor = link["anchor"] if target.suffix == ".md" else None
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link[0])
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# A heading, of `code`\n\n(label)=\n")
    page = tmp_path / "page.md"
    good = (
        "[a](other.md) [b](other.md#a-heading-of-code) [c](other.md#label) [d](#here)\n\n# Here\n"
    )
    code = "`[x](nowhere.md)`\n\n```text\n[y](nowhere.md)\n```\n"
    page.write_text(good + code)
    assert broken_links(page) == []
    page.write_text(good + "[e](nowhere.md) [f](other.md#missing)\n")
    assert broken_links(page) == ["](nowhere.md)", "](other.md#missing)"]
