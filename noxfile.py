"""Sessions of this repository: `nox --list` lists the main ones, `nox -s NAME` runs one."""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.sessions = ["tests"]

ROOT = pathlib.Path(__file__).parent
DIST = ROOT / "dist"
CORE = "grain-core"
# Has no modules: it satisfies other packages' requirements of the distribution `grain`.
ALIAS = "grain"
PLUGINS = sorted(
    file.parent.name
    for file in ROOT.glob("packages/*/pyproject.toml")
    if file.parent.name not in (CORE, ALIAS)
)
PACKAGES = [CORE, *PLUGINS]
# Ray takes hundreds of megabytes: sessions other than its own install its plugin without it, so that tests
# which need a cluster are skipped there.
RAY = "grain-ray"
LIGHT_PLUGINS = [name for name in PLUGINS if name != RAY]
EXAMPLES = sorted(file.parent for file in ROOT.glob("examples/*/pyproject.toml"))
SETTINGS = nox.project.load_toml(ROOT / "pyproject.toml")
PROJECT = nox.project.load_toml(ROOT / f"packages/{CORE}/pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)

RESULTS = ROOT / "tests/conformance_results"
# Kinds of `grain plugins new`: a folder of templates for each.
KINDS = sorted(
    folder.name
    for folder in ROOT.glob(f"packages/{CORE}/src/grain/cli/plugins/template/*")
    if folder.name != "common"
)

# Peers of benchmarks: a dependency group for each.
OURS = "grain"
PEERS = [
    group.removeprefix("bench-")
    for group in SETTINGS["dependency-groups"]
    if group.startswith("bench-")
]

# `nox --list` shows a session once, not each of its combinations.
LISTING = not {"-l", "--list", "--list-sessions"}.isdisjoint(sys.argv)

# Tests of `nox -s tests -- --quick`: what a change breaks first, without file formats and long-lived workers.
QUICK = [
    *(
        f"packages/{CORE}/tests/{name}"
        for name in ("core", "columnar", "index", "dataset", "loader")
    ),
    "tests/test_language.py",
    "tests/test_repository.py",
]

# Tests start many processes, each of which would otherwise compile all that it imports.
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": None}


# --- helpers -----------------------------------------------------------------------------------


def needs(group: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of the root `pyproject.toml`."""
    return nox.project.dependency_groups(SETTINGS, group)


def checkout(*names: str, extras: str = "") -> list[str]:
    """Return packages of this checkout as paths, core first and always included.

    All paths go into one install command, so that a distribution on the package index with the name
    grain-core is never installed in place of this one.
    """
    core = f"{ROOT}/packages/{CORE}" + (f"[{extras}]" if extras else "")
    return [core, *(f"{ROOT}/packages/{name}" for name in names if name != CORE)]


def module_of(name: str) -> str:
    """Return the import name of a distribution; the core's is `grain`."""
    return "grain" if name == CORE else name.replace("-", "_")


def built(name: str, kind: str) -> list[str]:
    """Return the files that `build` built of one package and of the core."""
    suffix = {"wheel": "-py3-none-any.whl", "sdist": ".tar.gz"}[kind]
    names = dict.fromkeys([CORE, name])
    return [str(file) for n in names for file in DIST.glob(f"{n.replace('-', '_')}-*{suffix}")]


def external_plugins() -> list[pathlib.Path]:
    """Return the folders of `-- --plugin PATH`, from which sessions are created."""
    given = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", action="append", default=[], type=pathlib.Path)
    return [path.resolve() for path in parser.parse_known_args(given)[0].plugin]


def wheel(session: nox.Session, folder: pathlib.Path) -> str:
    """Return a package as a wheel: from `dist/` if it is up to date, else built."""
    ours = folder.parent == ROOT / "packages"
    target = DIST if ours else pathlib.Path(session.create_tmp()).absolute() / "wheels"
    name = nox.project.load_toml(folder / "pyproject.toml")["project"]["name"]
    pattern = f"{re.sub('[-_.]+', '_', name).lower()}-*.whl"
    sources = [folder / "pyproject.toml", folder / "README.md", *folder.glob("src/**/*")]
    changed = max(f.stat().st_mtime for f in sources if "__pycache__" not in f.parts and f.exists())
    if not any(file.stat().st_mtime > changed for file in target.glob(pattern)):
        session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(target), str(folder))
    return str(max(target.glob(pattern), key=lambda file: file.stat().st_mtime))


def install_alone(session: nox.Session, folder: pathlib.Path, deps: str) -> None:
    """Install the wheels of one plugin and of the core, with the lowest or latest dependencies."""
    core = ROOT / "packages" / CORE
    wanted = [wheel(session, core), wheel(session, folder)]
    if deps == "lowest":
        # The lowest versions are taken only of requirements in the command, so it has all of them.
        for file in (core / "pyproject.toml", folder / "pyproject.toml"):
            lines = nox.project.load_toml(file)["project"]["dependencies"]
            wanted += [line for line in lines if not line.startswith(CORE)]
        wanted = ["--resolution", "lowest-direct", *wanted]
    session.install("--reinstall", *wanted)


def check_contract(session: nox.Session, folder: pathlib.Path, deps: str) -> None:
    """Run `grain conformance`; compare our plugins with the committed results."""
    project = nox.project.load_toml(folder / "pyproject.toml")["project"]
    names = project.get("entry-points", {}).get("grain.plugins", {})
    if not names:
        session.error(f"{folder} has no entry point in the group grain.plugins")
    for name in names:
        if folder in external_plugins():
            session.run("grain", "conformance", name, env=KEEP_BYTECODE)
        else:
            compare_results(session, name, deps)


def compare_results(session: nox.Session, name: str, deps: str) -> None:
    """Run `grain conformance`; fail on outcomes that differ from the committed ones, or replace them."""
    report = pathlib.Path(session.create_tmp()).absolute() / f"{name}.json"
    report.unlink(missing_ok=True)
    command = ["grain", "conformance", name, "--json", str(report)]
    output = session.run(*command, success_codes=[0, 1], silent=True, env=KEEP_BYTECODE)
    if not report.exists():
        session.error(f"`grain conformance {name}` wrote no report: {output}")
    record = RESULTS / name / f"{session.python}-{deps}.json"
    update = ["--update"] if "--update" in session.posargs else []
    tool = ["python", "tools/conformance_results.py"]
    session.run(*tool, "compare", str(report), str(record), *update)
    session.run(*tool, "page", *update)


def environment(session: nox.Session, name: str, *wanted: str) -> str:
    """Return the Python of an environment inside of the session's, which is kept with it."""
    folder = pathlib.Path(session.create_tmp()).absolute() / name
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    uv = session.venv_backend == "uv"
    if not pathlib.Path(python).exists():
        python_of_session = str(pathlib.Path(session.bin) / "python")
        make = (
            ["uv", "venv", "--quiet", "--python", python_of_session]
            if uv
            else ["python", "-m", "venv"]
        )
        session.run(*make, str(folder))
    install = (
        ["uv", "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    )
    session.run(*install, "--quiet", *wanted, external=True)
    return python


def revision_environment(session: nox.Session, revision: str) -> str:
    """Return the Python of an environment with one revision, installed from a `git worktree`."""
    packages = [CORE, "grain-arrayrecord", "grain-parquet"]
    if revision == ".":
        # As it is now, not as it was when the environment was created.
        return environment(
            session, "checkout", "--force-reinstall", *checkout(*packages), *needs(f"bench-{OURS}")
        )
    parse = ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"]
    commit = str(session.run(*parse, external=True, silent=True, stderr=None)).strip()
    session.log(f"{revision} is {commit}")
    worktree = pathlib.Path(session.create_tmp()).absolute() / f"worktree-{commit}"
    session.run(
        "git", "worktree", "add", "--force", "--detach", str(worktree), commit, external=True
    )
    try:
        folders = [str(worktree / "packages" / name) for name in packages]
        return environment(session, commit, *folders, *needs(f"bench-{OURS}"))
    finally:
        session.run("git", "worktree", "remove", "--force", str(worktree), external=True)


def install_everything(session: nox.Session, group: str) -> None:
    """Install all packages with all extras, the example plugins, and a dependency group."""
    session.install(*checkout(*LIGHT_PLUGINS, extras="all"), *map(str, EXAMPLES), *needs(group))
    session.install("--no-deps", f"{ROOT}/packages/{RAY}")
    session.run("python", "tools/check_install.py", *PACKAGES)


def run_tests(session: nox.Session) -> None:
    """Run all tests and the examples in docstrings, or the tests after `--` on the command line."""
    install_everything(session, "test")
    workers = str(min(4, os.cpu_count() or 1))
    if session.posargs == ["--quick"]:
        parallel = ["-n", workers, "--dist", "worksteal"]
        session.run("pytest", *parallel, "-q", *QUICK, env=KEEP_BYTECODE)
        return
    if session.posargs:
        session.run("pytest", *session.posargs, env=KEEP_BYTECODE)
        return
    session.run("pytest", "-n", workers, "--dist", "worksteal", env=KEEP_BYTECODE)
    modules = map(module_of, PACKAGES)
    session.run("pytest", "--doctest-modules", "--pyargs", *modules, env=KEEP_BYTECODE)


def run_alone(session: nox.Session, *arguments: str, env: dict[str, str | None]) -> None:
    """Run pytest where only processes of this machine can connect: Ray listens on all interfaces.

    A network namespace needs root; without it, the clusters of tests are protected by their token only.
    """
    command = ["pytest", *arguments]
    if (
        sys.platform == "linux"
        and os.geteuid() == 0
        and shutil.which("unshare")
        and shutil.which("ip")
    ):
        inside = 'ip link set lo up && exec "$@"'
        pytest = str(pathlib.Path(session.bin) / "pytest")
        command = ["unshare", "--net", "sh", "-c", inside, "sh", pytest, *arguments]
    session.run(*command, env=env, external=True)


CHECKED = {
    folder.name: folder
    for folder in external_plugins()
    or [*(ROOT / "packages" / name for name in LIGHT_PLUGINS), *EXAMPLES]
}


def each(name: str, values: list[str]) -> Callable[[Any], Any]:
    """Return `nox.parametrize`, or nothing where sessions are listed."""
    return (lambda session: session) if LISTING else nox.parametrize(name, values)


def unlisted(session: Callable[..., None], **options: Any) -> Any:
    """Register a session for one subject, which `nox --list` leaves out; CONTRIBUTING.md has them all."""
    return session if LISTING else nox.session(default=False, **options)(session)


def pythons() -> list[str] | None:
    """Return the supported versions of Python, or nothing where sessions are listed."""
    return None if LISTING else PYTHONS


# --- sessions ----------------------------------------------------------------------------------


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests on the Python that runs nox; `-- --quick` for the most important ones."""
    run_tests(session)


@nox.session(python=pythons())
def matrix(session: nox.Session) -> None:
    """Run all tests on every supported Python; `matrix-3.12` for one of them."""
    run_tests(session)


@nox.session
def lint(session: nox.Session) -> None:
    """Check lint rules, format and import layers; `nox -s lint -- --fix` fixes what it can."""
    session.install(*needs("lint"))
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("ruff", "format", *([] if fix else ["--check"]))
    sources = os.pathsep.join(f"{ROOT}/packages/{name}/src" for name in PACKAGES)
    session.run("lint-imports", env={"PYTHONPATH": sources})


@nox.session
def typing(session: nox.Session) -> None:
    """Run the type checker over the sources of all packages and example plugins."""
    install_everything(session, "typing")
    sources = [*(f"packages/{name}/src" for name in PACKAGES), *(f"{e}/src" for e in EXAMPLES)]
    session.run("mypy", *(session.posargs or sources))
    if not session.posargs:
        session.run("mypy", "tests/typing/inference.py")


@nox.session
def demo(session: nox.Session) -> None:
    """Run the demo: iterate, stop, resume in a fresh process, compare."""
    session.install(*checkout())
    session.run("python", "examples/demo.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages into `docs/_build/html` and run all of their code; `-- --html-only` runs none.

    `-- --pictures` first takes the pictures of a pipeline's page again, in an installed Chromium.
    """
    install_everything(session, "docs")
    if "--pictures" in session.posargs:
        session.posargs.remove("--pictures")
        session.run("python", "tools/page_pictures.py")
    pages = ROOT / "docs/_build"
    shutil.rmtree(pages, ignore_errors=True)
    session.run("sphinx-build", "-q", "-W", "--keep-going", "docs", str(pages / "html"))
    session.log(f"Open {pages / 'html' / 'index.html'}")
    if session.posargs == ["--html-only"]:
        return
    env = KEEP_BYTECODE | {"GRAIN_DOCS": "everything"}
    session.run("pytest", *(session.posargs or ["tests/docs"]), env=env)


@nox.session
def build(session: nox.Session) -> None:
    """Build and check all packages in `dist/`, then try each in a fresh environment."""
    session.install(*needs("build"))
    shutil.rmtree(DIST, ignore_errors=True)
    for name in [*PACKAGES, ALIAS]:
        with session.chdir(ROOT / "packages" / name):
            session.run("hatchling", "build", "--directory", str(DIST))
    session.run("twine", "check", "--strict", *(str(file) for file in sorted(DIST.iterdir())))
    session.run("python", "tools/check_release.py", "--dist", str(DIST), *session.posargs)
    for name in PACKAGES:
        for kind in ("wheel", "sdist"):
            session.notify(f"install(name='{name}', kind='{kind}')")


@unlisted
@each("kind", ["wheel", "sdist"])
@each("name", PACKAGES)
def install(session: nox.Session, name: str, kind: str) -> None:
    """Try one built package and the core in a fresh environment (after `build`)."""
    files = built(name, kind)
    if not files:
        session.error(f"dist/ holds no {kind} of {name}: run `nox -s build` first.")
    session.install(*files)
    session.run("python", "tools/check_install.py", *dict.fromkeys([CORE, name]))
    session.run("python", "tools/smoke.py", name)


@unlisted
@each("name", PACKAGES)
def isolation(session: nox.Session, name: str) -> None:
    """Check that one package and the core, from wheels, work with only their dependencies."""
    if not built(name, "wheel"):
        session.error("dist/ holds no wheels: run `nox -s build` first.")
    session.install(*built(name, "wheel"))
    session.run("python", "tools/check_isolation.py", name)


@nox.session(python=pythons())
@each("deps", ["lowest", "latest"])
@each("plugin", list(CHECKED))
def conformance(session: nox.Session, plugin: str, deps: str) -> None:
    """Check one plugin and the core, from wheels, by the conformance kit.

    `-- --update` replaces the committed results; `-- --plugin PATH` checks another plugin instead.
    """
    if not (CHECKED[plugin] / "pyproject.toml").is_file():
        session.error(f"{CHECKED[plugin]} is not a package: it has no pyproject.toml")
    install_alone(session, CHECKED[plugin], deps)
    check_contract(session, CHECKED[plugin], deps)


@unlisted
def walkthrough(session: nox.Session) -> None:
    """Follow the page about a plugin for SQLite, outside of the checkout, with the core from a wheel."""
    core = wheel(session, ROOT / "packages" / CORE)
    session.install("--reinstall", core, "build", "nox", "pytest", "uv")
    with tempfile.TemporaryDirectory(prefix="grain-walkthrough-") as temporary:
        with session.chdir(temporary):
            page = [f"{ROOT}/tests/docs/run_page.py", f"{ROOT}/docs/writing-plugins-sqlite.md"]
            session.run("python", *page, env=KEEP_BYTECODE)
            session.install("-e", "grain-sqlite")
        with session.chdir(f"{temporary}/grain-sqlite"):
            session.run("grain", "conformance", "sqlite", env=KEEP_BYTECODE)
            session.run("nox", "-s", "tests", env=KEEP_BYTECODE)
            session.run("nox", "-s", "matrix", "--", *session.posargs, env=KEEP_BYTECODE)
            session.run("python", "-m", "build", "--wheel")


@nox.session(python=pythons())
@each("deps", ["lowest", "latest"])
@each("kind", KINDS)
def scaffold(session: nox.Session, kind: str, deps: str) -> None:
    """Create a plugin by `grain plugins new` and check it by the conformance kit."""
    session.install("--reinstall", wheel(session, ROOT / "packages" / CORE))
    folder = pathlib.Path(session.create_tmp()).absolute() / f"grain-new-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    with session.chdir(folder.parent):
        session.run("grain", "plugins", "new", f"new-{kind}", "--kind", kind)
    install_alone(session, folder, deps)
    check_contract(session, folder, deps)
    session.log(f"From nothing to a conforming plugin: {time.monotonic() - started:.1f} seconds.")


@unlisted
def foreign_core(session: nox.Session) -> None:
    """Check that a plugin alone refuses the grain-core of the package index."""
    for name in PLUGINS:
        session.install(f"{ROOT}/packages/{name}", success_codes=[1], silent=True)
        session.run("python", "-c", "import grain", success_codes=[1], silent=True)


@unlisted
def import_time(session: nox.Session) -> None:
    """Check that importing grain takes at most 1.5 times `import numpy` and loads nothing heavy."""
    session.install(*checkout(*LIGHT_PLUGINS, extras="all"))
    session.install("--no-deps", f"{ROOT}/packages/{RAY}")
    session.run("python", "tools/import_time.py", *session.posargs)


@nox.session
def parity(session: nox.Session) -> None:
    """Compare this project with the recorded facts, and the recorded facts with the reference."""
    session.install(*checkout(*LIGHT_PLUGINS), *needs("test"))
    session.run("pytest", *(session.posargs or ["tests/parity"]), env=KEEP_BYTECODE)
    # Both have the import name `grain`, so the reference has a separate environment.
    reference = pathlib.Path(session.create_tmp()).absolute() / "reference"
    session.run("python", "-m", "venv", "--clear", str(reference))
    python = str(reference / ("Scripts" if os.name == "nt" else "bin") / "python")
    session.run(python, "-m", "pip", "install", "--quiet", *needs("reference"), external=True)
    with session.chdir(ROOT / "tests"):
        session.run(python, "-m", "parity.record", "--compare", external=True)


@nox.session
def checkpoints(session: nox.Session) -> None:
    """Restore checkpoints of the reference here, and checkpoints of this project there."""
    extras = PROJECT["project"]["optional-dependencies"]
    session.install(*checkout(extras="jax,orbax"))
    # Both have the import name `grain`, so the reference has a separate environment.
    temporary = pathlib.Path(session.create_tmp()).absolute()
    reference = temporary / "reference"
    session.run("python", "-m", "venv", "--clear", str(reference))
    there = str(reference / ("Scripts" if os.name == "nt" else "bin") / "python")
    needed = [*needs("reference"), *extras["orbax"]]
    session.run(there, "-m", "pip", "install", "--quiet", *needed, external=True)
    for writer, reader in ((there, "python"), ("python", there)):
        folder = temporary / "checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for python, action in ((writer, "write"), (reader, "restore")):
            session.run(python, "tools/cross_restore.py", action, str(folder), external=True)


@nox.session(python=pythons())
@each("installer", ["pip", "uv"])
def packaging(session: nox.Session, installer: str) -> None:
    """Install packages that require the distribution `grain` over this project, and check what holds."""
    session.install("packaging>=24", "uv")
    wheels = [wheel(session, ROOT / "packages" / name) for name in (CORE, ALIAS)]
    session.run("python", "tools/check_packaging.py", installer, *wheels, *session.posargs)


@unlisted
def fuzz(session: nox.Session) -> None:
    """Compare random programs with the reference; `-- --seconds 3600 --seed 7` for longer."""
    session.install(*checkout(), *needs("test"))
    python = environment(session, "reference", *needs("reference"))
    session.run("python", "-m", "tests.parity.fuzz", "--reference", python, *session.posargs)


@unlisted
def clients(session: nox.Session) -> None:
    """Run programs as other projects write them, here and on the reference, and compare their output."""
    needed = needs("clients")
    session.install(*checkout(ALIAS, "grain-arrayrecord", "grain-tfds"), *needed)
    python = environment(session, "reference", *needs("reference"), *needed)
    session.run("python", "tools/clients.py", "--reference", python, *session.posargs)


@nox.session
def ray(session: nox.Session) -> None:
    """Run the tests of grain-ray with Ray, on clusters on this machine; arguments for pytest follow `--`."""
    session.install(*checkout(RAY), *needs("test"))
    session.run("python", "tools/check_install.py", CORE, RAY)
    arguments = session.posargs or [f"packages/{RAY}/tests"]
    run_alone(session, *arguments, env=KEEP_BYTECODE | {"GRAIN_RAY": "everything"})


@unlisted
def chaos_ray(session: nox.Session) -> None:
    """Kill actors, nodes and the head of Ray clusters under pipelines; GRAIN_CHAOS_SECONDS=20 for less."""
    session.install(*checkout(RAY), *needs("test"))
    arguments = ["-s", *(session.posargs or [f"packages/{RAY}/tests/test_chaos_ray.py"])]
    run_alone(session, *arguments, env=KEEP_BYTECODE | {"GRAIN_RAY": "chaos"})


@unlisted
def browser(session: nox.Session) -> None:
    """Test the page of a pipeline in an installed Chromium: layout, colours, keyboard, live updates."""
    session.install(*checkout(*PLUGINS), *needs("test"))
    env = KEEP_BYTECODE | {"GRAIN_BROWSER": "1"}
    session.run("pytest", *(session.posargs or ["tests/browser"]), env=env)


@unlisted
def simulate(session: nox.Session) -> None:
    """Play 10,000 seeded schedules of worker sessions in virtual time; `-- --seeds 500` for fewer."""
    session.install(*checkout(*PLUGINS), *needs("test"))
    session.run("python", "-m", "tests.faults.simulation", *session.posargs, env=KEEP_BYTECODE)


@nox.session
def soak(session: nox.Session) -> None:
    """Run worker processes for ten minutes and check for leaks; `-- --seconds 60` for less."""
    session.install(*checkout())
    session.run("python", "-W", "error", "tools/soak.py", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def bottlenecks(session: nox.Session) -> None:
    """Measure pipelines with planted bottlenecks: the verdict names them; `-- --seconds 5`."""
    session.install(*checkout())
    session.run("python", "tools/bottlenecks.py", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def compare(session: nox.Session) -> None:
    """Compare two commits by processor time: `-- --base HEAD~1 --head HEAD` (`.`: the checkout)."""
    session.install(*needs("bench"))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--base", default="HEAD~1")
    parser.add_argument("--head", default="HEAD")
    revisions, rest = parser.parse_known_args(session.posargs)
    pythons = []
    for name, revision in vars(revisions).items():
        pythons += [f"--{name}", revision_environment(session, revision)]
    session.run("python", "-m", "benchmarks.compare", *pythons, *rest, env=KEEP_BYTECODE)


@nox.session
def chaos(session: nox.Session) -> None:
    """Kill a random worker every 200 ms for a minute; compare every element and state (`-- --seconds N`)."""
    install_everything(session, "test")
    session.run("python", "-m", "tests.faults.chaos", *session.posargs, env=KEEP_BYTECODE)


@nox.session
def faults(session: nox.Session) -> None:
    """Try to break the library at length, and write docs/reliability.md; `-- --scale 0.01` for a look."""
    session.install(*checkout(*LIGHT_PLUGINS), str(ROOT / "examples/grain-jsonl"), *needs("test"))
    session.run("python", "tools/faults.py", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def detection(session: nox.Session) -> None:
    """Measure how often checks catch faulty subjects, and write the page; `-- --only TEXT` for some."""
    session.install(*checkout(), *needs("test"))
    session.run("python", "tools/detection.py", "run", *session.posargs, env=KEEP_BYTECODE)
    session.run("python", "tools/detection.py", "page")


@functools.partial(unlisted, venv_backend="venv")
def thirdparty(session: nox.Session) -> None:
    """Run the conformance checks on sources of other libraries, and explain the failures.

    By pip, whose settings decide which build of a library is installed. Sources of a library that
    cannot be installed are shown as not run.
    """
    session.install(*checkout(ALIAS))
    for requirement in needs("thirdparty"):
        session.install(requirement, success_codes=[0, 1])
    session.run("python", "tools/thirdparty.py", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def growth(session: nox.Session) -> None:
    """Measure how costs grow with each quantity of a pipeline; `-- --quick`, `-- --axes A,B`."""
    session.install(*checkout("grain-arrayrecord"), *needs("bench"))
    session.run("python", "-m", "benchmarks.growth", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def wide(session: nox.Session) -> None:
    """Run small programs over the whole API on this project and google/grain; `-- --programs A,B*`."""
    session.install(*needs("bench"))
    found = []
    for peer in (OURS, "google-grain"):
        ours = ["--force-reinstall", *checkout()] if peer == OURS else []
        python = environment(session, peer, *ours, *needs(f"bench-{peer}"))
        found += ["--python", f"{peer}={python}"]
    session.run("python", "-m", "benchmarks.wide", *found, *session.posargs, env=KEEP_BYTECODE)


@unlisted
def observation_cost(session: nox.Session) -> None:
    """Measure pipelines with and without observation; `-- --publish` writes the table."""
    session.install(*checkout(), *needs("bench"))
    session.run("python", "-m", "benchmarks.observation_cost", *session.posargs, env=KEEP_BYTECODE)


@unlisted
def training(session: nox.Session) -> None:
    """Train with JAX, fed by this project and its peers; `-- --publish` writes the table."""
    session.install(*needs("bench"))
    found = []
    for peer in (OURS, "google-grain", "torch", "datasets"):
        ours = ["--force-reinstall", *checkout()] if peer == OURS else []
        python = environment(session, peer, *ours, *needs(f"bench-{peer}"), "jax>=0.4.34")
        found += ["--python", f"{peer}={python}"]
    session.run("python", "-m", "benchmarks.training", *found, *session.posargs, env=KEEP_BYTECODE)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure this project and its peers; `-- --quick` for a first look, `-- --help` for options."""
    session.install(*needs("bench"))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--peers", type=lambda text: set(re.split(r"[, ]+", text)), default=set(PEERS)
    )
    selected = parser.parse_known_args(session.posargs)[0].peers | {OURS}
    found = []
    for peer in PEERS if not {"--help", "-h", "--render"} & set(session.posargs) else ():
        # This project as it is now, not as it was when the environment was created.
        path = ["--force-reinstall", *checkout("grain-arrayrecord", "grain-parquet")]
        ours = path if peer == OURS else []
        try:
            if peer in selected:
                python = environment(session, peer, *ours, *needs(f"bench-{peer}"))
                found += ["--python", f"{peer}={python}"]
        except nox.command.CommandFailed:
            # A peer that cannot be installed is reported as failed.
            found += ["--absent", f"{peer}=could not be installed"]
    session.run("python", "-m", "benchmarks", *found, *session.posargs, env=KEEP_BYTECODE)
