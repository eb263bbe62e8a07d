"""A program that runs the code blocks of one Markdown page in order, in the current folder.

Usage: python run_page.py PAGE

A `python` block is run, or written to the file that its first line names. An `output` block is compared
with the output of the block before it. In a `console` block, `grain …` and programs of the page are run,
and the lines below a command are compared with its output. `...` matches any text. Prints the names of
missing libraries.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import linecache
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib
import traceback

from blocks import Block, PageError, blocks_of, needs_of

SET_UP = (
    "pip",
    "nox",
    "git",
    "cd",
    "source",
    "uv",
    "python -m pip",
    "python -m nox",
    "python -m venv",
    "python3 -m venv",
)
"""Commands that prepare an environment; other tests and sessions cover them."""
SHOWN_ONLY = ("", "text", "yaml", "none")


class Page:
    """A page whose blocks share one namespace, that of `__main__`."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.namespace = sys.modules["__main__"].__dict__
        self.printed: str | None = None
        self.missing: list[str] = []

    def run(self) -> None:
        self.missing = [name for name in needs_of(self.path) if is_missing(name)]
        if self.missing:
            return
        for block in blocks_of(self.path):
            try:
                self._run_block(block)
            except (Exception, SystemExit) as error:
                details = "" if isinstance(error, PageError) else f"\n{traceback.format_exc()}"
                raise PageError(f"{self.path.name}, line {block.line}: {error}{details}") from None

    def _run_block(self, block: Block) -> None:
        before, self.printed = self.printed, None
        if block.not_run is not None:
            return
        if block.needs is not None and is_missing(block.needs):
            self.missing.append(block.needs)
            return
        match block.language:
            case "python" if block.file is not None:
                file = pathlib.Path(block.file)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text)
                compile(block.text, block.file, "exec")
            case "python":
                self.printed = self._execute(block)
            case "output" if before is None:
                if not self.missing:
                    raise PageError("this output has no program that was run right before it.")
            case "output":
                compare(block.text, before)
            case "console":
                self._type(block)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case language if language in SHOWN_ONLY or language.startswith("{"):
                pass
            case language:
                raise PageError(f"cannot check a block of {language!r}.")

    def _execute(self, block: Block) -> str:
        # Line numbers of the page, so that a traceback shows the line that failed.
        name = str(self.path)
        linecache.cache[name] = (0, None, self.path.read_text().splitlines(True), name)
        code = compile("\n" * (block.line - 1) + block.text, name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.namespace)
        return printed.getvalue()

    def _type(self, block: Block) -> None:
        for command, shown in commands_of(block.text):
            if command.startswith(SET_UP):
                continue
            printed = run_command(command)
            if shown:
                compare(shown, printed)


def is_missing(library: str) -> bool:
    """Return whether a library is not installed."""
    return importlib.util.find_spec(library) is None


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output shown below it."""
    found: list[tuple[str, str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("  #")[0].strip(), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
        else:
            # README.md has commands without a prompt, to be copied.
            found.append((line, ""))
    return found


def run_command(command: str) -> str:
    """Run one of our commands and return its output; any other command is an error."""
    words = shlex.split(command)
    match words:
        case ["python", file, *_] if pathlib.Path(file).is_file():
            code, printed = run_program(words[1:])
        case ["grain", *_]:
            code, printed = run_grain(words[1:])
        case _:
            raise PageError(
                f"cannot check {command!r}: mark the block as not run, with the reason."
            )
    if code:
        raise PageError(f"{command!r} ended with {code}:\n{printed}")
    return printed


def run_program(words: list[str]) -> tuple[int, str]:
    """Run a program that the page wrote."""
    finished = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100)
    printed = finished.stdout
    return finished.returncode, printed + finished.stderr if finished.returncode else printed


def run_grain(words: list[str]) -> tuple[int, str]:
    """Run the `grain` command in this process, so that a page imports libraries once."""
    from grain.cli import main as grain_command

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            code = grain_command(words)
        except SystemExit as exit_:
            code = exit_.code
    return int(code or 0), printed.getvalue()


def compare(shown: str, printed: str) -> None:
    """Raise an error if the page shows other text than was printed; trailing blanks are ignored."""
    wanted, got = _lines(shown), _lines(printed)
    pattern = re.escape(wanted).replace(re.escape("..."), "(?s:.*?)")
    if not re.fullmatch(pattern, got):
        raise PageError(f"the page shows\n\n{wanted}\n\nbut the output is\n\n{got}\n")


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def main() -> int:
    page = Page(pathlib.Path(sys.argv[1]).resolve())
    # Programs that the page writes are imported from the current folder, as a user's are.
    sys.path[0] = os.getcwd()
    sys.argv = [""]
    try:
        page.run()
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"missing": sorted(set(page.missing))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
