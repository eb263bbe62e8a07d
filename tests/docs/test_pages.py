"""Every code block of the documentation runs and prints what the page shows, in page order."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
RUNNER = pathlib.Path(__file__).parent / "run_page.py"
PAGES = [
    ROOT / "README.md",
    ROOT / "packages/grain-core/README.md",
    *sorted(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts),
]
WITH_CODE = [page for page in PAGES if "```" in page.read_text(encoding="utf-8")]
EVERYTHING = os.environ.get("GRAIN_DOCS") == "everything"
"""Whether missing libraries are failures, as in the session that builds the pages."""


TOO_LARGE = {"torch"}
"""Libraries that no session installs for the pages alone; their blocks run where they are installed."""


def run_page(page: pathlib.Path, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), str(page)]
    # Pages create temporary folders, which their readers may want to look at.
    with tempfile.TemporaryDirectory() as temporary:
        settings = {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "TMPDIR": temporary}
        return subprocess.run(
            command,
            cwd=folder,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=110,
        )


def page_of(folder: pathlib.Path, text: str) -> pathlib.Path:
    page = folder / "page.md"
    page.write_text(textwrap.dedent(text))
    return page


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in WITH_CODE]
)
def test_the_code_of_a_page_runs(page, tmp_path):
    finished = run_page(page, tmp_path)
    assert finished.returncode == 0, finished.stderr
    missing = set(json.loads(finished.stdout.splitlines()[-1])["missing"])
    if missing and (not EVERYTHING or missing <= TOO_LARGE):
        pytest.skip(f"the other blocks ran; missing: {', '.join(sorted(missing))}")
    assert not missing


def test_the_pictures_are_up_to_date():
    finished = subprocess.run(
        [sys.executable, "-c", "import draw, json; print(json.dumps(dict(draw.drawn())))"],
        cwd=ROOT / "docs/pictures",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    drawn = json.loads(finished.stdout)
    kept = {file.name: file.read_text() for file in ROOT.glob("docs/pictures/*.svg")}
    assert kept == drawn, "run `python docs/pictures/draw.py`"


FAULTY = {
    "raises": ("```python\nx = 1\nraise ValueError(x)\n```\n", "page.md, line 2"),
    "uses an undefined name": ("```python\nprint(never_made)\n```\n", "NameError"),
    "prints something else": (
        "```python\nprint(1)\n```\n\n```output\n2\n```\n",
        "but the output is",
    ),
    "shows output without a program": ("```output\n2\n```\n", "no program"),
    "has a command that fails": ("```console\n$ grain nonsense\n```\n", "ended with"),
    "has a command with other output": (
        "```python\n# say.py\nprint('this')\n```\n\n```console\n$ python say.py\nthat\n```\n",
        "but the output is",
    ),
    "has an unknown command": ("```console\n$ rm -r /data\n```\n", "cannot check"),
    "has an unknown language": ("```perl\nprint\n```\n", "cannot check a block"),
    "has broken toml": ("```toml\n[x\n```\n", "page.md, line 2"),
    "does not close a fence": ("```python\nx = 1\n", "never closed"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_page_fails_that(fault, tmp_path):
    text, message = FAULTY[fault]
    finished = run_page(page_of(tmp_path, text), tmp_path)
    assert finished.returncode == 1
    assert message in finished.stderr


def test_blocks_share_names_and_files_and_can_be_excluded_with_a_reason(tmp_path):
    page = page_of(
        tmp_path,
        """
        ```python
        x = [1, 2]
        ```
        1. Indented in a list:

           ```python
           for each in x:
               print(each)
           ```

           ```output
           1
           ...
           ```

        ```python
        # tool.py
        print("a tool")
        ```

        ```console
        $ pip install something
        $ python tool.py
        a tool
        ```

        <!-- not run: it would never end -->
        ```python
        while True: ...
        ```

        <!-- needs: a_library_that_is_nowhere -->
        ```python
        import a_library_that_is_nowhere
        ```
        """,
    )
    finished = run_page(page, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {"missing": ["a_library_that_is_nowhere"]}


def test_a_page_that_needs_a_missing_library_is_not_run(tmp_path):
    page = page_of(
        tmp_path,
        """
        <!-- this page needs: numpy, a_library_that_is_nowhere -->
        ```python
        raise ValueError("run all the same")
        ```
        """,
    )
    finished = run_page(page, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {"missing": ["a_library_that_is_nowhere"]}
