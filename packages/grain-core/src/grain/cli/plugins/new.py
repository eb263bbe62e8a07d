"""`grain plugins new`: create a plugin package that installs and passes conformance unchanged.

The files are in `template/`: `common/` for every kind, the other folders for one kind each. Words such
as `@NAME@` are replaced; the suffix `.txt` keeps tools from treating the templates as code.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import time
from dataclasses import dataclass

from grain.cli.command import Command, CommandError
from grain.cli.output import stdout_to_stderr
from grain.plugins import KNOWN_PLUGINS, default_manager
from grain.plugins.first_party import OWN_NAMES, KnownPlugin
from grain.plugins.spec import PluginSpec

TEMPLATE = pathlib.Path(__file__).parent / "template"
LICENSES = {
    file.name: file for file in sorted((pathlib.Path(__file__).parent / "licenses").iterdir())
}
DEFAULT_LICENSE = "Apache-2.0"
LONGEST_NAME = 40

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_CLASS = re.compile(r"[A-Z][A-Za-z0-9]*")
_SUFFIX = re.compile(r"(?:\.[a-z0-9_-]+)+")
_SCHEME = re.compile(r"[a-z][a-z0-9.-]*")
_AUTHOR = re.compile(
    r"(?P<name>[^<>\\\x00-\x1f\x7f]+?)(?:\s*<(?P<email>[^<>@\s\"]+@[^<>@\s\"]+)>)?"
)
_SUMMARY = re.compile(r"[^\"\\\n]{1,90}\.")
_URL = re.compile(r"https?://[^\s\"\\]+")
_TAKEN = {"core", *(plugin.name for plugin in KNOWN_PLUGINS)}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Properties of a kind that are not in the template files.

    Attributes:
        file: The module that contains the class.
        suffix: The suffix of the class name.
        summary: One line about the package as created.
        writer: What the module `writer` contains, for sources.
    """

    file: str
    suffix: str
    summary: str
    writer: str = ""


