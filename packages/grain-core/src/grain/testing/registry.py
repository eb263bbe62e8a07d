"""Registry of all checks: the area, the kinds of cases and the capability of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from grain.plugins.spec import Capability
from grain.testing.case import Case, CaseKind
from grain.testing.checks import (
    aliasing,
    batches,
    capabilities,
    datasets,
    determinism,
    executor_streams,
    executors,
    functions,
    indexing,
    loading,
    pickling,
    plugin_metadata,
    representation,
    resources,
    streams,
    threads,
    writing,
)
from grain.testing.subject import Subject

MAP = frozenset({CaseKind.MAP_SOURCE})
ITER = frozenset({CaseKind.ITER_SOURCE})
SOURCES = MAP | ITER
MAP_DATASET = frozenset({CaseKind.MAP_DATASET})
STREAMS = ITER | {CaseKind.ITER_DATASET}
DATASETS = MAP_DATASET | STREAMS
INDEXED = MAP | MAP_DATASET
READ = SOURCES | DATASETS
TRANSFORM = frozenset({CaseKind.TRANSFORM})
EACH = READ | TRANSFORM
BY_INDEX = INDEXED | TRANSFORM
EXECUTOR = frozenset({CaseKind.EXECUTOR})
PLUGIN = frozenset({CaseKind.PLUGIN})


@dataclass(frozen=True)
class Check:
    """One sentence of the contract, and the function that checks it.

    Attributes:
        area: The part of the contract it belongs to.
        function: Takes a `Subject`; raises an AssertionError when the sentence does not hold, and
            `NotApplicable` when the case has nothing to check.
        kinds: The kinds of cases it applies to.
        needs: The capability that a source must declare, if any; datasets and transforms need it all.
    """

    area: str
    function: Callable[[Subject], None]
    kinds: frozenset[CaseKind]
    needs: Capability | None = None

    @property
    def name(self) -> str:
        """The name in reports and in `Case.expected_failures`."""
        return self.function.__name__

    @property
    def contract(self) -> str:
        """The sentence that must hold."""
        sentence = self._docstring().partition("\n")[0].removeprefix("Check that ")
        return sentence[0].upper() + sentence[1:]

    @property
    def fix(self) -> str:
        """How to fix a source that breaks the contract."""
        return " ".join(self._docstring().partition("\n")[2].split())

    def _docstring(self) -> str:
        return inspect.getdoc(self.function) or ""

    def applies_to(self, case: Case) -> bool:
        """Return whether the case declares the capability that the check needs."""
        declares = case.kind in SOURCES
        return self.needs is None or not declares or case.can(self.needs)


CHECKS: tuple[Check, ...] = (
    Check("indexable", indexing.check_all_indices_readable, INDEXED),
    Check("indexable", indexing.check_expected_elements, EACH),
    Check("indexable", indexing.check_out_of_range_index, MAP),
    Check("indexable", indexing.check_numpy_integer_index, INDEXED),
    #
    Check("stream", streams.check_iter_dataset_types, STREAMS),
    Check("stream", streams.check_iterators_independent, STREAMS),
    Check("stream", streams.check_exhaustion_is_final, STREAMS),
    #
    Check("dataset", datasets.check_map_dataset_type, MAP_DATASET),
    Check("dataset", datasets.check_later_epochs, MAP_DATASET),
    Check("dataset", datasets.check_slices, MAP_DATASET),
    Check("dataset", datasets.check_operations_read_dataset, MAP_DATASET),
    Check("dataset", datasets.check_known_length, STREAMS),
    Check("dataset", datasets.check_element_spec, DATASETS),
    Check("dataset", datasets.check_fingerprint_stable, DATASETS),
    Check("dataset", datasets.check_fingerprint_distinguishes, DATASETS),
    #
    Check("function", functions.check_result_type, TRANSFORM),
    Check("function", functions.check_no_global_rng, TRANSFORM),
    Check("function", functions.check_generator_used, TRANSFORM),
    Check("function", functions.check_input_not_mutated, TRANSFORM),
    Check("function", functions.check_invalid_input_raises, TRANSFORM),
    Check("function", functions.check_batch_sizes, TRANSFORM),
    #
    Check("picklable", pickling.check_pickle_new_instance, EACH),
    Check("picklable", pickling.check_standard_pickle, EACH),
    Check("picklable", pickling.check_pickle_used_instance, EACH),
    Check("picklable", pickling.check_pickle_across_processes, EACH),
    Check("picklable", pickling.check_pickle_size, EACH),
    Check("picklable", pickling.check_pickle_growth, READ),
    Check("picklable", pickling.check_pickle_without_file_contents, EACH),
    #
    Check("deterministic", determinism.check_repeatable_read, EACH),
    Check("deterministic", determinism.check_repeatable_across_instances, EACH),
    Check("deterministic", determinism.check_repeatable_across_processes, EACH),
    Check("deterministic", determinism.check_read_order_independent, BY_INDEX),
    Check("thread-safe", threads.check_concurrent_reads, BY_INDEX, Capability.THREAD_SAFE),
    #
    Check("batched", batches.check_batched_read_equals_single, INDEXED, Capability.BATCHED_READ),
    Check("batched", batches.check_batched_read_order, INDEXED, Capability.BATCHED_READ),
    Check("batched", batches.check_batched_read_repeats, INDEXED, Capability.BATCHED_READ),
    Check("batched", batches.check_batched_read_empty, INDEXED, Capability.BATCHED_READ),
    Check("batched", batches.check_batched_read_array_indices, INDEXED, Capability.BATCHED_READ),
    Check("batched", batches.check_batched_read_out_of_range, MAP, Capability.BATCHED_READ),
    Check("batched", batches.check_columns_equal_stacked_records, MAP, Capability.COLUMNS),
    #
    Check("memory", aliasing.check_elements_not_overwritten, EACH),
    Check("memory", aliasing.check_elements_not_aliased, EACH),
    #
    Check("repr", representation.check_repr_without_address, MAP),
    Check("repr", representation.check_repr_stable, MAP),
    Check("repr", representation.check_repr_across_processes, MAP),
    #
    Check("capabilities", capabilities.check_declared_capabilities_present, SOURCES),
    Check("capabilities", capabilities.check_present_capabilities_declared, SOURCES),
    #
    Check("state", streams.check_state_restores_new_iterator, STREAMS),
    Check("state", streams.check_state_restores_used_iterator, STREAMS),
    Check("state", streams.check_state_json_round_trip, STREAMS),
    Check("state", streams.check_state_is_snapshot, STREAMS),
    Check("state", streams.check_get_state_without_side_effects, STREAMS),
    #
    Check("loader", loading.check_loader_order, MAP),
    Check("loader", loading.check_loader_resume, MAP),
    Check("loader", loading.check_loader_workers, MAP),
    Check("loader", loading.check_shards_partition_records, MAP),
    Check("loader", loading.check_stream_workers, STREAMS),
    #
    Check("resources", resources.check_no_leak_per_read, EACH),
    Check("resources", resources.check_no_leak_per_instance, EACH),
    Check("resources", resources.check_close_releases_resources, MAP, Capability.CLOSABLE),
    Check("resources", resources.check_iterator_close_releases_resources, STREAMS),
    Check("resources", datasets.check_closed_iterator, STREAMS),
    #
    Check("executor", executors.check_pool_members, EXECUTOR),
    Check("executor", executors.check_pool_costs, EXECUTOR),
    Check("executor", executors.check_executor_reusable, EXECUTOR),
    Check("executor", executors.check_results_match_tickets, EXECUTOR),
    Check("executor", executors.check_no_result_lost, EXECUTOR),
    Check("executor", executors.check_result_taken_once, EXECUTOR),
    Check("executor", executors.check_task_errors_raised, EXECUTOR),
    Check("executor", executors.check_submit_does_not_block, EXECUTOR),
    Check("executor", executors.check_capacity_tasks_together, EXECUTOR),
    Check("executor", executors.check_affinity_order, EXECUTOR),
    Check("executor", executors.check_definitions_precede_tasks, EXECUTOR),
    Check("executor", executors.check_tasks_by_value, EXECUTOR),
    Check("executor", executors.check_results_writable, EXECUTOR),
    Check("executor", executors.check_close_is_final, EXECUTOR),
    Check("executor", executors.check_close_releases_workers, EXECUTOR),
    Check("executor", executor_streams.check_fused_stream, EXECUTOR),
    Check("executor", executor_streams.check_ordered_stream, EXECUTOR),
    Check("executor", executor_streams.check_failing_stream, EXECUTOR),
    Check("executor", executor_streams.check_undivided_stream, EXECUTOR),
    #
    Check("metadata", plugin_metadata.check_plugin_metadata, PLUGIN),
    Check("metadata", plugin_metadata.check_targets_match_kind, PLUGIN),
    Check("metadata", plugin_metadata.check_core_requirement_bounded, PLUGIN),
    Check("metadata", plugin_metadata.check_every_spec_has_case, PLUGIN),
    Check("metadata", plugin_metadata.check_cases_cover_capabilities, PLUGIN),
    Check("writer", writing.check_writer_round_trip, PLUGIN),
    Check("writer", writing.check_writer_count, PLUGIN),
    Check("writer", writing.check_writer_empty_input, PLUGIN),
    Check("writer", writing.check_writer_replaces_file, PLUGIN),
    Check("writer", writing.check_failed_write_is_atomic, PLUGIN),
    Check("writer", writing.check_decoder_inverts_writer, PLUGIN),
    Check("import-light", plugin_metadata.check_listing_imports, PLUGIN),
)


def checks_for(case: Case) -> tuple[Check, ...]:
    """Return the checks of a case's kind in order, those for undeclared capabilities included.

    Example:
        >>> [check.name for check in checks_for(Case(name="p", make=object, kind="plugin"))][:2]
        ['check_plugin_metadata', 'check_targets_match_kind']
    """
    return tuple(check for check in CHECKS if case.kind in check.kinds)
