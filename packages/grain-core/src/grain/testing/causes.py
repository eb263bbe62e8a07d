"""Causes: which failed check explains the failure of another, so that reports show what to fix first."""

from __future__ import annotations

from collections.abc import Collection

_ROOTS = (
    "check_plugin_metadata",
    "check_all_indices_readable",
    "check_map_dataset_type",
    "check_iter_dataset_types",
    "check_result_type",
)
"""Checks without which hardly any other check of the kind can hold."""

_ELEMENTS = (
    "check_repeatable_read",
    "check_repeatable_across_instances",
    "check_read_order_independent",
    "check_get_state_without_side_effects",
    "check_iterators_independent",
)
"""Checks that the same elements are read every time, which all comparisons of elements need."""

_PICKLES = (
    "check_pickle_new_instance",
    "check_pickle_used_instance",
    "check_standard_pickle",
    "check_repeatable_across_processes",
    "check_pickle_across_processes",
)
_BATCHES = (
    "check_declared_capabilities_present",
    "check_batched_read_equals_single",
    "check_batched_read_order",
)
_STATES = ("check_state_restores_new_iterator", "check_state_restores_used_iterator")
_WRITERS = ("check_targets_match_kind", "check_writer_round_trip")
_REPRS = ("check_repr_without_address", "check_repr_stable")

_BY_WORD = {
    "pickle": _PICKLES,
    "processes": _PICKLES,
    "workers": (*_PICKLES, *_STATES),
    "loader": (*_REPRS, *_BATCHES),
    "shards": _BATCHES,
    "operations": ("check_slices", *_BATCHES),
    "batched": _BATCHES,
    "state": _STATES,
    "close": ("check_declared_capabilities_present", "check_pickle_new_instance"),
    "contents": ("check_standard_pickle",),
    "repr": _REPRS,
    "writer": _WRITERS,
    "write": _WRITERS,
    "decoder": _WRITERS,
}


def cause_of(check: str, failed: Collection[str]) -> str:
    """Return the failed check that may explain the failure of a check; empty if there is none.

    Example:
        >>> cause_of("check_pickle_size", {"check_pickle_size", "check_pickle_new_instance"})
        'check_pickle_new_instance'
        >>> cause_of("check_pickle_new_instance", {"check_pickle_size", "check_pickle_new_instance"})
        ''
    """
    words = check.split("_")
    specific = [cause for word in words for cause in _BY_WORD.get(word, ())]
    order = list(dict.fromkeys([*_ROOTS, *_ELEMENTS, *specific]))
    if check in order:  # only earlier checks explain it, so that no two explain each other
        order = order[: order.index(check)]
    return next((cause for cause in order if cause in failed), "")
