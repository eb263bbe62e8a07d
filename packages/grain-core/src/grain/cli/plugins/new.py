"""`grain plugins new`: a plugin package that installs, is found, and keeps its contract as it stands.

The files are in `template/`: those in `common/` for every kind, the others for one. They are text in
which `@NAME@` and its like are replaced; the ending `.txt` keeps tools from taking them for code.
"""

from __future__ import annotations

import argparse
import pathlib
import re
from dataclasses import dataclass

from grain.cli.command import Command, CommandError
from grain.plugins import KNOWN_PLUGINS
from grain.plugins.known import OWN_NAMES

TEMPLATE = pathlib.Path(__file__).parent / "template"
LONGEST_NAME = 40

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_TAKEN = {"core", *(plugin.name for plugin in KNOWN_PLUGINS)}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What differs from kind to kind outside of the template's files.

    Attributes:
        file: The module that holds the class.
        suffix: What the name of the class ends in.
        summary: One line about what the package does at first.
    """

    file: str
    suffix: str
    summary: str


SHAPES = {
    "source": Shape(
        file="source",
        suffix="DataSource",
        summary="Random access to records of one size in a binary file.",
    ),
    "iter-source": Shape(
        file="dataset",
        suffix="IterDataset",
        summary="The lines of a text file, in their order.",
    ),
    "transform": Shape(
        file="transform",
        suffix="",
        summary="A random stretch of each array.",
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "name", help="what to call it, such as `my-format`; with or without `grain-`"
    )
    parser.add_argument("--kind", required=True, choices=SHAPES, help="what the plugin provides")
    parser.add_argument(
        "--directory", default=".", metavar="DIR", help="where to make its folder (default: here)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the package and says what to do next."""
    name = plugin_name(arguments.name)
    files = render(name, arguments.kind)
    folder = pathlib.Path(arguments.directory) / f"grain-{name}"
    write(folder, files)
    print(f"{folder}: a plugin of kind {arguments.kind}, {len(files)} files. Next:")
    print(f"  pip install -e {folder}")
    print(f"  grain conformance {name}")
    return 0


def plugin_name(given: str) -> str:
    """The plugin's name, of a name that may also be its distribution's; an error if it is not one.

    Example:
        >>> plugin_name("grain-my-format")
        'my-format'
    """
    name = given.removeprefix("grain-")
    if not _NAME.fullmatch(name):
        normal = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        hint = f" {normal!r} would do." if _NAME.fullmatch(normal) else ""
        raise CommandError(
            f"{given!r} cannot be a plugin's name: expected a lower-case letter first, then"
            f" lower-case letters and digits, in words joined by '-'.{hint}"
        )
    if len(name) > LONGEST_NAME:
        raise CommandError(
            f"{given!r} is {len(name)} characters long; {LONGEST_NAME} are the most there may be."
        )
    if name in _TAKEN:
        raise CommandError(f"grain-{name} is a package of grain itself: choose another name.")
    return name


def class_name(name: str, kind: str) -> str:
    """What the plugin's class is called; an error if the core has something of that name.

    Example:
        >>> class_name("my-format", "source")
        'MyFormatDataSource'
    """
    chosen = "".join(word.capitalize() for word in name.split("-")) + SHAPES[kind].suffix
    if chosen in OWN_NAMES:
        raise CommandError(
            f"A {kind} called {name!r} would provide {chosen}, which grain itself has: choose"
            " another name."
        )
    return chosen


def render(name: str, kind: str) -> dict[str, str]:
    """The files of a package: their paths inside its folder, and what they hold."""
    shape = SHAPES[kind]
    module = f"grain_{name.replace('-', '_')}"
    words = {
        # First, since what it stands for has such words itself.
        "@USAGE@": _read(TEMPLATE / kind / "usage.md.txt"),
        "@NAME@": name,
        "@DISTRIBUTION@": f"grain-{name}",
        "@MODULE@": module,
        "@CLASS@": class_name(name, kind),
        "@FILE@": shape.file,
        "@SUMMARY@": shape.summary,
    }
    files = {}
    for part in ("common", kind):
        for file in sorted((TEMPLATE / part).rglob("*.txt")):
            if file.name == "usage.md.txt":
                continue
            path = file.relative_to(TEMPLATE / part).as_posix().removesuffix(".txt")
            files[path.replace("src/package/", f"src/{module}/")] = _replaced(_read(file), words)
    return files


def write(folder: pathlib.Path, files: dict[str, str]) -> None:
    """Writes files into a folder that is not there yet, or is empty."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(
                f"{folder} is there already, and is left as it is: choose another name, or another"
                " --directory."
            )
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error}.") from error


def _replaced(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _read(file: pathlib.Path) -> str:
    return file.read_text(encoding="utf-8")


COMMAND = Command(
    name="new",
    summary="Write the package of a new plugin, which passes conformance as it stands.",
    run=run,
    arguments=arguments,
)
