"""The plots of a run, as reproducible SVG files."""

from __future__ import annotations

import pathlib
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from benchmarks import cases, peers, summary
from benchmarks.cases import HEAVY_WORKERS, LENGTHS
from benchmarks.results import Results
from benchmarks.summary import Spread

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "benchmarks",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}
# Distinguishable with colour blindness, and by shape.
LOOKS = dict(
    zip(
        [peer.name for peer in peers.ALL],
        [
            ("black", "o"),
            ("#0072b2", "s"),
            ("#d55e00", "^"),
            ("#009e73", "D"),
            ("#cc79a7", "v"),
            ("#e69f00", "P"),
            ("#999999", "x"),
        ],
        strict=True,
    )
)


def draw(results: Results, folder: pathlib.Path) -> dict[str, str]:
    """Write all plots that have data; return the file names with their descriptions."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        drawn = {
            "ratios.svg": (ratios, "How many times better this project is, by case and peer"),
            "workers.svg": (workers, "Elements per second of a heavy function with 1 to 4 workers"),
            "lengths.svg": (lengths, "Seconds to 100 batches as the length grows to 10^12"),
            "start.svg": (start, "Seconds to import and to a first batch, and MiB per worker"),
        }
        shown = {}
        for name, (function, what) in drawn.items():
            figure = function(results)
            if figure is not None:
                figure.savefig(folder / name, metadata={"Date": None}, bbox_inches="tight")
                plt.close(figure)
                shown[name] = what
    return shown


def spread_of(results: Results, case: str, peer: str) -> Spread | None:
    """Return the spread of one peer in one case, or None."""
    outcome = results.find(case, peer)
    return summary.spread(outcome.values) if outcome is not None and outcome.values else None


def look(peer: str) -> dict[str, Any]:
    """Return the style of a peer."""
    color, marker = LOOKS[peer]
    return {"color": color, "marker": marker, "label": peers.BY_NAME[peer].title}


def readable_names(names: list[str]) -> dict[str, str]:
    """Return what each case does; "the same" refers to the case before it, and is replaced by it."""
    base, texts = "", {}
    for case in cases.ALL:
        if case.summary.startswith("the same"):
            texts[case.name] = base + case.summary.removeprefix("the same")
        else:
            texts[case.name], base = case.summary, case.summary.partition(";")[0]
    return {name: texts.get(name, name) for name in names}


def ratios(results: Results) -> Any:
    """Draw a dot for each comparison, on a logarithmic scale."""
    compared = [c for c in summary.compare(results) if not peers.BY_NAME[c.peer].is_limit]
    names = [name for name in results.cases() if any(c.case == name for c in compared)]
    if not names:
        return None
    # As narrow as a phone's column, with the text of a case above its dots.
    figure, axes = plt.subplots(figsize=(5.6, 1.5 + 0.46 * len(names)))
    heights = {name: -number for number, name in enumerate(names)}
    others = [peer for peer in results.peers() if peer != peers.OURS]
    for number, peer in enumerate(others):
        mine = [c for c in compared if c.peer == peer]
        if not mine:
            continue
        shift = 0.2 + 0.09 * (number - (len(others) - 1) / 2)
        middles = [c.ratio.median for c in mine]
        below = [c.ratio.median - c.ratio.low for c in mine]
        above = [c.ratio.high - c.ratio.median for c in mine]
        y = [heights[c.case] - shift for c in mine]
        axes.errorbar(middles, y, xerr=[below, above], fmt="", ls="none", ms=4, lw=1, **look(peer))
    axes.axvline(1, color="black", lw=1, zorder=0.5)
    axes.set_xscale("log")
    axes.set_yticks(list(heights.values()), [""] * len(names))
    axes.set_ylim(-len(names) + 0.3, 0.8)
    for name, text in readable_names(names).items():
        place = axes.get_yaxis_transform()
        # The line at 1 does not strike the text through.
        clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        height = heights[name] + 0.28
        axes.text(
            0.01, height, text, transform=place, fontsize=7.5, va="center", bbox=clear, zorder=1
        )
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("peer is better  ←  ratio  →  this project is better")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    return figure


def lines(results: Results, points: dict[str, int], xlabel: str, ylabel: str) -> Any:
    """Draw a line for each peer over cases that differ in one number."""
    measured = {
        peer: {x: s for name, x in points.items() if (s := spread_of(results, name, peer))}
        for peer in results.peers()
    }
    if not any(len(found) > 1 for found in measured.values()):
        return None
    figure, axes = plt.subplots(figsize=(6, 3.6))
    for peer, found in measured.items():
        if found:
            middles = [s.median for s in found.values()]
            errors = [
                [s.median - s.low for s in found.values()],
                [s.high - s.median for s in found.values()],
            ]
            axes.errorbar(list(found), middles, yerr=errors, ms=5, lw=1.2, capsize=2, **look(peer))
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return figure


def workers(results: Results) -> Any:
    """Draw the throughput over the number of workers."""
    figure = lines(results, HEAVY_WORKERS, "worker processes", "elements per second")
    if figure is not None:
        axes = figure.axes[0]
        axes.set_xticks(list(HEAVY_WORKERS.values()))
        axes.set_ylim(bottom=0)
    return figure


def lengths(results: Results) -> Any:
    """Draw the time over the length."""
    figure = lines(results, LENGTHS, "elements in the data set", "seconds to 100 batches")
    if figure is not None:
        figure.axes[0].set_xscale("log")
        figure.axes[0].set_yscale("log")
    return figure


def start(results: Results) -> Any:
    """Draw bars of start-up times and memory."""
    names = [c.name for c in cases.ALL if c.group == "Start and memory"]
    names = [name for name in names if spread_of(results, name, peers.OURS)]
    if not names:
        return None
    # One below the other, as narrow as a phone's column.
    counts = [sum(bool(spread_of(results, name, p)) for p in results.peers()) for name in names]
    figure, grid = plt.subplots(
        len(names),
        1,
        figsize=(5.6, sum(0.7 + 0.22 * count for count in counts)),
        height_ratios=[0.5 + 0.22 * count for count in counts],
        squeeze=False,
    )
    texts = readable_names(names)
    for axes, name in zip(grid.flat, names, strict=True):
        bars(axes, results, name, texts[name])
    figure.tight_layout()
    return figure


def bars(axes: Any, results: Results, name: str, text: str) -> None:
    """Draw one case, with a bar for each peer, this project's on top."""
    found = [(p, s) for p in results.peers() if (s := spread_of(results, name, p))]
    for row, (peer, of) in enumerate(found):
        error = [[of.median - of.low], [of.high - of.median]]
        axes.barh(-row, of.median, xerr=error, color=LOOKS[peer][0], capsize=2, height=0.7)
    titles = [peers.BY_NAME[peer].title for peer, _ in found]
    axes.set_yticks(range(0, -len(found), -1), titles)
    axes.set_title(f"{text}: {cases.BY_NAME[name].unit}", fontsize=9, loc="left", x=-0.3)
    axes.grid(visible=False, axis="y")
