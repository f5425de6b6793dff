"""Overlapping gold in a model that has no overlaps: which segments stay.

The rule: the widest first; of equal width the one that starts first; then by the name of the label. A segment stays
when it shares no token with one that stayed before it. Of nested segments the outermost therefore stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spansieve.data.example import Example
from spansieve.segments import NamedSegment


def flat(example: Example) -> tuple[Example, tuple[NamedSegment, ...]]:
    """The example with disjoint segments only, and the segments that it lost.

    >>> kept, dropped = flat(Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")]))
    >>> kept.segments, dropped
    ((NamedSegment(start=0, end=3, label='ORG'),), (NamedSegment(start=2, end=3, label='LOC'),))
    """
    if not example.has_overlaps():
        return example, ()
    taken: set[int] = set()
    kept, dropped = [], []
    for segment in sorted(example.segments, key=lambda s: (-s.width, s.start, s.label)):
        tokens = range(segment.start, segment.end)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            kept.append(segment)
        else:
            dropped.append(segment)
    return replace(example, segments=tuple(kept)), tuple(sorted(dropped))


def flat_examples(examples: Iterable[Example]) -> tuple[list[Example], int]:
    """Every example made flat, and how many segments were lost."""
    pairs = [flat(example) for example in examples]
    return [example for example, _ in pairs], sum(len(dropped) for _, dropped in pairs)
