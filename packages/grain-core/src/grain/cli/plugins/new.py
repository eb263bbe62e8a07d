"""`grain plugins new`: create a plugin package that installs and passes conformance unchanged.

The files are in `template/`: `common/` for every kind, the other folders for one kind each. Words such
as `@NAME@` are replaced; the suffix `.txt` keeps tools from treating the templates as code.
"""

from __future__ import annotations

import argparse
import pathlib
import re
from dataclasses import dataclass

from grain.cli.command import Command, CommandError
from grain.plugins import KNOWN_PLUGINS
from grain.plugins.first_party import OWN_NAMES

TEMPLATE = pathlib.Path(__file__).parent / "template"
LONGEST_NAME = 40

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_TAKEN = {"core", *(plugin.name for plugin in KNOWN_PLUGINS)}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Properties of a kind that are not in the template files.

    Attributes:
        file: The module that contains the class.
        suffix: The suffix of the class name.
        summary: One line about the package as created.
    """

    file: str
    suffix: str
    summary: str


SHAPES = {
    "source": Shape(
        file="source",
        suffix="DataSource",
        summary="Random access to fixed-size records in a binary file.",
    ),
    "iter-source": Shape(
        file="dataset",
        suffix="IterDataset",
        summary="The lines of a text file, in order.",
    ),
    "transform": Shape(
        file="transform",
        suffix="",
        summary="A random slice of each array.",
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "name", help="the name, such as `my-format`, with or without the prefix `grain-`"
    )
    parser.add_argument("--kind", required=True, choices=SHAPES, help="the kind of plugin")
    parser.add_argument(
        "--directory",
        default=".",
        metavar="DIR",
        help="the parent of the new folder (default: here)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the package and print the next steps."""
    name = plugin_name(arguments.name)
    files = render(name, arguments.kind)
    folder = pathlib.Path(arguments.directory) / f"grain-{name}"
    write(folder, files)
    print(f"{folder}: a plugin of kind {arguments.kind}, {len(files)} files. Next:")
    print(f"  pip install -e {folder}")
    print(f"  grain conformance {name}")
    return 0


def plugin_name(given: str) -> str:
    """Return the plugin's name, given with or without `grain-`; raise if it is not valid.

    Example:
        >>> plugin_name("grain-my-format")
        'my-format'
    """
    name = given.removeprefix("grain-")
    if not _NAME.fullmatch(name):
        normal = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        hint = f" Use {normal!r}." if _NAME.fullmatch(normal) else ""
        raise CommandError(
            f"{given!r} is not a valid plugin name: expected words of lower-case letters and"
            f" digits joined by '-', starting with a letter.{hint}"
        )
    if len(name) > LONGEST_NAME:
        raise CommandError(
            f"{given!r} has {len(name)} characters; a plugin name has at most {LONGEST_NAME}."
        )
    if name in _TAKEN:
        raise CommandError(f"grain-{name} is a package of grain itself: choose another name.")
    return name


def class_name(name: str, kind: str) -> str:
    """Return the name of the plugin's class; raise if the core has that name.

    Example:
        >>> class_name("my-format", "source")
        'MyFormatDataSource'
    """
    chosen = "".join(word.capitalize() for word in name.split("-")) + SHAPES[kind].suffix
    if chosen in OWN_NAMES:
        raise CommandError(
            f"A {kind} called {name!r} would provide {chosen}, which is a name of grain itself:"
            " choose another name."
        )
    return chosen


def render(name: str, kind: str) -> dict[str, str]:
    """Return the files of a package: relative paths and contents."""
    shape = SHAPES[kind]
    module = f"grain_{name.replace('-', '_')}"
    words = {
        # First, since its replacement contains such words.
        "@USAGE@": _read(TEMPLATE / kind / "usage.md.txt"),
        "@NAME@": name,
        "@DISTRIBUTION@": f"grain-{name}",
        "@MODULE@": module,
        "@CLASS@": class_name(name, kind),
        "@FILE@": shape.file,
        "@SUMMARY@": shape.summary,
    }
    files = {}
    for folder in ("common", kind):
        for file in sorted((TEMPLATE / folder).rglob("*.txt")):
            if file.name == "usage.md.txt":
                continue
            path = file.relative_to(TEMPLATE / folder).as_posix().removesuffix(".txt")
            files[path.replace("src/package/", f"src/{module}/")] = _replaced(_read(file), words)
    return files


def write(folder: pathlib.Path, files: dict[str, str]) -> None:
    """Write files into a new or empty folder."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(
                f"{folder} exists and was not changed: choose another name or another --directory."
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
    summary="Create the package of a new plugin, which passes conformance unchanged.",
    run=run,
    arguments=arguments,
)
