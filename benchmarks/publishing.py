"""The published page: written from the results that are kept in the repository."""

from __future__ import annotations

from benchmarks import (
    growth_report,
    observation_report,
    page,
    plots,
    results,
    training_report,
)
from benchmarks.command import ROOT
from benchmarks.wide import report as wide_report

RESULTS = ROOT / "benchmarks/results.json"
PAGE = ROOT / "docs/benchmarks.md"
PICTURES = ROOT / "docs/_static/benchmarks"


def publish_page() -> None:
    """Write the page and its plots."""
    compared, grown = results.read(RESULTS), growth_report.read()
    if grown:
        growth_report.draw(grown, PICTURES)
    more = [
        wide_report.section(*wide_report.read()),
        growth_report.section(grown, page.PLOTS),
        training_report.section(training_report.read()),
        observation_report.section(observation_report.read()),
    ]
    PAGE.write_text(page.page(compared, plots.draw(compared, PICTURES), more))
    print(f"Published: {PAGE}, {PICTURES}.")
