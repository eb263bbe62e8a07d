"""Table of hostile subjects: the check that catches each, and the checks that fail with it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from grain.plugins import Capability
from grain.testing import CHECKS, Case, CaseKind

from . import datasets, good, sources, streams, transforms
from .candidates import candidate


@dataclass(frozen=True)
class Hostile:
    """A subject with one fault.

    Attributes:
        case: The case with the fault.
        by: The check that must catch the fault.
        also: Checks that always fail as well.
        perhaps: Checks that fail in some runs only, since threads race.
    """

    case: Case
    by: str
    also: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()


LOADERS = (
    "check_loader_order check_loader_resume check_loader_workers check_shards_partition_records"
)
"""Loaders choose single or batched reads by measured read times."""

ANY = " ".join(check.name for check in CHECKS)
"""An element that differs on every read fails any check that compares elements."""


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
        **{"inputs": good.ELEMENTS, **options},
    )
    return Hostile(case, by, _names(also), _names(perhaps))


def rows(made: Any, by: str, also: str = "", perhaps: str = "", **options: Any) -> Hostile:
    options.setdefault("elements", list(datasets.ROWS * 2))
    case = Case(
        name=made.__name__,
        kind=CaseKind.MAP_DATASET,
        make=functools.partial(datasets.rows, made),
        **options,
    )
    return Hostile(case, by, _names(also), _names(perhaps))


def sums(made: Any, by: str, also: str = "", perhaps: str = "", **options: Any) -> Hostile:
    options.setdefault("elements", list(datasets.ROWS.cumsum(axis=0)))
    case = Case(
        name=made.__name__,
        kind=CaseKind.ITER_DATASET,
        make=functools.partial(datasets.sums, made),
        **options,
    )
    return Hostile(case, by, _names(also), _names(perhaps))


def plugin(module: str, by: str, also: str = "", **options: Any) -> Hostile:
    make = functools.partial(candidate, module, **options)
    return Hostile(Case(name=module, kind=CaseKind.PLUGIN, make=make), by, _names(also))


BATCHES = [good.ELEMENTS[start : start + 4] for start in (0, 4, 8)]
INVALID = [{"id": 1}]
DOUBLED = [{**element, "row": element["row"] * 2} for element in good.ELEMENTS]

HOSTILE: tuple[Hostile, ...] = (
    source(
        sources.ClaimsTooMany,
        "check_all_indices_readable",
        also="check_expected_elements",
        perhaps=LOADERS,
    ),
    source(sources.ClaimsTooFew, "check_expected_elements"),
    source(sources.OffByOne, "check_expected_elements"),
    source(sources.RaisesKeyError, "check_out_of_range_index"),
    source(sources.WrapsAround, "check_out_of_range_index"),
    source(sources.CountsBackByOneOnly, "check_out_of_range_index"),
    source(sources.MirrorsNegativeIndices, "check_out_of_range_index"),
    source(sources.RefusesNumpyIntegers, "check_numpy_integer_index"),
    source(
        sources.HoldsAHandle,
        "check_pickle_new_instance",
        also=(
            "check_standard_pickle check_pickle_used_instance check_pickle_across_processes"
            " check_loader_workers"
        ),
    ),
    source(
        sources.ShiftsWhenPickled,
        "check_pickle_new_instance",
        also="check_pickle_used_instance check_pickle_across_processes",
    ),
    source(
        sources.HoldsAHandleOnceRead,
        "check_pickle_used_instance",
        also="check_standard_pickle",
    ),
    source(sources.ShiftsWhenPickledAfterUse, "check_pickle_used_instance"),
    source(
        sources.LivesInAModuleVariable, "check_pickle_across_processes", also="check_loader_workers"
    ),
    source(sources.PicklesAllData, "check_pickle_size"),
    source(
        sources.PicklesItsOffsets,
        "check_pickle_growth",
        make_larger=functools.partial(sources.PicklesItsOffsets, name="larger"),
    ),
    source(sources.PicklesRecordsRead, "check_pickle_size"),
    source(sources.ReadsTheClock, "check_repeatable_read", perhaps=ANY, elements=None),
    source(
        sources.DrawsInConstructor, "check_repeatable_across_instances", perhaps=ANY, elements=None
    ),
    source(sources.OrderedByHash, "check_repeatable_across_processes", elements=None),
    source(
        sources.NeverSeeksBack,
        "check_read_order_independent",
        also="check_pickle_used_instance check_elements_not_aliased",
        perhaps="check_loader_order check_concurrent_reads",
    ),
    source(sources.SharesAPosition, "check_concurrent_reads"),
    source(sources.SharesAFilePosition, "check_concurrent_reads", perhaps=LOADERS),
    source(sources.SharesAFilePositionInOneLine, "check_concurrent_reads", perhaps=LOADERS),
    source(sources.SharesAFilePositionBelow, "check_concurrent_reads", perhaps=LOADERS),
    source(sources.PublishesItsIndexTooEarly, "check_concurrent_reads", perhaps=LOADERS),
    source(sources.CachesTheLastRecord, "check_concurrent_reads", perhaps=LOADERS),
    source(sources.LocksOnlyItsSeek, "check_concurrent_reads", perhaps=LOADERS),
    source(
        sources.HoldsATextFile, "check_standard_pickle", also="check_pickle_without_file_contents"
    ),
    source(sources.HoldsALambda, "check_standard_pickle"),
    source(sources.PicklesItsFile, "check_pickle_without_file_contents"),
    source(sources.PicklesAMemoryMap, "check_pickle_without_file_contents"),
    source(
        sources.BelongsToItsThread,
        "check_concurrent_reads",
        perhaps=LOADERS,
    ),
    source(
        sources.BatchedSorts,
        "check_batched_read_order",
        also="check_batched_read_array_indices",
        perhaps=LOADERS,
    ),
    source(
        sources.BatchedDropsRepeats,
        "check_batched_read_repeats",
        perhaps=LOADERS,
    ),
    source(
        sources.BatchedNeedsOne, "check_batched_read_empty", also="check_batched_read_array_indices"
    ),
    source(sources.BatchedRefusesArrays, "check_batched_read_array_indices"),
    source(sources.BatchedWrapsAround, "check_batched_read_out_of_range"),
    source(
        sources.BatchedReturnsOtherTypes,
        "check_batched_read_equals_single",
        also=(
            "check_batched_read_order check_batched_read_repeats check_batched_read_array_indices"
        ),
        perhaps="check_loader_order check_shards_partition_records",
    ),
    source(
        sources.BatchedReturnsATuple,
        "check_batched_read_equals_single",
        also=(
            "check_batched_read_order check_batched_read_empty"
            " check_batched_read_repeats check_batched_read_array_indices"
        ),
    ),
    source(sources.ColumnsSort, "check_columns_equal_stacked_records"),
    source(sources.ColumnsReturnOtherTypes, "check_columns_equal_stacked_records"),
    source(
        sources.ReusesOneBuffer, "check_elements_not_overwritten", perhaps="check_concurrent_reads"
    ),
    source(
        sources.ChangesReturnedElements,
        "check_elements_not_overwritten",
        perhaps="check_concurrent_reads",
    ),
    source(sources.ReturnsItsOwnArrays, "check_elements_not_aliased"),
    source(sources.ReturnsItsOwnDicts, "check_elements_not_aliased"),
    source(sources.ShowsItsAddress, "check_repr_without_address", also="check_loader_resume"),
    source(
        sources.ShowsHowOftenItWasRead,
        "check_repr_stable",
        also="check_repr_across_processes",
    ),
    source(sources.ShowsItsProcess, "check_repr_across_processes"),
    source(sources.ShowsAHash, "check_repr_across_processes"),
    source(
        sources.ClaimsBatched,
        "check_declared_capabilities_present",
        also=(
            "check_batched_read_equals_single check_batched_read_order"
            " check_batched_read_empty check_batched_read_out_of_range"
            " check_batched_read_repeats check_batched_read_array_indices"
        ),
    ),
    source(sources.ClaimsColumns, "check_declared_capabilities_present"),
    source(
        sources.ClaimsToClose,
        "check_declared_capabilities_present",
        also="check_close_releases_resources",
    ),
    source(sources.ClaimsPatterns, "check_declared_capabilities_present"),
    source(
        sources.ReadsPatternsWrongly,
        "check_declared_capabilities_present",
        ways={Capability.GLOBS: sources.OffByOne},
    ),
    source(sources.DeniesBatched, "check_present_capabilities_declared"),
    source(sources.DeniesColumns, "check_present_capabilities_declared"),
    source(sources.DeniesToClose, "check_present_capabilities_declared"),
    source(
        sources.DeniesPatterns,
        "check_present_capabilities_declared",
        ways={Capability.GLOBS: good.GoodSource},
    ),
    source(sources.LeaksAHandlePerRead, "check_no_leak_per_read"),
    source(sources.LeaksAHandlePerInstance, "check_no_leak_per_instance"),
    source(sources.LeaksAThread, "check_no_leak_per_instance"),
    source(sources.KeepsItsFileWhenClosed, "check_close_releases_resources"),
    source(sources.ClosesOnlyOnce, "check_close_releases_resources"),
    stream(streams.IsNotAnIterDataset, "check_iter_dataset_types", also="check_stream_workers"),
    stream(streams.LosesARecord, "check_expected_elements"),
    stream(streams.HasOnePosition, "check_iterators_independent"),
    stream(
        streams.RestartsAfterItsEnd, "check_exhaustion_is_final", perhaps="check_stream_workers"
    ),
    stream(streams.FailsAfterItsEnd, "check_exhaustion_is_final", perhaps="check_stream_workers"),
    stream(
        streams.RestoresOneTooFar,
        "check_state_restores_new_iterator",
        also="check_state_restores_used_iterator check_state_json_round_trip",
        perhaps="check_stream_workers",
    ),
    stream(
        streams.HasNoStateAtTheEnd,
        "check_state_restores_new_iterator",
        also="check_state_restores_used_iterator check_state_json_round_trip",
    ),
    stream(streams.MutatesTheState, "check_state_restores_used_iterator"),
    stream(streams.KeepsItsBuffer, "check_state_restores_used_iterator"),
    stream(streams.RestoresOnlyOnce, "check_state_restores_used_iterator"),
    stream(streams.HasANumpyState, "check_state_json_round_trip"),
    stream(streams.HasATupleState, "check_state_json_round_trip"),
    stream(streams.HasNumbersAsKeys, "check_state_json_round_trip"),
    stream(streams.ReturnsItsOwnState, "check_state_is_snapshot"),
    stream(streams.CountsStateCalls, "check_get_state_without_side_effects"),
    stream(
        streams.AdvancesInGetState,
        "check_get_state_without_side_effects",
        also=(
            "check_state_restores_new_iterator check_state_restores_used_iterator"
            " check_state_json_round_trip"
        ),
        perhaps="check_stream_workers",
    ),
    stream(
        streams.StreamHoldsAHandle,
        "check_pickle_new_instance",
        also=(
            "check_iterator_close_releases_resources check_pickle_used_instance"
            " check_standard_pickle check_pickle_across_processes check_stream_workers"
        ),
    ),
    stream(
        streams.StreamLivesInAModuleVariable,
        "check_pickle_across_processes",
        also="check_stream_workers",
    ),
    stream(streams.StreamPicklesAllData, "check_pickle_size"),
    stream(
        streams.StreamPicklesItsOffsets,
        "check_pickle_growth",
        make_larger=functools.partial(streams.StreamPicklesItsOffsets, name="larger"),
    ),
    stream(streams.StreamReadsTheClock, "check_repeatable_read", perhaps=ANY, elements=None),
    stream(streams.StreamOrderedByHash, "check_repeatable_across_processes", elements=None),
    stream(
        streams.DependsOnItsProcess, "check_stream_workers", also="check_pickle_across_processes"
    ),
    stream(
        streams.StreamReusesOneBuffer,
        "check_elements_not_overwritten",
        perhaps="check_stream_workers",
    ),
    stream(streams.StreamReturnsItsOwnArrays, "check_elements_not_aliased"),
    stream(streams.KeepsItsFileWhenIteratorCloses, "check_iterator_close_releases_resources"),
    stream(streams.IteratorClosesOnlyOnce, "check_iterator_close_releases_resources"),
    stream(
        streams.StreamLeaksAHandle,
        "check_no_leak_per_read",
        also="check_no_leak_per_instance",
    ),
    stream(streams.StreamClaimsPatterns, "check_declared_capabilities_present"),
    stream(
        streams.StreamDeniesPatterns,
        "check_present_capabilities_declared",
        ways={Capability.GLOBS: good.GoodStream},
    ),
    transform(transforms.FailsOnSome, "check_result_type", perhaps=ANY),
    transform(transforms.FilterReturnsTheElement, "check_result_type"),
    transform(transforms.FlatMapReturnsTooMany, "check_result_type"),
    transform(transforms.MapsWrongly, "check_expected_elements", elements=DOUBLED),
    transform(transforms.DrawsFromNumpy, "check_no_global_rng", perhaps=ANY),
    transform(transforms.DrawsFromPython, "check_no_global_rng", perhaps=ANY),
    transform(transforms.SeedsNumpy, "check_no_global_rng", perhaps="check_concurrent_reads"),
    transform(transforms.ChangesItsInput, "check_input_not_mutated"),
    transform(transforms.AddsToItsInput, "check_input_not_mutated"),
    transform(
        transforms.HoldsALock,
        "check_pickle_new_instance",
        also="check_standard_pickle check_pickle_used_instance check_pickle_across_processes",
    ),
    transform(
        transforms.HoldsALockOnceUsed, "check_pickle_used_instance", also="check_standard_pickle"
    ),
    transform(transforms.LooksUpAModuleVariable, "check_pickle_across_processes"),
    transform(transforms.PicklesATable, "check_pickle_size"),
    transform(transforms.PicklesInputsSeen, "check_pickle_size"),
    transform(
        transforms.Counts,
        "check_repeatable_read",
        also="check_pickle_used_instance check_read_order_independent check_elements_not_aliased",
        perhaps="check_concurrent_reads",
    ),
    transform(
        transforms.RemembersTheLast,
        "check_read_order_independent",
        also="check_pickle_used_instance check_elements_not_aliased",
        perhaps="check_concurrent_reads",
    ),
    transform(transforms.DrawsItsFactor, "check_repeatable_across_instances", perhaps=ANY),
    transform(
        transforms.Hashes, "check_repeatable_across_processes", also="check_pickle_across_processes"
    ),
    transform(transforms.SharesScratch, "check_concurrent_reads"),
    transform(transforms.ReusesOneResult, "check_elements_not_overwritten"),
    transform(transforms.ReturnsItsTable, "check_elements_not_aliased"),
    transform(transforms.LeaksAFilePerCall, "check_no_leak_per_read"),
    transform(transforms.StartsAThread, "check_no_leak_per_instance"),
    transform(transforms.LeaksAFilePerInstance, "check_no_leak_per_instance"),
    transform(transforms.ReturnsNothing, "check_result_type"),
    transform(
        transforms.ReturnsAGenerator,
        "check_result_type",
        perhaps=(
            "check_concurrent_reads check_elements_not_aliased check_no_global_rng"
            " check_pickle_new_instance check_pickle_used_instance"
            " check_read_order_independent check_repeatable_across_instances"
            " check_repeatable_read"
        ),
    ),
    transform(transforms.FlatMapReturnsAGenerator, "check_result_type"),
    transform(transforms.FilterReturnsANumber, "check_result_type"),
    transform(transforms.IgnoresItsGenerator, "check_generator_used"),
    transform(transforms.SeedsFromTheElement, "check_generator_used"),
    transform(
        transforms.KeepsItsGenerator,
        "check_repeatable_read",
        perhaps=(
            "check_concurrent_reads check_elements_not_aliased"
            " check_pickle_used_instance check_read_order_independent"
        ),
    ),
    transform(transforms.AcceptsAnything, "check_invalid_input_raises", invalid_inputs=INVALID),
    transform(transforms.EndsTheStream, "check_invalid_input_raises", invalid_inputs=INVALID),
    transform(
        transforms.RaisesWhatCannotBeSent, "check_invalid_input_raises", invalid_inputs=INVALID
    ),
    transform(transforms.BreaksAfterAnError, "check_invalid_input_raises", invalid_inputs=INVALID),
    transform(transforms.needs_two_elements, "check_batch_sizes", inputs=BATCHES),
    transform(transforms.needs_four_elements, "check_batch_sizes", inputs=BATCHES),
    transform(
        transforms.needs_a_list, "check_batch_sizes", also="check_input_not_mutated", inputs=BATCHES
    ),
    transform(transforms.drops_single_elements, "check_batch_sizes", inputs=BATCHES),
    transform(transforms.batch_changes_its_input, "check_input_not_mutated", inputs=BATCHES),
    transform(
        transforms.batch_reuses_a_buffer,
        "check_elements_not_overwritten",
        perhaps="check_concurrent_reads",
        inputs=BATCHES,
    ),
    rows(datasets.IsNotAMapDataset, "check_map_dataset_type"),
    rows(datasets.RefusesLaterEpochs, "check_later_epochs"),
    rows(datasets.DrawsInLaterEpochs, "check_later_epochs"),
    rows(datasets.RefusesSlices, "check_slices", also="check_operations_read_dataset"),
    rows(datasets.SlicesToAList, "check_slices", also="check_operations_read_dataset"),
    rows(datasets.SlicesFromTheStart, "check_slices"),
    rows(
        datasets.ManyReadsSort,
        "check_batched_read_order",
        also="check_batched_read_array_indices check_operations_read_dataset",
    ),
    rows(datasets.ManyReadsDropRepeats, "check_batched_read_repeats"),
    rows(
        datasets.ManyReadsShift,
        "check_batched_read_equals_single",
        also=(
            "check_batched_read_array_indices check_batched_read_order"
            " check_batched_read_repeats check_operations_read_dataset check_slices"
        ),
    ),
    rows(
        datasets.ManyReadsNeedOne,
        "check_batched_read_empty",
        also="check_batched_read_array_indices",
    ),
    rows(datasets.ManyReadsRefuseArrays, "check_batched_read_array_indices"),
    rows(
        datasets.ChangesLongDatasets,
        "check_operations_read_dataset",
        also=(
            "check_batched_read_array_indices check_batched_read_equals_single"
            " check_batched_read_order check_batched_read_repeats"
        ),
    ),
    rows(
        datasets.RemembersTheFirstRow,
        "check_read_order_independent",
        perhaps=(
            "check_batched_read_array_indices check_batched_read_equals_single"
            " check_batched_read_order check_concurrent_reads"
            " check_expected_elements check_operations_read_dataset"
        ),
    ),
    rows(datasets.SharesItsRow, "check_concurrent_reads"),
    rows(datasets.ReturnsItsOwnRow, "check_elements_not_aliased"),
    rows(datasets.HasAFingerprintWithItsProcess, "check_fingerprint_stable"),
    rows(datasets.HasAFingerprintWithACounter, "check_fingerprint_stable"),
    rows(datasets.HasAFingerprintWithAHash, "check_fingerprint_stable"),
    rows(
        datasets.HasAFingerprintWithoutArguments,
        "check_fingerprint_distinguishes",
        make_different=functools.partial(
            datasets.rows, datasets.HasAFingerprintWithoutArguments, 3
        ),
    ),
    rows(datasets.HasASpecOfAnotherType, "check_element_spec", elements=None),
    rows(datasets.HasASpecOfAnotherShape, "check_element_spec", elements=None),
    rows(datasets.HasASpecOfAnotherStructure, "check_element_spec", elements=None),
    rows(datasets.KeepsAFunctionOfItsMethod, "check_standard_pickle"),
    sums(
        datasets.ForgetsItsSum,
        "check_state_restores_new_iterator",
        also="check_state_json_round_trip check_state_restores_used_iterator",
    ),
    sums(
        datasets.ForgetsItsParent,
        "check_state_restores_new_iterator",
        also="check_state_json_round_trip check_state_restores_used_iterator",
    ),
    sums(datasets.RestoresOnlyBeforeUse, "check_state_restores_used_iterator"),
    sums(datasets.HasAnArrayAsState, "check_state_json_round_trip"),
    sums(datasets.SharesItsStateDict, "check_state_is_snapshot"),
    sums(
        datasets.AdvancesItsParentInGetState,
        "check_get_state_without_side_effects",
        also=(
            "check_state_json_round_trip check_state_restores_new_iterator"
            " check_state_restores_used_iterator"
        ),
    ),
    sums(
        datasets.SharesOneIterator,
        "check_iterators_independent",
        also=("check_elements_not_aliased check_pickle_used_instance check_repeatable_read"),
    ),
    sums(datasets.LeavesItsParentOpen, "check_closed_iterator"),
    sums(datasets.EndsWhenClosed, "check_closed_iterator"),
    sums(datasets.FailsWhenClosedTwice, "check_iterator_close_releases_resources"),
    sums(datasets.ReturnsItsOwnSum, "check_elements_not_overwritten"),
    sums(datasets.ClaimsALength, "check_known_length"),
    sums(datasets.HasASpecOfInt32, "check_element_spec"),
    sums(
        datasets.HasAFingerprintWithoutStart,
        "check_fingerprint_distinguishes",
        make_different=functools.partial(datasets.sums, datasets.HasAFingerprintWithoutStart, 3),
    ),
    sums(datasets.HasAFingerprintOfTheIterator, "check_fingerprint_stable"),
    sums(
        datasets.YieldsFromAGenerator,
        "check_iter_dataset_types",
        also=(
            "check_closed_iterator check_expected_elements"
            " check_get_state_without_side_effects check_state_is_snapshot"
            " check_state_json_round_trip check_state_restores_new_iterator"
            " check_state_restores_used_iterator"
        ),
    ),
    plugin("heavy_import:heavy", "check_listing_imports"),
    plugin("metadata:no_summary", "check_plugin_metadata"),
    plugin("metadata:raising_hook", "check_plugin_metadata"),
    plugin("metadata:missing_target", "check_targets_match_kind"),
    plugin("metadata:wrong_kind", "check_targets_match_kind"),
    plugin("metadata:good", "check_core_requirement_bounded", requires=("grain-core",)),
    plugin("metadata:no_case", "check_every_spec_has_case"),
    plugin("metadata:unknown_spec", "check_every_spec_has_case"),
    plugin("metadata:uncovered_capability", "check_cases_cover_capabilities"),
    plugin("metadata:undeclared_capability", "check_cases_cover_capabilities"),
    plugin(
        "writing:missing_writer",
        "check_targets_match_kind",
        also=(
            "check_writer_round_trip check_writer_count"
            " check_writer_empty_input check_writer_replaces_file"
            " check_failed_write_is_atomic check_decoder_inverts_writer"
        ),
    ),
    plugin(
        "writing:loses_the_last",
        "check_writer_round_trip",
        also="check_decoder_inverts_writer",
    ),
    plugin(
        "writing:needs_a_list",
        "check_writer_round_trip",
        also=("check_writer_count check_writer_empty_input check_writer_replaces_file"),
    ),
    plugin("writing:counts_nothing", "check_writer_count"),
    plugin("writing:needs_a_first_element", "check_writer_empty_input"),
    plugin("writing:writes_no_empty_file", "check_writer_empty_input"),
    plugin("writing:appends", "check_writer_replaces_file"),
    plugin("writing:refuses_an_existing_file", "check_writer_replaces_file"),
    plugin("writing:in_place", "check_failed_write_is_atomic"),
    plugin("writing:swallows_errors", "check_failed_write_is_atomic"),
    plugin("writing:leaves_its_temporary_file", "check_failed_write_is_atomic"),
    plugin("writing:removes_the_existing_file", "check_failed_write_is_atomic"),
    plugin("writing:decodes_by_guessing", "check_decoder_inverts_writer"),
    plugin("writing:decodes_to_text", "check_decoder_inverts_writer"),
    source(sources.CachesInReadOrder, "check_loader_order"),
    source(sources.ReturnsNone, "check_shards_partition_records", elements=None),
    source(
        sources.ShowsWhichInstanceItIs,
        "check_loader_resume",
        also="check_repr_stable check_repr_across_processes",
    ),
    source(
        sources.SourceDependsOnItsProcess,
        "check_loader_workers",
        also="check_pickle_across_processes",
    ),
    source(
        sources.BatchedReadsNeighbours,
        "check_shards_partition_records",
        also=(
            "check_batched_read_order check_batched_read_repeats check_batched_read_array_indices"
        ),
        perhaps=LOADERS,
    ),
)
