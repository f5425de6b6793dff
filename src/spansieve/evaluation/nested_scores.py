"""Nested segments by level: those that lie within no other, and those that lie within one."""

from __future__ import annotations

from collections.abc import Sequence

from spansieve.data.nesting import depths
from spansieve.evaluation.scores import Scores, Segments, evaluate
from spansieve.segments import NamedSegment

LEVELS = ("all", "outer", "inner")


def evaluate_levels(gold: Sequence[Segments], predicted: Sequence[Segments]) -> dict[str, Scores]:
    """The scores of all segments, of the outer ones and of the inner ones. A segment's level is that among its own:
    of gold among gold, of predictions among predictions.

    >>> levels = evaluate_levels([[(0, 3, "ORG"), (2, 3, "LOC")]], [[(2, 3, "LOC")]])
    >>> [round(levels[name].f1, 2) for name in LEVELS]
    [0.67, 0.0, 0.0]
    """
    scores = {"all": evaluate(gold, predicted)}
    for name, is_inner in (("outer", False), ("inner", True)):
        scores[name] = evaluate([_at(s, is_inner) for s in gold], [_at(s, is_inner) for s in predicted])
    return scores


def _at(segments: Segments, is_inner: bool) -> list[NamedSegment]:
    named = [NamedSegment(*segment) for segment in segments]
    return [segment for segment, depth in zip(named, depths(named)) if (depth > 0) == is_inner]
