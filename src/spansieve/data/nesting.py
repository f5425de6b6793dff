"""Nested segments: which gold a nested model can learn, and how deep a segment lies.

A nested model takes sets of segments any two of which share no token, or one of which is the wider and contains the
other. What it cannot take are segments that cross, and two labels on one span. The rule: the widest first; of equal
width the one that starts first; then by the name of the label. A segment stays unless it crosses one that stayed before
it or has the span of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from spansieve.data.example import Example
from spansieve.segments import NamedSegment


def laminar(example: Example) -> tuple[Example, tuple[NamedSegment, ...]]:
    """The example with segments that nest or share no token, and the segments that it lost.

    >>> nested, dropped = laminar(Example.of("Bank of China Tower", [(0, 3, "ORG"), (2, 3, "LOC"), (2, 4, "LOC")]))
    >>> [tuple(s) for s in nested.segments], [tuple(s) for s in dropped]
    ([(0, 3, 'ORG'), (2, 3, 'LOC')], [(2, 4, 'LOC')])
    """
    if not example.has_overlaps():
        return example, ()
    kept: list[NamedSegment] = []
    dropped: list[NamedSegment] = []
    for segment in sorted(example.segments, key=lambda s: (-s.width, s.start, s.label)):
        fits = all(_is_apart(segment, wider) or _is_within(segment, wider) for wider in kept)
        (kept if fits else dropped).append(segment)
    return replace(example, segments=tuple(kept)), tuple(sorted(dropped))


class Placed(Protocol):
    """A segment of tokens, or an entity of characters."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def depths(segments: Sequence[Placed]) -> list[int]:
    """How many of the segments each lies within; of those on its own span it lies in none.

    >>> depths([NamedSegment(0, 4, "ORG"), NamedSegment(0, 2, "PER"), NamedSegment(5, 6, "LOC")])
    [0, 1, 0]
    """
    found = [0] * len(segments)
    around: list[Placed] = []
    for k in sorted(range(len(segments)), key=lambda k: (segments[k].start, -segments[k].end)):
        segment = segments[k]
        around = [other for other in around if other.end > segment.start]
        found[k] = sum(_is_within(segment, other) for other in around)
        around.append(segment)
    return found


def _is_apart(segment: Placed, other: Placed) -> bool:
    return segment.end <= other.start or other.end <= segment.start


def _is_within(segment: Placed, other: Placed) -> bool:
    is_inside = other.start <= segment.start and segment.end <= other.end
    return is_inside and segment.end - segment.start < other.end - other.start
