"""The report: a table of ratios as text, and the page of the documentation, both from results alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks import cases, peers, summary
from benchmarks.cases import Case
from benchmarks.results import Results
from benchmarks.summary import Comparison, Spread

PLOTS = "_static/benchmarks"

HEAD = """\
# Benchmarks

The same work done by this project and by its peers, side by side on one machine, in one run. This page
is written by `nox -s bench -- --publish` from `benchmarks/results.json`; nothing on it is chosen by
hand, and what was lost is shown as what was won.
"""

HOW_TO_RUN = """\
## Run it yourself

```console
python -m pip install "nox[uv]"
nox -s bench
```

| command | does |
| --- | --- |
| `nox -s bench` | all cases, all peers, several repetitions of each |
| `nox -s bench -- --quick` | fewer and shorter repetitions; a first look |
| `nox -s bench -- --cases heavy_mp2,import --peers torch` | some of it; this project always takes part |
| `nox -s bench -- --publish` | writes this page, its plots and `benchmarks/results.json` anew |

Each peer gets an environment of its own. Results go to `build/bench/`: `results.json`, `table.md` and the
plots. A quiet machine matters more than a fast one.
"""

HOW_TO_READ = """\
## How to read it

- Each case is a pipeline, the same for all: `benchmarks/cases.py` says what it is, `benchmarks/peers/`
  how each peer writes it. The first outputs are checked: a program that does something else is an
  error, not a result.
- The peers take turns: this project, the next, the next, and again from the start, {repetitions} times
  ({worker_repetitions} times with worker processes; less often where a case takes long). A pipeline is
  made anew each time, its first outputs and a warm-up are dropped, then it is measured for {seconds}
  seconds, or longer if it gives little.
- *Value* is this project's median, with its range in parentheses. A *ratio* compares the values of one
  turn; the table has the median ratio and its range. **Above 1, this project is better**, whether more
  is better (a rate) or less is (seconds, memory). Bold marks what was lost. If the range has 1 in it,
  take it for a draw.
- — is a case that the peer has no counterpart for, *failed* one that it has, but could not do here.
- Memory is the proportional set size of all processes that a pipeline has started, divided by the
  number of workers.
"""


def number(value: float) -> str:
    """Three digits that matter, with thousands as people write them."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}".replace(",", " ")
    return f"{value:.3g}"


def times(ratio: Spread) -> str:
    """A ratio with its range."""
    median, low, high = (short(x) for x in (ratio.median, ratio.low, ratio.high))
    text = f"{median} ({low} to {high})"
    return f"**{text}**" if ratio.median < 1 else text


def short(value: float) -> str:
    """Two digits that matter, never in powers of ten."""
    return f"{float(f'{value:.2g}'):g}" if value < 1e5 else f"{value:.0f}"


def cell(results: Results, case: str, peer: str, found: dict[tuple[str, str], Comparison]) -> str:
    """What the table says of one peer in one case."""
    if (case, peer) in found:
        return times(found[case, peer].ratio)
    outcome = results.find(case, peer)
    return "*failed*" if outcome is not None and outcome.failed is not None else "—"


def value(results: Results, case: Case) -> str:
    """What this project reached."""
    outcome = results.find(case.name, peers.OURS)
    if outcome is None or not outcome.values:
        return "*failed*"
    of = summary.spread(outcome.values)
    return f"{number(of.median)} {case.unit} ({number(of.low)} to {number(of.high)})"