SHAPES = {
    "source": Shape(
        file="source",
        suffix="DataSource",
        summary="Random access to fixed-size records in a binary file.",
        writer="the writer that `grain convert` calls",
    ),
    "iter-source": Shape(
        file="dataset",
        suffix="IterDataset",
        summary="The lines of a text file, in order.",
        writer="the writer that `grain convert` calls",
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
    parser.add_argument("--class", dest="class_name", metavar="NAME", help="the name of the class")
    parser.add_argument(
        "--suffix", help="the suffix of files, such as `.myf` (default: `.` and the name)"
    )
    parser.add_argument("--scheme", help="the scheme of URIs (default: the name)")
    parser.add_argument("--summary", metavar="TEXT", help="one sentence about the package")
    parser.add_argument(
        "--license",
        choices=[*LICENSES, "none"],
        help=f"the licence of the package (default: {DEFAULT_LICENSE})",
    )
    parser.add_argument("--author", help="the author, such as `Ada Lovelace <ada@example.org>`")
    parser.add_argument("--url", help="the address of the project")
    parser.add_argument(
        "--defaults", action="store_true", help="do not ask for options that are not given"
    )
    parser.add_argument(
        "--directory",
        default=".",
        metavar="DIR",
        help="the parent of the new folder (default: here)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the package and print the next steps."""
    name = plugin_name(arguments.name)
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.defaults
    choices = choose(name, arguments, interactive)
    files = render(name, arguments.kind, choices)
    folder = pathlib.Path(arguments.directory) / f"grain-{name}"
    write(folder, files)
    print(f"{folder}: a plugin of kind {arguments.kind}, {len(files)} files. Next:")
    print(f"  pip install -e {folder}")
    print(f"  grain conformance {name}")
    for warning in clashes(name, arguments.kind, choices):
        print(f"warning: {warning}", file=sys.stderr)
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


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the author of a plugin decides on besides its name and kind; empty means the default.

    Attributes:
        class_name: The name of the class.
        suffix: The suffix of files, with its dot.
        scheme: The scheme of URIs.
        summary: One sentence about the package.
        license: The licence's identifier, or "none".
        author: A name, optionally with an address: `Ada Lovelace <ada@example.org>`.
        url: The address of the project.
    """

    class_name: str = ""
    suffix: str = ""
    scheme: str = ""
    summary: str = ""
    license: str = DEFAULT_LICENSE
    author: str = ""
    url: str = ""


def choose(name: str, arguments: argparse.Namespace, interactive: bool) -> Choices:
    """Return the choices that were given, or, in a terminal, asked for."""
    of_files = arguments.kind != "transform"
    questions = {
        "class_name": ("Name of the class", class_name(name, arguments.kind)),
        "suffix": ("Suffix of files", f".{name}" if of_files else ""),
        "scheme": ("Scheme of URIs", name if of_files else ""),
        "summary": ("One sentence about the package", SHAPES[arguments.kind].summary),
        "license": (f"Licence ({', '.join([*LICENSES, 'none'])})", DEFAULT_LICENSE),
        "author": ("Author, as `Name <email>`", ""),
        "url": ("Address of the project", ""),
    }
    answers = {}
    for field, (question, default) in questions.items():
        given = getattr(arguments, field)
        if field in ("suffix", "scheme") and not of_files:
            if given:
                raise CommandError(f"A transform has no {field}: leave out --{field}.")
            given = ""
        elif given is None and interactive:
            given = input(f"{question} [{default or 'none'}]: ").strip() or default
        answers[field] = default if given is None else given
    return _checked(Choices(**answers), of_files)


def _checked(choices: Choices, of_files: bool) -> Choices:
    patterns = {
        "class_name": (_CLASS, "a class name such as MyFormatDataSource"),
        "suffix": (_SUFFIX, "a dot and lower-case letters or digits, such as .myf"),
        "scheme": (_SCHEME, "lower-case letters, such as myf"),
        "summary": (_SUMMARY, "a sentence of at most 90 characters, without quotes"),
        "author": (_AUTHOR, "a name without backslashes, optionally followed by <address>"),
        "url": (_URL, "an address that starts with https://"),
    }
    for field, (pattern, expected) in patterns.items():
        value = getattr(choices, field)
        optional = field in ("author", "url") or (field in ("suffix", "scheme") and not of_files)
        if not (optional and not value) and not pattern.fullmatch(value):
            option = "class" if field == "class_name" else field
            raise CommandError(f"--{option} got {value!r}, expected {expected}.")
    if choices.class_name in OWN_NAMES:
        raise CommandError(f"{choices.class_name} is a name of grain itself: choose another one.")
    if choices.license not in (*LICENSES, "none"):
        known = ", ".join([*LICENSES, "none"])
        raise CommandError(f"--license got {choices.license!r}, expected one of {known}.")
    return choices


def clashes(name: str, kind: str, choices: Choices) -> list[str]:
    """Return a warning for each name of the new plugin that another plugin claims.

    The others are all installed plugins, and those that this project publishes, installed or not.
    """
    claims = {"class": choices.class_name or class_name(name, kind)}
    if kind != "transform":
        claims["suffix"] = choices.suffix or f".{name}"
        claims["scheme"] = choices.scheme or name
    with stdout_to_stderr():
        installed = default_manager().plugins()
    others: list[tuple[str, KnownPlugin | PluginSpec]] = [
        (known.distribution, known) for known in KNOWN_PLUGINS
    ]
    others += [
        (plugin.distribution or plugin.module, spec)
        for plugin in installed
        if plugin.name != name
        for spec in plugin.specs
    ]
    found = {
        (option, value, provider)
        for option, value in claims.items()
        for provider, other in others
        if value in _names_of(other)[option]
    }
    return [
        f"the {option} {value!r} belongs to {provider}, and where both plugins are installed it works"
        f" for neither: choose another with --{option}."
        for option, value, provider in sorted(found)
    ]


def _names_of(plugin: KnownPlugin | PluginSpec) -> dict[str, tuple[str, ...]]:
    return {"class": plugin.public_names, "suffix": plugin.suffixes, "scheme": plugin.schemes}


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


def render(name: str, kind: str, choices: Choices | None = None) -> dict[str, str]:
    """Return the files of a package: relative paths and contents."""
    shape = SHAPES[kind]
    choices = choices or Choices()
    module = f"grain_{name.replace('-', '_')}"
    words = {
        # First, since its replacement contains such words.
        "@USAGE@": _read(TEMPLATE / kind / "usage.md.txt"),
        "@NAME@": name,
        "@DISTRIBUTION@": f"grain-{name}",
        "@MODULE@": module,
        "@CLASS@": choices.class_name or class_name(name, kind),
        "@SUFFIX@": choices.suffix or f".{name}",
        "@SCHEME@": choices.scheme or name,
        **_publishing_words(choices, module, shape),
        "@FILE@": shape.file,
        "@SUMMARY@": choices.summary or shape.summary,
    }
    files = {}
    for folder in ("common", kind):
        for file in sorted((TEMPLATE / folder).rglob("*.txt")):
            if file.name == "usage.md.txt":
                continue
            path = file.relative_to(TEMPLATE / folder).as_posix().removesuffix(".txt")
            files[path.replace("src/package/", f"src/{module}/")] = _replaced(_read(file), words)
    if choices.license != "none":
        files["LICENSE"] = _replaced(_read(LICENSES[choices.license]), words)
    return files


def _publishing_words(choices: Choices, module: str, shape: Shape) -> dict[str, str]:
    """Return the words that make a package ready to be published."""
    license_, url = choices.license, choices.url.rstrip("/")
    found = _AUTHOR.fullmatch(choices.author)
    authors = ""
    if found:
        email = f', email = "{found["email"]}"' if found["email"] else ""
        quoted = found["name"].replace('"', '\\"')
        authors = f'authors = [{{ name = "{quoted}"{email} }}]\n'
    return {
        "@LICENSE-FIELDS@": ""
        if license_ == "none"
        else f'license = "{license_}"\nlicense-files = ["LICENSE"]\n',
        "@AUTHORS@": authors,
        "@URLS@": f'[project.urls]\nHomepage = "{url}"\nChangelog = "{url}/blob/main/CHANGELOG.md"\n\n'
        if url
        else "",
        "@FILES@": f"| `src/{module}/writer.py` | {shape.writer} |\n" if shape.writer else "",
        "@AUTHOR@": found["name"] if found else "the authors",
        "@YEAR@": time.strftime("%Y"),
    }


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
