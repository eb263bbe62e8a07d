"""Check that the distribution `grain` of this project holds where other packages require `grain`.

Usage: python tools/check_packaging.py pip|uv CORE_WHEEL ALIAS_WHEEL

Small packages that require `grain` in different ways are built and installed over this project, in fresh
environments. After each installation the environment is consistent and `import grain` is this project's.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

SATISFIED = ("grain", "grain>=0.2.15", "grain==0.2.18", "grain~=0.2.11", "grain[parquet]>=0.2.12")
PINNED = "grain==0.2.11"


def write_wheel(folder: pathlib.Path, name: str, requires: str) -> str:
    """Write a wheel of an empty package that requires something; return its path."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(content)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return str(wheel)


class Environment:
    """A fresh environment with this project's two wheels."""

    def __init__(self, folder: pathlib.Path, installer: str, wheels: list[str]):
        self._installer = installer
        make = ["uv", "venv", "--quiet"] if installer == "uv" else [sys.executable, "-m", "venv"]
        extra = ["--python", sys.executable] if installer == "uv" else []
        subprocess.run([*make, *extra, str(folder)], check=True)
        self.python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
        self.install(*wheels)

    def install(self, *wanted: str) -> None:
        """Install requirements with the installer."""
        subprocess.run([*self._command("install"), "--quiet", *wanted], check=True)

    def fails_to_install(self, *wanted: str) -> bool:
        """Return whether the installer refuses requirements."""
        command = [*self._command("install"), "--quiet", *wanted]
        return subprocess.run(command, capture_output=True, check=False).returncode != 0

    def _command(self, action: str) -> list[str]:
        if self._installer == "uv":
            return ["uv", "pip", action, "--python", self.python]
        return [self.python, "-m", "pip", action, "--disable-pip-version-check"]

    def faults(self, *, consistent: bool = True) -> list[str]:
        """Return what is wrong: the wrong `import grain`, a wrong version, an inconsistent environment."""
        program = (
            "import grain, importlib.metadata as m;"
            "print(m.version('grain'), m.version('grain-core') == grain.__version__,"
            " sum(grain.MapDataset.range(4)))"
        )
        found = subprocess.run(
            [self.python, "-c", program], capture_output=True, text=True, check=False
        )
        wrong = []
        if found.stdout.strip() != "0.2.18+local True 6":
            wrong.append(f"import grain: {found.stdout.strip()} {found.stderr.strip()[-200:]}")
        check = subprocess.run(self._command("check"), capture_output=True, text=True, check=False)
        if consistent and check.returncode:
            wrong.append(f"check: {(check.stdout + check.stderr).strip()[-300:]}")
        return wrong


def main(installer: str, core: str, alias: str) -> int:
    """Run every scenario; return how many failed."""
    wheels = [str(pathlib.Path(wheel).resolve()) for wheel in (core, alias)]
    failed = 0

    def report(what: str, wrong: list[str]) -> None:
        nonlocal failed
        failed += bool(wrong)
        print(f"{installer}: {what}: {'; '.join(wrong) or 'ok'}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        environment = Environment(folder / "satisfied", installer, wheels)
        report("installed", environment.faults())
        for number, requirement in enumerate(SATISFIED[:4]):
            environment.install(write_wheel(folder, f"needs{number}", requirement))
            report(f"a package that requires {requirement}", environment.faults())
        upgrade = ["--upgrade", write_wheel(folder, "needs0", SATISFIED[0])]
        if installer == "pip":
            upgrade = ["--upgrade-strategy", "eager", *upgrade]
        environment.install(*upgrade)
        report("an upgrade of everything", environment.faults())
        pinned = write_wheel(folder, "pins", PINNED)
        url = pathlib.Path(wheels[1]).as_uri()
        if installer == "uv":
            overrides = folder / "overrides.txt"
            overrides.write_text(f"grain @ {url}\n")
            environment.install("--override", str(overrides), pinned)
            report(
                f"a package that pins {PINNED}, with an override",
                environment.faults(consistent=False),
            )
        else:
            constraints = folder / "constraints.txt"
            constraints.write_text(f"grain @ {url}\n")
            refused = environment.fails_to_install("--constraint", str(constraints), pinned)
            wrong = [] if refused else ["was installed"]
            report(
                f"a package that pins {PINNED} is refused with a constraint",
                wrong + environment.faults(),
            )
            environment.install("--no-deps", pinned)
            report("the same without its dependencies", environment.faults(consistent=False))
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