def table(results: Results, group: str) -> str:
    """The cases of one group, a line each."""
    others = [peer for peer in results.peers() if peer != peers.OURS]
    found = {(c.case, c.peer): c for c in summary.compare(results)}
    lines = [
        "| case | value | " + " | ".join(peers.BY_NAME[peer].title for peer in others) + " |",
        "| --- | --- |" + " --- |" * len(others),
    ]
    for name in results.cases():
        case = cases.BY_NAME[name]
        if case.group == group:
            cells = [cell(results, name, peer, found) for peer in others]
            first = f"`{name}`<br>{case.summary}"
            lines.append(f"| {first} | {value(results, case)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def tables(results: Results) -> Iterator[str]:
    """All groups, each under its name."""
    measured = {cases.BY_NAME[name].group for name in results.cases()}
    for group in cases.GROUPS:
        if group in measured:
            yield f"### {group}\n\n{table(results, group)}"


def losses(results: Results) -> str:
    """Where a peer did better, worst first."""
    lost = sorted((c for c in summary.compare(results) if c.lost), key=lambda c: c.ratio.median)
    if not lost:
        return "In no case of this run did a peer do better in the median.\n"
    lines = ["| case | peer | ratio | |", "| --- | --- | --- | --- |"]
    for c in lost:
        title = peers.BY_NAME[c.peer].title
        agreed = "every repetition" if c.clear else "within the spread"
        if c.turns == 1:
            agreed = "one repetition"
        lines.append(f"| `{c.case}` | {title} | {times(c.ratio)} | {agreed} |")
    return "\n".join(lines) + "\n"


def failures(results: Results) -> str:
    """What could not be done, and why."""
    failed = [outcome for outcome in results.outcomes if outcome.failed is not None]
    if not failed:
        return "Nothing failed.\n"
    lines = ["| case | peer | what it said |", "| --- | --- | --- |"]
    for o in failed:
        lines.append(f"| `{o.case}` | {peers.BY_NAME[o.peer].title} | {plain(o.failed or '')} |")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Words of an error that mean nothing to Markdown, as code."""
    return "`" + re.sub(r"[`|\n]", " ", text).strip() + "`"


def machine(results: Results) -> str:
    """What it ran on."""
    lines = ["| | |", "| --- | --- |"]
    lines += [f"| {name} | {text} |" for name, text in results.machine.items()]
    for name in results.peers():
        told = results.versions.get(name, {})
        versions = ", ".join(f"{key} {version}" for key, version in told.items())
        lines.append(f"| {peers.BY_NAME[name].title} | {versions or 'not installed'} |")
    return "\n".join(lines) + "\n"


def notes(results: Results) -> str:
    """How each peer's programs are written, and what they leave out for which reason."""
    lines = []
    for name in results.peers():
        peer = peers.BY_NAME[name]
        lacking: dict[str, list[str]] = {}
        for outcome in results.outcomes:
            if outcome.peer == name and outcome.lacks is not None:
                lacking.setdefault(outcome.lacks, []).append(f"`{outcome.case}`")
        if peer.notes or lacking:
            lines.append(f"- **{peer.title}**. {peer.notes}".rstrip())
        lines += [f"  - {', '.join(named)}: {reason}." for reason, named in lacking.items()]
    return "\n".join(lines) + "\n"


def text_report(results: Results) -> str:
    """The tables alone, for a terminal or a file beside the results."""
    parts = [*tables(results), "### Where peers did better\n\n" + losses(results)]
    return "\n".join([*parts, "### Failures\n\n" + failures(results)])


def page(results: Results, pictures: dict[str, str]) -> str:
    """The whole page; pictures are file names with what they show."""
    quick = ""
    if results.settings.get("quick"):
        quick = "```{warning}\nThese are figures of a quick run: a look at what runs, not at how fast.\n```\n"
    shown = [f"![{what}]({PLOTS}/{file})\n" for file, what in pictures.items()]
    parts = [
        HEAD,
        quick,
        "## At a glance\n",
        *shown,
        "## Ratios\n\nAbove 1, this project is better; bold is lost. [How to read it](#how-to-read-it).\n",
        *tables(results),
        "## Where peers did better\n\n" + losses(results),
        "## What failed\n\n" + failures(results),
        "## The machine\n\n" + machine(results),
        HOW_TO_READ.format(**results.settings),
        "## How the peers' programs are written\n\n" + notes(results),
        HOW_TO_RUN,
    ]
    return "\n".join(part for part in parts if part)
