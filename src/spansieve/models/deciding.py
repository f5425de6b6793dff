"""From the scores of a batch to its segments, under constraints where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spansieve.crf import Distribution, Known, given
from spansieve.models.constraints import Rules, Support
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import Probability
from spansieve.models.head import Head
from spansieve.models.local_scores import local_probabilities
from spansieve.models.scoring import Scored
from spansieve.models.tagger import Tagger
from spansieve.models.under_rules import Segments, Shares, above_thresholds, check_possible, sure_of_required


class Decided(NamedTuple):
    """The decoded segments of a batch."""

    distribution: Distribution  # given what is known
    segments: Segments
    probabilities: Shares | None  # where they were wanted


def support_of(tagger: Tagger) -> Support:
    head = tagger.head
    return Support(tagger.labels, head.fits, head.max_width, head.takes_nested)


def decide(
    tagger: Tagger,
    scored: Scored,
    rules: Sequence[Rules],
    with_probabilities: bool,
    probability: Probability = "given-candidates",
) -> Decided:
    """The best set of segments of each sentence. All rules ban the same pairs."""
    head = tagger.head
    distribution = head.distribution_of(scored.scores, scored.lengths)
    if any(one.known or one.banned for one in rules):
        distribution = _given(head, distribution, [one.known for one in rules], rules[0].banned)
        check_possible(bool((distribution.max_score > float("-inf")).all()))
    segments = tagger.segments(distribution)
    if not with_probabilities and not any(one.thresholds for one in rules):
        return Decided(distribution, segments, None)
    shares = _probabilities(tagger, scored, distribution, segments, rules, probability)
    segments, shares = above_thresholds(segments, shares, rules)
    return Decided(distribution, segments, shares if with_probabilities else None)


def _given(head: Head, distribution: Distribution, known: Sequence[Known], banned=()) -> Distribution:
    return given(distribution, known, banned, tags=head.tags if isinstance(head, CRF) else None)


def _probabilities(
    tagger: Tagger,
    scored: Scored,
    distribution: Distribution,
    segments: Segments,
    rules: Sequence[Rules],
    kind: Probability,
) -> Shares:
    head = tagger.head
    shares = head.probabilities(distribution, segments)
    if kind == "with-filter" and isinstance(head, FilteredHead):
        by_filter = local_probabilities(head, scored.scores, scored.lengths, segments)
        shares = [[share * other for share, other in zip(*both)] for both in zip(shares, by_filter)]
    return sure_of_required(segments, shares, rules)
