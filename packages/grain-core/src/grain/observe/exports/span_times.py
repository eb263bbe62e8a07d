"""How long single pieces of work took, from the spans of a timeline."""

from __future__ import annotations

from collections.abc import Iterable

from grain.observe.statistics import Span


def times_per_element(spans: Iterable[Span]) -> dict[int, tuple[float, float]]:
    """Return the least and the greatest own time per element of each node, in seconds.

    The own time of a span is its duration without the spans inside of it. Spans without elements, such as
    those of a call that found the end, are left out.

    >>> times_per_element([Span("a", 1, 0.0, 5.0, 1), Span("a", 0, 1.0, 3.0, 2)])
    {1: (2.0, 2.0), 0: (1.5, 1.5)}
    """
    found: dict[int, tuple[float, float]] = {}
    tracks: dict[str, list[Span]] = {}
    for span in spans:
        tracks.setdefault(span.track, []).append(span)
    for track in tracks.values():
        track.sort(key=lambda span: (span.start, -span.duration))
        inside = [0.0] * len(track)
        open_spans: list[int] = []
        for number, span in enumerate(track):
            while open_spans and _end(track[open_spans[-1]]) <= span.start:
                open_spans.pop()
            if open_spans:
                inside[open_spans[-1]] += span.duration
            open_spans.append(number)
        for span, other in zip(track, inside, strict=True):
            if span.elements > 0:
                own = max(0.0, span.duration - other) / span.elements
                least, greatest = found.get(span.node, (own, own))
                found[span.node] = min(least, own), max(greatest, own)
    return found


def _end(span: Span) -> float:
    return span.start + span.duration
