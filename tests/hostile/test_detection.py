"""The committed detection rates are high enough, and shown in the docs."""

from __future__ import annotations

from tools import detection

from grain.testing import CaseKind

RECORD = detection.read_record()


def test_every_subject_was_run_a_hundred_times_and_no_other_one():
    assert {name: entry["runs"] >= 100 for name, entry in RECORD.items()} == dict.fromkeys(
        detection.subjects(), True
    )


def test_sources_transforms_datasets_plugins_and_executors_have_faulty_and_good_subjects():
    for outcome in ("caught", "passed"):
        kinds = {entry["kind"] for entry in RECORD.values() if outcome in entry}
        assert kinds == {kind.value for kind in CaseKind}


def test_every_faulty_subject_is_caught_and_every_good_one_passes():
    assert list(detection.shortfalls(RECORD)) == []


def test_the_page_shows_the_record():
    assert detection.main(["page", "--check"]) == 0


def test_a_subject_that_was_missed_is_reported():
    entry = {"kind": "map-source", "check": "check_repeatable_read", "runs": 100, "caught": 99}
    assert "99 of 100" in next(detection.shortfalls({"One": entry}))
    assert not list(detection.shortfalls({"One": {**entry, "check": "check_concurrent_reads"}}))


def test_names_of_subjects_become_words():
    assert detection.fault("SharesAPosition") == "shares a position"
    assert detection.fault("writing:counts_nothing") == "counts nothing"
