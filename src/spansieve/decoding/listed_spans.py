"""Spans that others have scored, placed on the graph of candidates: no torch here.

Axes: N spans.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spansieve.crf.evidence import FlatKnown
from spansieve.crf.flat_segments import FlatSegments, sorted_by_end
from spansieve.crf.kernels import ScoreError
from spansieve.decoding.batch_scores import CandidateScores, NestedScores
from spansieve.decoding.constraints import ConstraintError, Constraints, Support
from spansieve.segments import LabelSet


class ListedSpans(NamedTuple):
    """Spans with a score each, to be decoded with ranks for positions, since the kernels take time for each of them."""

    batch: CandidateScores | NestedScores
    positions: np.ndarray  # by rank

    @classmethod
    def of(
        cls,
        segments: FlatSegments,
        scores: np.ndarray,
        labels: LabelSet,
        is_nested: bool,
        constraints: Sequence[Constraints | None] = (),
    ) -> ListedSpans:
        """Take segments sorted by (sentence, end, start, label), and the constraints of each sentence, or none."""
        parts = [part for one in constraints if one for part in (*one.required, *one.forbidden, *one.complete)]
        bounds = np.array([part[:2] for part in parts], np.int64).reshape(-1)
        positions = np.unique(np.concatenate((segments.start, segments.end, bounds, [0])))
        length = len(positions) - 1
        start, end = (np.searchsorted(positions, column) for column in segments[1:3])
        ranked, lengths = segments._replace(start=start, end=end), np.full(len(segments.offsets) - 1, length)
        is_required = np.zeros(len(scores), bool)
        if any(constraints):
            support, names = Support(labels, length, is_nested), [str(position) for position in positions[:-1]]
            rules = [support.rules(one and _moved(one, positions), names) for one in constraints]
            if any(rule.banned for rule in rules):
                raise ConstraintError("banned pairs of labels must be given to a token classifier, got them for spans")
            known = FlatKnown.of([rule.known for rule in rules], lengths, len(labels), None, is_nested)
            nodes, is_required, _ = known.candidates_left(ranked, length, is_nested)
            scores = np.append(scores, 0.0)[nodes.index_in(ranked)]  # what is required need not be listed
            ranked = nodes
        if is_nested:
            return cls(NestedScores(ranked, scores, None, lengths, is_required=is_required), positions)
        transition = np.zeros((len(labels), len(labels)))
        return cls(CandidateScores(ranked, scores, transition, lengths, skip=~is_required), positions)

    def best(self) -> FlatSegments:
        """Return the spans of the largest score together, from left to right, a container first."""
        segments = self._placed(self.batch.best()[1])
        return segments.outermost_first()

    def marginals(self) -> tuple[FlatSegments, np.ndarray]:
        """Return every span that is left with its probability, (M,), sorted as they came."""
        segments = self.batch.segments
        return self._placed(segments), self.batch.probabilities(segments).clip(0.0, 1.0)

    def _placed(self, segments: FlatSegments) -> FlatSegments:
        return segments._replace(start=self.positions[segments.start], end=self.positions[segments.end])


def above_cutoff(
    segments: FlatSegments, probabilities: np.ndarray, cutoff: float, labels: LabelSet, is_nested: bool
) -> tuple[FlatSegments, np.ndarray]:
    """Find the set, disjoint or laminar, with the largest sum of probability - cutoff, and the probabilities in it.

    By exact marginals it is exactly the set with the largest expected true positives - cutoff * predicted. Where the
    cutoff is half of F*, the largest ratio 2·E[true positives] / (predicted + E[gold]) of all sentences together, it
    reaches F* (Dinkelbach). That ratio of expectations stands for the expected F1, which it approaches as sentences
    grow in number; that of single sentences is not maximised.
    """
    is_above = probabilities > cutoff
    segments, probabilities = segments.where(is_above), probabilities[is_above]
    chosen = ListedSpans.of(segments, probabilities - cutoff, labels, is_nested).best()
    return chosen, probabilities[chosen.index_in(segments)]


def _moved(constraints: Constraints, positions: np.ndarray) -> Constraints:
    """Give the constraints in ranks of positions."""

    def moved(parts: Iterable[Sequence[Any]]) -> list[Any]:
        return [(*np.searchsorted(positions, part[:2]).tolist(), *part[2:]) for part in parts]

    required, forbidden = moved(constraints.required), moved(constraints.forbidden)
    return Constraints(required, forbidden, moved(constraints.complete), constraints.banned, constraints.thresholds)


def read_spans(
    spans: Sequence[Iterable[Any]], labels: Iterable[str], are_probabilities: bool
) -> tuple[LabelSet, FlatSegments, np.ndarray]:
    """Read (start, end, label, score), or a mapping with these keys, of each span of each text: the labels and those of
    them, the segments sorted by (sentence, end, start, label), and their log-odds, (M,)."""
    listed = [(b, *_read_span(span)) for b, row in enumerate(spans) for span in row]
    known = LabelSet(dict.fromkeys((*labels, *sorted({label for *_, label, _ in listed}))))
    rows = [(b, start, end, known.id(label)) for b, start, end, label, _ in listed]
    if len(set(rows)) < len(rows):
        b, *twice = next(row for row in listed if rows.count((*row[:3], known.id(row[3]))) > 1)
        raise ValueError(f"a span must be listed once with a label, got {tuple(twice[:3])} of text {b} twice")
    scores = np.array([score for *_, score in listed], np.float64)
    if not scores.max(initial=0.0) < np.inf:
        raise ScoreError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")
    segments, order = sorted_by_end([np.array(rows, np.int64).reshape(-1, 4).T], len(spans))
    scores = (_log_odds(scores) if are_probabilities else scores)[order]
    return known, segments.where(scores > -np.inf), scores[scores > -np.inf]


def _read_span(span: Any) -> tuple[int, int, str, float]:
    if isinstance(span, Mapping):
        span = tuple(span[name] for name in ("start", "end", "label", "score"))
    if not isinstance(span, (tuple, list)) or len(span) != 4:
        raise TypeError(f"spans must be one list of (start, end, label, score) per text, got {span!r:.80} in one")
    start, end, label, score = span
    if not 0 <= operator.index(start) < operator.index(end):
        raise ValueError(f"a span must have 0 <= start < end, got {span!r:.80}")
    return start, end, label, float(score)


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Return the log-odds of probabilities, of which 1 is taken for the last number before 1 in float32."""
    is_wrong = ~((probabilities >= 0) & (probabilities <= 1))
    if is_wrong.any():
        came = probabilities[is_wrong][0]
        raise ScoreError(f"scores must be probabilities from 0 to 1, got {came}; score='log-odds' takes other numbers")
    with np.errstate(divide="ignore"):
        return np.log(probabilities) - np.log1p(-probabilities.clip(max=1 - 2.0**-24))
