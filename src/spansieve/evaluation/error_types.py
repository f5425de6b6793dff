"""What kinds of errors predictions have: missed, invented, a wrong label, a wrong boundary, or both wrong.

A segment is right when gold has the same start, end and label. Of the others, a gold segment and a predicted one that
share a token are paired, each with one at most, the closest first:

1. the same span with another label, a *wrong label*;
2. the same label on another span, a *wrong boundary*;
3. another label on another span, *both*;

within 2 and 3 by the number of tokens that both have, divided by the number that either has; what is still equal, by
the order of the gold segments and then of the predicted ones. A pair is one error. What is left of gold is *missed*,
what is left of the predictions is *invented*. So each segment that is not right is in exactly one error, and no two
segments are closer to each other than both are to those that they are paired with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from spansieve.evaluation.scores import Segments, segment_sets
from spansieve.segments import NamedSegment

PAIRED_KINDS = ("wrong label", "wrong boundary", "both")  # the closest first
ERROR_KINDS = ("missed", "invented", *PAIRED_KINDS)


class SegmentError(NamedTuple):
    """An error: a gold segment, a predicted one, or two that are paired."""

    sentence: int
    kind: str
    gold: NamedSegment | None
    predicted: NamedSegment | None
    probability: float | None  # of the predicted one


@dataclass(frozen=True)
class ErrorAnalysis:
    """The errors of a corpus, sentence by sentence and from left to right, and their counts."""

    errors: tuple[SegmentError, ...]
    right: Mapping[str, int]  # by label

    @cached_property
    def by_label(self) -> dict[str, dict[str, int]]:
        """How many errors of each kind a label has: gold's label or, of what is invented, the predicted one."""
        counts = Counter(((error.gold or error.predicted or ("",))[-1], error.kind) for error in self.errors)
        return {label: {kind: counts[label, kind] for kind in ERROR_KINDS} for label in sorted({n for n, _ in counts})}

    @property
    def by_kind(self) -> dict[str, int]:
        return {kind: sum(counts[kind] for counts in self.by_label.values()) for kind in ERROR_KINDS}

    @cached_property
    def confusion(self) -> Counter[tuple[str | None, str | None]]:
        """How often a gold label was predicted as a label: (gold, predicted), with None where there is no segment.

        What is right, and pairs with a wrong boundary, have one label twice. The counts of a gold label add up to its
        gold segments, those of a predicted label to its predictions.
        """
        pairs = [(error.gold and error.gold.label, error.predicted and error.predicted.label) for error in self.errors]
        return Counter(pairs) + Counter({(label, label): count for label, count in self.right.items()})

    def to_dict(self) -> dict[str, Any]:
        confusion = [dict(zip(("gold", "predicted", "count"), (*pair, n))) for pair, n in self.confusion.most_common()]
        return {"by_kind": self.by_kind, "by_label": self.by_label, "confusion": confusion}


def analyse_errors(
    gold: Sequence[Segments],
    predicted: Sequence[Sequence[tuple[int, int, str]]],
    probabilities: Sequence[Sequence[float]] | None = None,
) -> ErrorAnalysis:
    """Find the errors of predictions; `probabilities[b][i]` is that of `predicted[b][i]`.

    >>> analysis = analyse_errors([[(0, 2, "PER"), (4, 6, "LOC")]], [[(0, 2, "ORG"), (4, 5, "LOC"), (7, 8, "LOC")]])
    >>> analysis.by_kind
    {'missed': 0, 'invented': 1, 'wrong label': 1, 'wrong boundary': 1, 'both': 0}
    """
    errors: list[SegmentError] = []
    right: Counter[str] = Counter()
    for sentence, (truth, guess) in enumerate(segment_sets(gold, predicted)):
        given = () if probabilities is None else probabilities[sentence]
        probability = {NamedSegment(*segment): value for segment, value in zip(predicted[sentence], given)}
        right.update(segment.label for segment in truth & guess)
        for kind, wanted, found in _paired(truth - guess, guess - truth):
            errors.append(SegmentError(sentence, kind, wanted, found, found and probability.get(found)))
    return ErrorAnalysis(tuple(errors), right)


def _paired(
    gold: set[NamedSegment], predicted: set[NamedSegment]
) -> list[tuple[str, NamedSegment | None, NamedSegment | None]]:
    overlapping = [pair for pair in product(gold, predicted) if _shared(*pair) > 0]
    errors: dict[NamedSegment, tuple[str, NamedSegment | None, NamedSegment | None]] = {}  # by where they stand
    missed, invented = set(gold), set(predicted)
    for wanted, found in sorted(overlapping, key=lambda pair: closeness(*pair)):
        if wanted in missed and found in invented:
            missed.remove(wanted)
            invented.remove(found)
            errors[wanted] = (PAIRED_KINDS[closeness(wanted, found)[0]], wanted, found)
    errors |= {segment: ("missed", segment, None) for segment in missed}
    errors |= {segment: ("invented", None, segment) for segment in invented}
    return [errors[segment] for segment in sorted(errors)]


def closeness(gold: NamedSegment, predicted: NamedSegment) -> tuple[int, float, NamedSegment, NamedSegment]:
    """The key that pairs are sorted by, the closest first, where they share a token: its first entry is the kind of
    error. No two pairs have the same key."""
    shared = _shared(gold, predicted)
    kind = 0 if gold[:2] == predicted[:2] else 1 if gold.label == predicted.label else 2
    return kind, -shared / (gold.width + predicted.width - shared), gold, predicted


def _shared(gold: NamedSegment, predicted: NamedSegment) -> int:
    return min(gold.end, predicted.end) - max(gold.start, predicted.start)
