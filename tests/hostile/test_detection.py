"""The committed detection rates are high enough, and shown in the docs."""

from __future__ import annotations

from tools import detection

RECORD = detection.read_record()


def test_only_subjects_that_exist_have_rates():
    assert set(RECORD) <= set(detection.subjects())


def test_every_faulty_subject_is_caught_and_every_good_one_passes():
    assert list(detection.shortfalls(RECORD)) == []


def test_many_faulty_subjects_were_run_a_hundred_times():
    enough = [name for name, entry in RECORD.items() if "caught" in entry and entry["runs"] >= 100]
    assert len(enough) >= 100


def test_the_page_shows_the_record():
    assert detection.main(["page", "--check"]) == 0


def test_a_subject_that_was_missed_is_reported():
    entry = {"kind": "map-source", "check": "check_repeatable_read", "runs": 100, "caught": 99}
    assert "99 of 100" in next(detection.shortfalls({"One": entry}))
    assert not list(detection.shortfalls({"One": {**entry, "check": "check_concurrent_reads"}}))


def test_names_of_subjects_become_words():
    assert detection.fault("SharesAPosition") == "shares a position"
    assert detection.fault("writing:counts_nothing") == "counts nothing"
