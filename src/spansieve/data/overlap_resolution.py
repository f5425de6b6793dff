"""Overlapping gold: which segments a flat or a nested model can learn, and how deep a segment lies.

A flat model takes segments that share no token. A nested model also takes segments of which one is the wider and
contains the other; what it cannot take are segments that cross, and two labels on one span. The rule for both: the
widest first; of equal width the one that starts first; then by the name of the label. A segment stays when it is
compatible with all that stayed before it. In a flat model the outermost of nested segments therefore stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spansieve.data.example import Example
from spansieve.segments import NamedSegment


def flat(example: Example) -> tuple[Example, tuple[NamedSegment, ...]]:
    """The example with disjoint segments only, and the segments that it lost.

    >>> kept, dropped = flat(Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")]))
    >>> kept.segments, dropped
    ((NamedSegment(start=0, end=3, label='ORG'),), (NamedSegment(start=2, end=3, label='LOC'),))
    """
    return _resolved(example, may_nest=False)


def flat_examples(examples: Iterable[Example]) -> tuple[list[Example], int]:
    """Every example made flat, and how many segments were lost."""
    pairs = [flat(example) for example in examples]
    return [example for example, _ in pairs], sum(len(dropped) for _, dropped in pairs)


def laminar(example: Example) -> tuple[Example, tuple[NamedSegment, ...]]:
    """The example with segments that nest or share no token, and the segments that it lost.

    >>> nested, dropped = laminar(Example.of("Bank of China Tower", [(0, 3, "ORG"), (2, 3, "LOC"), (2, 4, "LOC")]))
    >>> [tuple(s) for s in nested.segments], [tuple(s) for s in dropped]
    ([(0, 3, 'ORG'), (2, 3, 'LOC')], [(2, 4, 'LOC')])
    """
    return _resolved(example, may_nest=True)


def depths(segments: Sequence[tuple[Any, ...]]) -> list[int]:
    """How many of the segments, or entities, each lies within; of those on its own span it lies in none.

    >>> depths([NamedSegment(0, 4, "ORG"), NamedSegment(0, 2, "PER"), NamedSegment(5, 6, "LOC")])
    [0, 1, 0]
    """
    depth = [0] * len(segments)
    around: list[tuple[int, int]] = []
    for k in sorted(range(len(segments)), key=lambda k: (segments[k][0], -segments[k][1])):
        start, end = span = segments[k][:2]
        around = [other for other in around if other[1] > start]
        # None of them starts later.
        depth[k] = sum(other[1] >= end and other != span for other in around)
        around.append(span)
    return depth


def _resolved(example: Example, may_nest: bool) -> tuple[Example, tuple[NamedSegment, ...]]:
    if not example.has_overlaps():
        return example, ()
    kept: list[NamedSegment] = []
    dropped: list[NamedSegment] = []
    innermost = np.full(len(example), -1)  # which of those kept is the innermost around each token
    for segment in sorted(example.segments, key=lambda s: (-s.width, s.start, s.label)):
        # None of those kept is narrower: one that shares a token has the first or the last of them.
        first, last = innermost[segment.start], innermost[segment.end - 1]
        if first == last and (first < 0 or (may_nest and kept[first].width > segment.width)):
            innermost[segment.start : segment.end] = len(kept)
            kept.append(segment)
        else:
            dropped.append(segment)
    return replace(example, segments=tuple(kept)), tuple(sorted(dropped))
