"""Which hostile plugin is caught by which check: by its own, and by what else must follow."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from grain.plugins import Capability
from grain.testing import CHECKS, Case, CaseKind

from . import good, sources, streams, transforms
from .candidates import candidate


@dataclass(frozen=True)
class Hostile:
    """One fault.

    Attributes:
        case: The case with the fault.
        by: The check whose fault it is.
        also: Checks that the same fault fails of necessity.
        perhaps: Checks that it fails on some runs only, since threads race.
    """

    case: Case
    by: str
    also: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()


LOADERS = (
    "loader_reads_every_record loader_resumes_from_every_state workers_read_the_same"
    " shards_are_disjoint_and_complete"
)
"""How a loader reads, one by one or many at a time, it decides by how long reads take."""

ANY = " ".join(check.name for check in CHECKS)
"""A fault that makes elements differ each time shows wherever they are compared."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def source(made: Any, by: str, also: str = "", perhaps: str = "", **options: Any) -> Hostile:
    options.setdefault("elements", good.ELEMENTS)
    case = Case(
        name=made.__name__,
        prepare=good.write,
        make=made,
        capabilities=made.capabilities,
        **options,
    )
    return Hostile(case, by, _names(also), _names(perhaps))


def stream(made: Any, by: str, also: str = "", perhaps: str = "", **options: Any) -> Hostile:
    return source(made, by, also, perhaps, kind=CaseKind.ITER_SOURCE, **options)


def transform(kind: Any, by: str, also: str = "", perhaps: str = "", **options: Any) -> Hostile:
    case = Case(
        name=kind.__name__,
        kind=CaseKind.TRANSFORM,
        make=kind,
        inputs=good.ELEMENTS,
        **options,
    )
    return Hostile(case, by, _names(also), _names(perhaps))


def plugin(module: str, by: str, also: str = "", **options: Any) -> Hostile:
    make = functools.partial(candidate, module, **options)
    return Hostile(Case(name=module, kind=CaseKind.PLUGIN, make=make), by, _names(also))


DOUBLED = [{**element, "row": element["row"] * 2} for element in good.ELEMENTS]

