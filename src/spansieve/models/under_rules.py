"""Decoding under constraints, whatever the decoder: no torch here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spansieve.crf.evidence import Known
from spansieve.models.constraints import ConstraintError, Rules
from spansieve.segments import Segment

Segments = list[list[Segment]]  # of each sentence
Shares = list[list[float]]  # the probability of each of them


def check_possible(is_possible: bool) -> None:
    if not is_possible:
        raise ConstraintError(
            "no segmentation agrees with the constraints: two required entities that come one after the other may be a "
            "banned pair"
        )


def sure_of_required(segments: Segments, shares: Shares, rules: Sequence[Rules]) -> Shares:
    """The probabilities, but 1 for what is required, whatever rounding makes of it."""
    return [
        [1.0 if one.requires(segment) else share for segment, share in zip(found, each)]
        for found, each, one in zip(segments, shares, rules)
    ]


def above_thresholds(
    segments: Segments,
    shares: Callable[[Segments], Shares],
    rules: Sequence[Rules],
    again: Callable[[Sequence[Known]], Segments],
) -> Segments:
    """Forbid what lies below its threshold and decode the rest again, until nothing does. `again` decodes given what is
    passed to it, and all that was passed before.

    Only what would have been in the output is ever forbidden, and what comes out has nothing below: it is the best of
    all sets that have nothing below, but where only maximal sets are paths, and what is forbidden leaves the graph.
    """
    while any(one.thresholds for one in rules):
        low = [
            [segment for segment, share in zip(found, each) if one.is_below(segment, share)]
            for found, each, one in zip(segments, shares(segments), rules)
        ]
        if not any(low):
            break
        segments = again([Known(forbidden=some) for some in low])
    return segments


def by_sentence(values: Sequence[float], segments: Sequence[Sequence[Segment]]) -> Shares:
    """One value per segment, sentence by sentence."""
    each = iter(values)
    return [[next(each) for _ in found] for found in segments]
