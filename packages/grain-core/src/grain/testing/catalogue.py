"""The table of contents: every check there is, for which kinds, and which capability it is about."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from grain.plugins.spec import Capability
from grain.testing.case import Case, CaseKind
from grain.testing.checks import (
    batches,
    capabilities,
    determinism,
    functions,
    indexing,
    loading,
    memory,
    pickling,
    plugin,
    resources,
    streams,
    texts,
    writing,
)
from grain.testing.subject import Subject

MAP = frozenset({CaseKind.MAP_SOURCE})
ITER = frozenset({CaseKind.ITER_SOURCE})
SOURCES = MAP | ITER
TRANSFORM = frozenset({CaseKind.TRANSFORM})
EACH = SOURCES | TRANSFORM
BY_PLACE = MAP | TRANSFORM
PLUGIN = frozenset({CaseKind.PLUGIN})


@dataclass(frozen=True)
class Check:
    """One sentence of the contract, and the function that tells whether it holds.

    Attributes:
        area: Which part of the contract it belongs to.
        function: Takes a `Subject`, and raises an AssertionError when the sentence does not hold.
        kinds: The kinds of cases it is about.
        needs: The capability without which it does not apply.
    """

    area: str
    function: Callable[[Subject], None]
    kinds: frozenset[CaseKind]
    needs: Capability | None = None

    @property
    def name(self) -> str:
        """What reports and `Case.expected_failures` call it."""
        return self.function.__name__

    @property
    def contract(self) -> str:
        """The sentence that must hold."""
        return inspect.getdoc(self.function).partition("\n")[0]  # type: ignore[union-attr]

    @property
    def mend(self) -> str:
        """What to do when it does not."""
        return " ".join(inspect.getdoc(self.function).partition("\n")[2].split())  # type: ignore[union-attr]

    def applies_to(self, case: Case) -> bool:
        """Whether the sentence is about this case, given its capabilities."""
        if self.needs is None or case.kind is CaseKind.TRANSFORM:
            return True
        return case.can(self.needs)


CHECKS: tuple[Check, ...] = (
    Check("indexable", indexing.every_index_reads, MAP),
    Check("indexable", indexing.gives_the_expected_elements, EACH),
    Check("indexable", indexing.outside_is_an_index_error, MAP),
    Check("indexable", indexing.numpy_integers_index, MAP),
    #
    Check("stream", streams.is_an_iter_dataset, ITER),
    Check("stream", streams.fresh_iterators_start_over, ITER),
    Check("stream", streams.ends_and_stays_ended, ITER),
    #
    Check("function", functions.result_fits_its_kind, TRANSFORM),
    Check("function", functions.uses_no_global_random_numbers, TRANSFORM),
    Check("function", functions.leaves_its_input_alone, TRANSFORM),
    #
    Check("picklable", pickling.pickles_fresh, EACH),
    Check("picklable", pickling.pickles_after_use, EACH),
    Check("picklable", pickling.pickles_into_another_process, EACH),
    Check("picklable", pickling.pickle_is_small, EACH),
    #
    Check("deterministic", determinism.same_again, EACH),
    Check("deterministic", determinism.same_in_a_fresh_instance, EACH),
    Check("deterministic", determinism.same_in_another_process, EACH),
    Check("deterministic", determinism.same_in_any_order, BY_PLACE),
    Check("thread-safe", determinism.reads_in_threads, BY_PLACE, Capability.THREAD_SAFE),
    #
    Check("batched", batches.batched_equals_single, MAP, Capability.BATCHED_READ),
    Check("batched", batches.batched_keeps_the_order_asked, MAP, Capability.BATCHED_READ),
    Check("batched", batches.batched_repeats_what_is_repeated, MAP, Capability.BATCHED_READ),
    Check("batched", batches.batched_of_nothing_is_empty, MAP, Capability.BATCHED_READ),
    Check("batched", batches.batched_takes_arrays, MAP, Capability.BATCHED_READ),
    Check("batched", batches.batched_outside_is_an_index_error, MAP, Capability.BATCHED_READ),
    Check("batched", batches.columns_equal_stacking, MAP, Capability.COLUMNS),
    #
    Check("memory", memory.leaves_what_it_gave_alone, EACH),
    Check("memory", memory.shares_no_memory_with_elements, EACH),
    #
    Check("repr", texts.repr_holds_no_address, MAP),
    Check("repr", texts.repr_does_not_change, MAP),
    Check("repr", texts.repr_is_the_same_in_another_process, MAP),
    #
    Check("capabilities", capabilities.declared_capabilities_hold, SOURCES),
    Check("capabilities", capabilities.present_capabilities_are_declared, SOURCES),
    #
    Check("state", streams.state_restores_at_every_step, ITER),
    Check("state", streams.state_restores_twice, ITER),
    Check("state", streams.state_survives_json, ITER),
    Check("state", streams.state_is_a_snapshot, ITER),
    Check("state", streams.taking_the_state_changes_nothing, ITER),
    #
    Check("loader", loading.loader_reads_every_record, MAP),
    Check("loader", loading.loader_resumes_from_every_state, MAP),
    Check("loader", loading.workers_read_the_same, MAP),
    Check("loader", loading.shards_are_disjoint_and_complete, MAP),
    Check("loader", loading.workers_read_the_same_stream, ITER),
    #
    Check("resources", resources.reading_takes_no_more_each_time, EACH),
    Check("resources", resources.dropping_gives_everything_back, EACH),
    Check("resources", resources.closing_gives_everything_back, MAP, Capability.CLOSABLE),
    Check("resources", resources.closing_an_iterator_gives_everything_back, ITER),
    #
    Check("metadata", plugin.describes_itself, PLUGIN),
    Check("metadata", plugin.targets_are_of_their_kind, PLUGIN),
    Check("metadata", plugin.requires_a_bounded_core, PLUGIN),
    Check("metadata", plugin.every_spec_has_a_case, PLUGIN),
    Check("metadata", plugin.cases_show_every_capability, PLUGIN),
    Check("writer", writing.writers_keep_what_sources_give, PLUGIN),
    Check("writer", writing.writers_count_what_they_wrote, PLUGIN),
    Check("writer", writing.writers_write_nothing_as_an_empty_file, PLUGIN),
    Check("writer", writing.writers_replace_the_whole_file, PLUGIN),
    Check("writer", writing.failing_writes_leave_what_was_there, PLUGIN),
    Check("writer", writing.decoders_undo_what_writers_did, PLUGIN),
    Check("import-light", plugin.listing_imports_nothing_heavy, PLUGIN),
)


def checks_for(case: Case) -> tuple[Check, ...]:
    """The checks of a case's kind, in their order; those it has no capability for are among them.

    Example:
        >>> [check.name for check in checks_for(Case(name="p", make=object, kind="plugin"))][:2]
        ['describes_itself', 'targets_are_of_their_kind']
    """
    return tuple(check for check in CHECKS if case.kind in check.kinds)