HOSTILE: tuple[Hostile, ...] = (
    source(
        sources.ClaimsTooMany,
        "every_index_reads",
        perhaps=LOADERS,
    ),
    source(sources.ClaimsTooFew, "gives_the_expected_elements"),
    source(sources.OffByOne, "gives_the_expected_elements"),
    source(sources.RaisesKeyError, "outside_is_an_index_error"),
    source(sources.WrapsAround, "outside_is_an_index_error"),
    source(sources.RefusesNumpyIntegers, "numpy_integers_index"),
    source(
        sources.HoldsAHandle,
        "pickles_fresh",
        also="pickles_after_use pickles_into_another_process workers_read_the_same",
    ),
    source(
        sources.ForgetsWhenPickled,
        "pickles_fresh",
        also="pickles_after_use pickles_into_another_process",
    ),
    source(sources.HoldsAHandleOnceRead, "pickles_after_use"),
    source(sources.ForgetsWhenPickledAfterUse, "pickles_after_use"),
    source(
        sources.LivesInAModuleVariable, "pickles_into_another_process", also="workers_read_the_same"
    ),
    source(sources.CarriesAllData, "pickle_is_small"),
    source(sources.CarriesWhatWasRead, "pickle_is_small"),
    source(sources.ReadsTheClock, "same_again", perhaps=ANY, elements=None),
    source(sources.DrawsWhenMade, "same_in_a_fresh_instance", perhaps=ANY, elements=None),
    source(sources.OrderedByHash, "same_in_another_process", elements=None),
    source(
        sources.NeverSeeksBack,
        "same_in_any_order",
        also="pickles_after_use shares_no_memory_with_elements",
        perhaps="loader_reads_every_record reads_in_threads",
    ),
    source(sources.SharesAPosition, "reads_in_threads"),
    source(
        sources.BelongsToItsThread,
        "reads_in_threads",
        perhaps=LOADERS,
    ),
    source(
        sources.BatchedSorts,
        "batched_keeps_the_order_asked",
        also="batched_takes_arrays",
        perhaps=LOADERS,
    ),
    source(
        sources.BatchedDropsRepeats,
        "batched_repeats_what_is_repeated",
        perhaps=LOADERS,
    ),
    source(sources.BatchedNeedsOne, "batched_of_nothing_is_empty", also="batched_takes_arrays"),
    source(sources.BatchedRefusesArrays, "batched_takes_arrays"),
    source(sources.BatchedWrapsAround, "batched_outside_is_an_index_error"),
    source(
        sources.BatchedGivesOtherTypes,
        "batched_equals_single",
        also=(
            "batched_keeps_the_order_asked batched_repeats_what_is_repeated batched_takes_arrays"
        ),
        perhaps="loader_reads_every_record shards_are_disjoint_and_complete",
    ),
    source(
        sources.BatchedGivesATuple,
        "batched_equals_single",
        also=(
            "batched_keeps_the_order_asked batched_of_nothing_is_empty"
            " batched_repeats_what_is_repeated batched_takes_arrays"
        ),
    ),
    source(sources.ColumnsSort, "columns_equal_stacking"),
    source(sources.ColumnsGiveOtherTypes, "columns_equal_stacking"),
    source(sources.FillsOneBuffer, "leaves_what_it_gave_alone", perhaps="reads_in_threads"),
    source(sources.ChangesWhatItGave, "leaves_what_it_gave_alone", perhaps="reads_in_threads"),
    source(sources.GivesItsOwnArrays, "shares_no_memory_with_elements"),
    source(sources.GivesItsOwnDicts, "shares_no_memory_with_elements"),
    source(
        sources.ShowsItsAddress, "repr_holds_no_address", also="loader_resumes_from_every_state"
    ),
    source(
        sources.ShowsHowOftenItWasRead,
        "repr_does_not_change",
        also="repr_is_the_same_in_another_process",
    ),
    source(sources.ShowsItsProcess, "repr_is_the_same_in_another_process"),
    source(sources.ShowsAHash, "repr_is_the_same_in_another_process"),
    source(
        sources.ClaimsBatched,
        "declared_capabilities_hold",
        also=(
            "batched_equals_single batched_keeps_the_order_asked"
            " batched_of_nothing_is_empty batched_outside_is_an_index_error"
            " batched_repeats_what_is_repeated batched_takes_arrays"
        ),
    ),
    source(sources.ClaimsColumns, "declared_capabilities_hold"),
    source(
        sources.ClaimsToClose, "declared_capabilities_hold", also="closing_gives_everything_back"
    ),
    source(sources.ClaimsPatterns, "declared_capabilities_hold"),
    source(
        sources.ReadsPatternsWrongly,
        "declared_capabilities_hold",
        ways={Capability.GLOBS: sources.OffByOne},
    ),
    source(sources.DeniesBatched, "present_capabilities_are_declared"),
    source(sources.DeniesColumns, "present_capabilities_are_declared"),
    source(sources.DeniesToClose, "present_capabilities_are_declared"),
    source(
        sources.DeniesPatterns,
        "present_capabilities_are_declared",
        ways={Capability.GLOBS: good.GoodSource},
    ),
    source(sources.LeaksAHandlePerRead, "reading_takes_no_more_each_time"),
    source(sources.LeaksAHandlePerInstance, "dropping_gives_everything_back"),
    source(sources.LeaksAThread, "dropping_gives_everything_back"),
    source(sources.KeepsItsFileWhenClosed, "closing_gives_everything_back"),
    source(sources.ClosesOnlyOnce, "closing_gives_everything_back"),
    stream(streams.IsNoIterDataset, "is_an_iter_dataset", also="workers_read_the_same_stream"),
    stream(streams.LosesARecord, "gives_the_expected_elements"),
    stream(streams.HasOnePosition, "fresh_iterators_start_over"),
    stream(streams.BeginsAgain, "ends_and_stays_ended", perhaps="workers_read_the_same_stream"),
    stream(
        streams.FailsAfterItsEnd, "ends_and_stays_ended", perhaps="workers_read_the_same_stream"
    ),
    stream(
        streams.RestoresOneTooFar,
        "state_restores_at_every_step",
        also="state_restores_twice state_survives_json",
        perhaps="workers_read_the_same_stream",
    ),
    stream(
        streams.HasNoStateAtTheEnd,
        "state_restores_at_every_step",
        also="state_restores_twice state_survives_json",
    ),
    stream(streams.UsesUpTheState, "state_restores_twice"),
    stream(streams.KeepsItsBuffer, "state_restores_twice"),
    stream(streams.RestoresOnlyOnce, "state_restores_twice"),
    stream(streams.HasANumpyState, "state_survives_json"),
    stream(streams.HasATupleState, "state_survives_json"),
    stream(streams.HasNumbersAsKeys, "state_survives_json"),
    stream(streams.HandsOutItsOwnState, "state_is_a_snapshot"),
    stream(streams.CountsWhoAsks, "taking_the_state_changes_nothing"),
    stream(
        streams.ReadsToKnowItsState,
        "taking_the_state_changes_nothing",
        also="state_restores_at_every_step state_restores_twice state_survives_json",
        perhaps="workers_read_the_same_stream",
    ),
    stream(
        streams.StreamHoldsAHandle,
        "pickles_fresh",
        also=(
            "closing_an_iterator_gives_everything_back pickles_after_use"
            " pickles_into_another_process workers_read_the_same_stream"
        ),
    ),
    stream(
        streams.StreamLivesInAModuleVariable,
        "pickles_into_another_process",
        also="workers_read_the_same_stream",
    ),
    stream(streams.StreamCarriesAllData, "pickle_is_small"),
    stream(streams.StreamReadsTheClock, "same_again", perhaps=ANY, elements=None),
    stream(streams.StreamOrderedByHash, "same_in_another_process", elements=None),
    stream(
        streams.KnowsItsProcess, "workers_read_the_same_stream", also="pickles_into_another_process"
    ),
    stream(
        streams.StreamFillsOneBuffer,
        "leaves_what_it_gave_alone",
        perhaps="workers_read_the_same_stream",
    ),
    stream(streams.StreamGivesItsOwnArrays, "shares_no_memory_with_elements"),
    stream(streams.KeepsItsFileWhenIteratorCloses, "closing_an_iterator_gives_everything_back"),
    stream(streams.IteratorClosesOnlyOnce, "closing_an_iterator_gives_everything_back"),
    stream(
        streams.StreamLeaksAHandle,
        "reading_takes_no_more_each_time",
        also="dropping_gives_everything_back",
    ),
    stream(streams.StreamClaimsPatterns, "declared_capabilities_hold"),
    stream(
        streams.StreamDeniesPatterns,
        "present_capabilities_are_declared",
        ways={Capability.GLOBS: good.GoodStream},
    ),
    transform(transforms.FailsOnSome, "result_fits_its_kind", perhaps=ANY),
    transform(transforms.FilterGivesTheElement, "result_fits_its_kind"),
    transform(transforms.FlatMapGivesTooMany, "result_fits_its_kind"),
    transform(transforms.MapsWrongly, "gives_the_expected_elements", elements=DOUBLED),
    transform(transforms.DrawsFromNumpy, "uses_no_global_random_numbers", perhaps=ANY),
    transform(transforms.DrawsFromPython, "uses_no_global_random_numbers", perhaps=ANY),
    transform(transforms.SeedsNumpy, "uses_no_global_random_numbers", perhaps="reads_in_threads"),
    transform(transforms.ChangesItsInput, "leaves_its_input_alone"),
    transform(transforms.AddsToItsInput, "leaves_its_input_alone"),
    transform(
        transforms.HoldsALock,
        "pickles_fresh",
        also="pickles_after_use pickles_into_another_process",
    ),
    transform(transforms.HoldsALockOnceUsed, "pickles_after_use"),
    transform(transforms.LooksUpAModuleVariable, "pickles_into_another_process"),
    transform(transforms.CarriesATable, "pickle_is_small"),
    transform(transforms.CollectsWhatItSaw, "pickle_is_small"),
    transform(
        transforms.Counts,
        "same_again",
        also="pickles_after_use same_in_any_order shares_no_memory_with_elements",
        perhaps="reads_in_threads",
    ),
    transform(
        transforms.RemembersTheLast,
        "same_in_any_order",
        also="pickles_after_use shares_no_memory_with_elements",
        perhaps="reads_in_threads",
    ),
    transform(transforms.DrawsItsFactor, "same_in_a_fresh_instance", perhaps=ANY),
    transform(transforms.Hashes, "same_in_another_process", also="pickles_into_another_process"),
    transform(transforms.SharesScratch, "reads_in_threads"),
    transform(transforms.FillsOneResult, "leaves_what_it_gave_alone"),
    transform(transforms.GivesItsTable, "shares_no_memory_with_elements"),
    transform(transforms.OpensAndForgets, "reading_takes_no_more_each_time"),
    transform(transforms.StartsAThread, "dropping_gives_everything_back"),
    transform(transforms.OpensWhenMade, "dropping_gives_everything_back"),
    plugin("heavy", "listing_imports_nothing_heavy"),
    plugin("silent", "describes_itself"),
    plugin("raising", "describes_itself"),
    plugin("lost", "targets_are_of_their_kind"),
    plugin("mistaken", "targets_are_of_their_kind"),
    plugin("good", "requires_a_bounded_core", requires=("grain-core",)),
    plugin("uncovered", "every_spec_has_a_case"),
    plugin("astray", "every_spec_has_a_case"),
    plugin("shy", "cases_show_every_capability"),
    plugin("boastful", "cases_show_every_capability"),
    plugin(
        "writing:lost_writer",
        "targets_are_of_their_kind",
        also=(
            "writers_keep_what_sources_give writers_count_what_they_wrote"
            " writers_write_nothing_as_an_empty_file writers_replace_the_whole_file"
            " failing_writes_leave_what_was_there decoders_undo_what_writers_did"
        ),
    ),
    plugin(
        "writing:loses_the_last",
        "writers_keep_what_sources_give",
        also="decoders_undo_what_writers_did",
    ),
    plugin(
        "writing:needs_a_list",
        "writers_keep_what_sources_give",
        also=(
            "writers_count_what_they_wrote writers_write_nothing_as_an_empty_file"
            " writers_replace_the_whole_file"
        ),
    ),
    plugin("writing:counts_nothing", "writers_count_what_they_wrote"),
    plugin("writing:needs_a_first_element", "writers_write_nothing_as_an_empty_file"),
    plugin("writing:writes_no_empty_file", "writers_write_nothing_as_an_empty_file"),
    plugin("writing:appends", "writers_replace_the_whole_file"),
    plugin("writing:refuses_a_file_that_is_there", "writers_replace_the_whole_file"),
    plugin("writing:in_place", "failing_writes_leave_what_was_there"),
    plugin("writing:swallows_errors", "failing_writes_leave_what_was_there"),
    plugin("writing:leaves_its_unfinished_file", "failing_writes_leave_what_was_there"),
    plugin("writing:removes_what_was_there", "failing_writes_leave_what_was_there"),
    plugin("writing:decodes_by_guessing", "decoders_undo_what_writers_did"),
    plugin("writing:decodes_to_text", "decoders_undo_what_writers_did"),
    source(sources.CachesInTheOrderRead, "loader_reads_every_record"),
    source(sources.GivesNothing, "shards_are_disjoint_and_complete", elements=None),
    source(
        sources.ShowsWhichInstanceItIs,
        "loader_resumes_from_every_state",
        also="repr_does_not_change repr_is_the_same_in_another_process",
    ),
    source(
        sources.SourceKnowsItsProcess, "workers_read_the_same", also="pickles_into_another_process"
    ),
    source(
        sources.BatchedReadsNeighbours,
        "shards_are_disjoint_and_complete",
        also=(
            "batched_keeps_the_order_asked batched_repeats_what_is_repeated batched_takes_arrays"
        ),
        perhaps=LOADERS,
    ),
)
