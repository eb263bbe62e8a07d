"""Plugins with a writer, which differ in the writer and the decoder."""

from __future__ import annotations

from grain.plugins import Kind, PluginSpec, hookimpl
from grain.testing import Case

from .. import writers


class Writing:
    """A plugin whose writer and decoder are functions of `tests.hostile.writers`."""

    def __init__(self, writer: str, decoder: str = "decode"):
        self._writer = writer
        self._decoder = decoder

    @hookimpl
    def grain_sources(self) -> list[PluginSpec]:
        return [
            PluginSpec(
                name="hostile",
                target=f"{writers.__name__}:LinesSource",
                kind=Kind.MAP_SOURCE,
                suffixes=(".lines",),
                summary="Lines.",
                install="pip install grain-hostile",
                writer=f"{writers.__name__}:{self._writer}",
                decoder=f"{writers.__name__}:{self._decoder}",
            )
        ]

    @hookimpl
    def grain_conformance_cases(self) -> list[Case]:
        return [
            Case(
                name="lines",
                spec="hostile",
                prepare=writers.prepare,
                make=writers.make,
                elements=writers.RECORDS,
            )
        ]


good = Writing("write")
in_place = Writing("write_in_place")
loses_the_last = Writing("loses_the_last")
needs_a_list = Writing("needs_a_list")
counts_nothing = Writing("counts_nothing")
needs_a_first_element = Writing("needs_a_first_element")
writes_no_empty_file = Writing("writes_no_empty_file")
appends = Writing("appends")
refuses_an_existing_file = Writing("refuses_an_existing_file")
swallows_errors = Writing("swallows_errors")
leaves_its_temporary_file = Writing("leaves_its_temporary_file")
removes_the_existing_file = Writing("removes_the_existing_file")
decodes_by_guessing = Writing("write", "decodes_by_guessing")
decodes_to_text = Writing("write", "decodes_to_text")
missing_writer = Writing("no_such_function")
