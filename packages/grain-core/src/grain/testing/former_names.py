"""Former names of checks, accepted in `Case.expected_failures` and `Report.outcome`."""

from __future__ import annotations

CURRENT_NAMES = {
    "every_index_reads": "check_all_indices_readable",
    "gives_the_expected_elements": "check_expected_elements",
    "outside_is_an_index_error": "check_out_of_range_index",
    "numpy_integers_index": "check_numpy_integer_index",
    "is_an_iter_dataset": "check_iter_dataset_types",
    "fresh_iterators_start_over": "check_iterators_independent",
    "ends_and_stays_ended": "check_exhaustion_is_final",
    "result_fits_its_kind": "check_result_type",
    "uses_no_global_random_numbers": "check_no_global_rng",
    "leaves_its_input_alone": "check_input_not_mutated",
    "pickles_fresh": "check_pickle_new_instance",
    "pickles_after_use": "check_pickle_used_instance",
    "pickles_into_another_process": "check_pickle_across_processes",
    "pickle_is_small": "check_pickle_size",
    "same_again": "check_repeatable_read",
    "same_in_a_fresh_instance": "check_repeatable_across_instances",
    "same_in_another_process": "check_repeatable_across_processes",
    "same_in_any_order": "check_read_order_independent",
    "reads_in_threads": "check_concurrent_reads",
    "batched_equals_single": "check_batched_read_equals_single",
    "batched_keeps_the_order_asked": "check_batched_read_order",
    "batched_repeats_what_is_repeated": "check_batched_read_repeats",
    "batched_of_nothing_is_empty": "check_batched_read_empty",
    "batched_takes_arrays": "check_batched_read_array_indices",
    "batched_outside_is_an_index_error": "check_batched_read_out_of_range",
    "columns_equal_stacking": "check_columns_equal_stacked_records",
    "leaves_what_it_gave_alone": "check_elements_not_overwritten",
    "shares_no_memory_with_elements": "check_elements_not_aliased",
    "repr_holds_no_address": "check_repr_without_address",
    "repr_does_not_change": "check_repr_stable",
    "repr_is_the_same_in_another_process": "check_repr_across_processes",
    "declared_capabilities_hold": "check_declared_capabilities_present",
    "present_capabilities_are_declared": "check_present_capabilities_declared",
    "state_restores_at_every_step": "check_state_restores_new_iterator",
    "state_restores_twice": "check_state_restores_used_iterator",
    "state_survives_json": "check_state_json_round_trip",
    "state_is_a_snapshot": "check_state_is_snapshot",
    "taking_the_state_changes_nothing": "check_get_state_without_side_effects",
    "loader_reads_every_record": "check_loader_order",
    "loader_resumes_from_every_state": "check_loader_resume",
    "workers_read_the_same": "check_loader_workers",
    "shards_are_disjoint_and_complete": "check_shards_partition_records",
    "workers_read_the_same_stream": "check_stream_workers",
    "reading_takes_no_more_each_time": "check_no_leak_per_read",
    "dropping_gives_everything_back": "check_no_leak_per_instance",
    "closing_gives_everything_back": "check_close_releases_resources",
    "closing_an_iterator_gives_everything_back": "check_iterator_close_releases_resources",
    "describes_itself": "check_plugin_metadata",
    "targets_are_of_their_kind": "check_targets_match_kind",
    "requires_a_bounded_core": "check_core_requirement_bounded",
    "every_spec_has_a_case": "check_every_spec_has_case",
    "cases_show_every_capability": "check_cases_cover_capabilities",
    "writers_keep_what_sources_give": "check_writer_round_trip",
    "writers_count_what_they_wrote": "check_writer_count",
    "writers_write_nothing_as_an_empty_file": "check_writer_empty_input",
    "writers_replace_the_whole_file": "check_writer_replaces_file",
    "failing_writes_leave_what_was_there": "check_failed_write_is_atomic",
    "decoders_undo_what_writers_did": "check_decoder_inverts_writer",
    "listing_imports_nothing_heavy": "check_listing_imports",
}


def current_name(name: str) -> str:
    """Return the current name of a check; a name that never changed is returned as it is.

    Example:
        >>> current_name("same_again"), current_name("check_repeatable_read")
        ('check_repeatable_read', 'check_repeatable_read')
    """
    return CURRENT_NAMES.get(name, name)
