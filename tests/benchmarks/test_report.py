"""The report shows the values of given results."""

from __future__ import annotations

import dataclasses

import pytest
from benchmarks import page, plots, results, summary
from benchmarks.results import Outcome, Results

RESULTS = Results(
    machine={"processor": "Abacus", "cores": "2"},
    settings={
        "seconds": 0.4,
        "repetitions": 3,
        "worker_repetitions": 2,
        "quick": False,
        "took": 660,
    },
    versions={"grain": {"grain-core": "1.0.0"}, "torch": {"torch": "2.13.0"}},
    outcomes=(
        Outcome(case="range_batch", peer="grain", values=(200.0, 100.0, 400.0)),
        Outcome(case="range_batch", peer="torch", values=(100.0, 100.0, 100.0)),
        Outcome(case="range_batch", peer="spdl", values=(400.0, 50.0, 1000.0)),
        Outcome(case="heavy_mp1", peer="grain", values=(5.0, 5.0, 5.0)),
        Outcome(case="heavy_mp1", peer="torch", values=(10.0, 20.0, 20.0)),
        Outcome(case="heavy_mp1", peer="spdl", failed="OSError: no | such `thing`"),
        Outcome(case="heavy_mp2", peer="grain", values=(9.0, 9.0, 9.0)),
        Outcome(case="heavy_mp2", peer="torch", values=(9.0, 9.0, 9.0)),
        Outcome(case="heavy_mp2", peer="spdl", lacks="has no workers"),
        Outcome(case="import", peer="grain", values=(0.1, 0.1, 0.2)),
        Outcome(case="import", peer="torch", values=(1.0, 2.0, 1.0)),
        Outcome(case="import", peer="spdl", values=(0.05, 0.05, 0.1)),
    ),
)


def comparison(case, peer):
    [found] = [c for c in summary.compare(RESULTS) if (c.case, c.peer) == (case, peer)]
    return found


def test_a_ratio_compares_the_values_of_one_repetition():
    assert comparison("range_batch", "torch").ratio == summary.Spread(2, 1, 4)
    assert comparison("range_batch", "spdl").ratio == summary.Spread(0.5, 0.4, 2)


def test_less_time_is_better():
    assert comparison("import", "torch").ratio == summary.Spread(10, 5, 20)
    assert comparison("import", "spdl").ratio.median == 0.5


def test_a_loss_is_clear_if_every_repetition_was_lost():
    assert comparison("heavy_mp1", "torch").lost
    assert comparison("heavy_mp1", "torch").clear
    assert comparison("range_batch", "spdl").lost
    assert not comparison("range_batch", "spdl").clear
    assert not comparison("heavy_mp2", "torch").lost
    assert not comparison("heavy_mp2", "torch").clear


def test_only_cases_that_both_have_measured_are_compared():
    compared = {(c.case, c.peer) for c in summary.compare(RESULTS)}
    assert ("heavy_mp1", "spdl") not in compared
    assert ("heavy_mp2", "spdl") not in compared


def test_results_survive_json():
    assert results.from_json(results.to_json(RESULTS)) == RESULTS


def test_results_of_another_format_are_refused():
    text = results.to_json(RESULTS).replace('"format": 1', '"format": 0')
    with pytest.raises(ValueError, match="format 0, expected 1"):
        results.from_json(text)


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_the_table_has_values_ratios_and_marks_losses():
    [line] = lines_of(page.text_report(RESULTS), "| `range_batch`<br>")
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:] == ["200 elements/s (100 to 400)", "2 (1 to 4)", "**0.5 (0.4 to 2)**"]


def test_the_table_distinguishes_failed_and_missing_cases():
    text = page.text_report(RESULTS)
    assert lines_of(text, "| `heavy_mp1`<br>")[0].endswith("| *failed* |")
    assert lines_of(text, "| `heavy_mp2`<br>")[0].endswith("| — |")


def test_losses_are_listed_worst_first_and_failures_with_their_errors():
    text = page.page(RESULTS, {})
    lost = text.split("## Where peers did better")[1].split("##")[0]
    assert [line.split("`")[1] for line in lines_of(lost, "| `")] == [
        "heavy_mp1",
        "range_batch",
        "import",
    ]
    assert "every repetition" in lines_of(lost, "| `heavy_mp1`")[0]
    assert "within the spread" in lines_of(lost, "| `range_batch`")[0]
    assert "`OSError: no   such  thing`" in text


def test_a_loss_in_a_single_repetition_is_called_that():
    once = tuple(dataclasses.replace(o, values=o.values[:1]) for o in RESULTS.outcomes)
    text = page.losses(dataclasses.replace(RESULTS, outcomes=once))
    assert "one repetition" in lines_of(text, "| `heavy_mp1`")[0]
    assert "every repetition" not in text


def test_a_report_without_losses_and_failures_says_so():
    won = tuple(o for o in RESULTS.outcomes if o.case == "range_batch" and o.peer != "spdl")
    text = page.page(dataclasses.replace(RESULTS, outcomes=won), {})
    assert "In no case of this run did a peer do better" in text
    assert "Nothing failed." in text


def test_the_page_describes_the_machine_the_versions_and_missing_cases():
    text = page.page(RESULTS, {"ratios.svg": "All ratios"})
    assert "| processor | Abacus |" in text
    assert "| torch DataLoader | torch 2.13.0 |" in text
    assert "| SPDL | not installed |" in text
    assert "  - `heavy_mp2`: has no workers." in text
    assert "![All ratios](_static/benchmarks/ratios.svg)" in text
    assert "quick run" not in text


def test_the_page_of_a_quick_run_says_so():
    quick = dataclasses.replace(RESULTS, settings={**RESULTS.settings, "quick": True})
    assert "figures of a quick run" in page.page(quick, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (7, "7"), (1234.5, "1 230"), (999_400, "999 000"), (2.5e7, "25 M")],
)
def test_numbers_are_short(value, text):
    assert page.number(value) == text


def test_plots_are_drawn_for_available_results_and_are_reproducible(tmp_path):
    shown = plots.draw(RESULTS, tmp_path / "one")
    assert set(shown) == {"ratios.svg", "workers.svg", "start.svg"}
    assert {file.name for file in (tmp_path / "one").iterdir()} == set(shown)
    plots.draw(RESULTS, tmp_path / "two")
    for name in shown:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_no_plot_is_drawn_without_results(tmp_path):
    failed = (Outcome(case="range_batch", peer="grain", failed="it"),)
    assert plots.draw(dataclasses.replace(RESULTS, outcomes=failed), tmp_path) == {}
