"""Decoding under constraints, whatever the decoder: no torch here."""

from __future__ import annotations

from collections.abc import Sequence

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


def above_thresholds(segments: Segments, shares: Shares, rules: Sequence[Rules]) -> tuple[Segments, Shares]:
    """Leave out the segments whose probability is below the threshold of their label."""
    pairs = [
        [(segment, share) for segment, share in zip(found, each) if not one.is_below(segment, share)]
        for found, each, one in zip(segments, shares, rules)
    ]
    return [[segment for segment, _ in some] for some in pairs], [[share for _, share in some] for some in pairs]


def by_sentence(values: Sequence[float], segments: Sequence[Sequence[Segment]]) -> Shares:
    """One value per segment, sentence by sentence."""
    each = iter(values)
    return [[next(each) for _ in found] for found in segments]
