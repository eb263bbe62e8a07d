"""Source, tests and docs use the terms of the glossary, and none of the words that once stood for them."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SUFFIXES = {".py", ".md", ".toml", ".txt"}
BANNED = (
    "amiss",
    "anew",
    "anybody",
    "astray",
    "begun",
    "betimes",
    "hereby",
    "lest",
    "likewise",
    "mend",
    "mended",
    "mending",
    "mends",
    "nobody",
    "somebody",
    "stretch",
    "stretches",
    "told",
    "whoever",
    "by turns",
    "comes by",
    "goes on",
    "one's own",
)
# Underscores separate words, so that parts of identifiers are found; phrases may be wrapped.
PATTERN = re.compile(
    r"(?<![^\W_])(?:" + "|".join(BANNED).replace(" ", r"[\s#]+") + r")(?![^\W_])", re.IGNORECASE
)


def tracked_files() -> list[pathlib.Path]:
    """Return the text files of the repository, those not yet committed included.

    A virtual environment in the checkout, whatever its name, is not part of it.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    environments = {path.parent for path in paths if path.name == "pyvenv.cfg"}
    return [
        path
        for path in paths
        if path.suffix in SUFFIXES and path.is_file() and environments.isdisjoint(path.parents)
    ]


def banned_words(text: str) -> list[tuple[int, str]]:
    """Return the line number and the text of each banned word."""
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in PATTERN.finditer(text)]


def test_no_file_has_a_banned_word():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in tracked_files()
        if path != pathlib.Path(__file__)
        for line, word in banned_words(path.read_text(encoding="utf-8"))
    ]
    assert not found, "reword, in the terms of docs/internals.md:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text", ["Told so.", "is_told = 1", "def test_nobody_waits(): ...", "# it goes\n# on", "mended"]
)
def test_a_banned_word_is_found_in_prose_and_identifiers(text):
    assert [word for _, word in banned_words(text)]


@pytest.mark.parametrize("text", ["recommend", "celestial", "stretching", "untold", "it continues"])
def test_words_that_contain_a_banned_word_are_accepted(text):
    assert banned_words(text) == []
