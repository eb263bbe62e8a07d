"""The cells of the tutorial run in order, in a kernel's way: one namespace, pictures drawn to memory."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

TUTORIAL = pathlib.Path(__file__).parents[2] / "docs/tutorial.md"


def test_the_cells_of_the_tutorial_run_and_resume_gives_equal_bytes(tmp_path):
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert len(cells) >= 7
    program = tmp_path / "tutorial.py"
    program.write_text("\n".join(["import matplotlib", "matplotlib.use('svg')", *cells]))
    finished = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert finished.returncode == 0, finished.stderr
    assert "equal bytes: True" in finished.stdout
    right, total = map(int, re.findall(r"(\d+) of (\d+)", finished.stdout)[-1])
    assert total == 80
    assert right > 60
