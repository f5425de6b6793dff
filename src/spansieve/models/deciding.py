"""From the vectors of a batch's tokens to its segments, under constraints where there are any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from spansieve.crf import Distribution, Known, given
from spansieve.models.constraints import ConstraintError, Rules, Support
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import Probability
from spansieve.models.head import Head
from spansieve.models.local_scores import local_probabilities
from spansieve.models.tagger import Tagger
from spansieve.segments import Segment

Segments = list[list[Segment]]
Shares = list[list[float]]


class Decided(NamedTuple):
    """Of a batch."""

    distribution: Distribution  # given what is known
    segments: Segments
    probabilities: Shares | None  # where they were asked for


def support_of(tagger: Tagger) -> Support:
    head = tagger.head
    return Support(tagger.labels, head.fits, head.max_width, head.takes_nested)


def decide(
    tagger: Tagger,
    vectors: Tensor,
    lengths: Tensor,
    rules: Sequence[Rules],
    with_probabilities: bool,
    probability: Probability = "given-candidates",
) -> Decided:
    """The best set of segments of each sentence. All rules ban the same pairs."""
    head = tagger.head
    distribution = head.distribution(vectors, lengths)
    if any(one.known or one.banned for one in rules):
        distribution = _given(head, distribution, [one.known for one in rules], rules[0].banned)
        _check_possible(distribution)
    segments = tagger.segments(distribution)

    def shares(of: Segments) -> Shares:
        return _probabilities(tagger, vectors, lengths, distribution, of, rules, probability)

    if any(one.thresholds for one in rules):
        segments = _above_thresholds(head, distribution, segments, shares, rules)
    return Decided(distribution, segments, shares(segments) if with_probabilities else None)


def _check_possible(distribution: Distribution) -> None:
    if not (distribution.max_score > float("-inf")).all():
        raise ConstraintError(
            "no segmentation agrees with the constraints: two required entities that come one after the other may be a "
            "banned pair"
        )


def _given(head: Head, distribution: Distribution, known: Sequence[Known], banned=()) -> Distribution:
    return given(distribution, known, banned, tags=head.tags if isinstance(head, CRF) else None)


def _above_thresholds(
    head: Head,
    distribution: Distribution,
    segments: Segments,
    shares: Callable[[Segments], Shares],
    rules: Sequence[Rules],
) -> Segments:
    """What lies below its threshold is forbidden and the rest decided again, until nothing does.

    Only what would have been in the output is ever forbidden, and what comes out has nothing below: it is the best of
    all sets that have nothing below, but where only maximal sets are paths, and what is forbidden leaves the graph.
    """
    while True:
        low = [
            [segment for segment, share in zip(found, each) if one.is_below(segment, share)]
            for found, each, one in zip(segments, shares(segments), rules)
        ]
        if not any(low):
            return segments
        distribution = _given(head, distribution, [Known(forbidden=some) for some in low])
        segments = [list(head.entities(structure)) for structure in distribution.mode]


def _probabilities(
    tagger: Tagger,
    vectors: Tensor,
    lengths: Tensor,
    distribution: Distribution,
    segments: Segments,
    rules: Sequence[Rules],
    kind: Probability,
) -> Shares:
    head = tagger.head
    shares = head.probabilities(distribution, segments)
    if kind == "with-filter" and isinstance(head, FilteredHead):
        by_filter = local_probabilities(tagger, vectors, lengths, segments)
        shares = [[share * other for share, other in zip(*both)] for both in zip(shares, by_filter)]
    return [
        [1.0 if one.requires(segment) else share for segment, share in zip(found, each)]
        for found, each, one in zip(segments, shares, rules)
    ]
