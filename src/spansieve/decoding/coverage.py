"""Which tokens may be part of an entity, and what to take so that few of those are missed: no torch here.

Axes: T tokens, B sentences, L tokens of a sentence, Y labels without null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from spansieve.crf.flat_segments import FlatSegments, offsets_of
from spansieve.data.tokenizer import Token
from spansieve.decoding.prediction import Prediction
from spansieve.segments import Entity, NamedSegment

F1_CUTOFF = 0.4  # half of an F1 of 0.8
MIN_CUTOFF = 0.01  # below, too many segments of a long text are likely enough
Thresholds = float | np.ndarray  # of any label, or of each, (Y,): infinity where a label is left out


@dataclass(frozen=True, eq=False)
class Coverage:
    """The coverage of a text: P(the token is part of an entity of this label), of each of its tokens.

    It is exact: the segments of a segmentation are disjoint, so that the marginals of those over a token add up. Under
    a model that nests, it is how many are expected, or 1 where that is less.
    """

    text: str
    tokens: list[tuple[int, int]]  # (start, end) of each in characters
    labels: tuple[str, ...]
    probability: np.ndarray  # (T, Y)
    best: tuple[NamedSegment, ...]  # the best segmentation, in tokens of the text
    is_first: np.ndarray  # (T,): with which a sequence, such as a sentence, begins

    @property
    def in_entity(self) -> np.ndarray:
        """P(the token is part of any entity), (T,)."""
        return self.probability.sum(1).clip(max=1.0)

    def scores(self, label: str | None = None) -> np.ndarray:
        """The score by which each token is covered, as an entity of this label or as any: its probability, and 1 in an
        entity of the best segmentation, so that what is covered has all that is predicted, (T,)."""
        if label is not None:
            self._index(label)
        return covering_scores(self.probability, self.best, self.labels, label)

    def spans(self, threshold: float | Mapping[str, float]) -> list[Entity]:
        """Cover the tokens that are part of an entity with at least this probability, or of an entity of a label with
        at least that label's: other labels are left out then. The entities of the best segmentation are always covered.

        A span is a longest run of covered tokens of one label within a sentence, where a token has the label of the
        entity that is predicted there, or else its most probable one; entities that are predicted side by side stay
        two. Its probability is that of its surest token to be part of any entity.
        """
        best = [(start, end, self._index(label)) for start, end, label in self.best]
        for label in threshold if isinstance(threshold, Mapping) else ():
            self._index(label)
        runs = covered_runs(self.probability, best, self.is_first, thresholds_of(threshold, self.labels))
        spans = []
        for first, end, label, probability in zip(*(column.tolist() for column in runs)):
            start, stop = self.tokens[first][0], self.tokens[end - 1][1]
            spans.append(Entity(start, stop, self.labels[label], self.text[start:stop], probability))
        return spans

    def _index(self, label: str) -> int:
        if label not in self.labels:
            raise ValueError(f"unknown label {label!r}; known are {', '.join(self.labels)}")
        return self.labels.index(label)


def covering_scores(
    probability: np.ndarray, best: Sequence[NamedSegment], labels: Sequence[str], label: str | None
) -> np.ndarray:
    """Score the tokens, of probability (T, Y): that of being part of an entity of the label, or of any where that is
    None; 1 in such an entity of the best segmentation, (T,)."""
    scores = probability.sum(1).clip(max=1.0) if label is None else probability[:, labels.index(label)].copy()
    scores[tokens_inside(best, len(scores), label)] = 1.0
    return scores


def tokens_inside(segments: Sequence[NamedSegment], length: int, label: str | None) -> np.ndarray:
    """Mark the tokens that are in a segment of the label, or of any where that is None, (length,)."""
    is_inside = np.zeros(length, bool)
    for segment in segments:
        if label in (None, segment.label):
            is_inside[segment.start : segment.end] = True
    return is_inside


def coverage_of(text: str, labels: tuple[str, ...], pieces: Sequence[tuple[Sequence[Token], Prediction]]) -> Coverage:
    """Join what was read as one sequence each to the coverage of the text."""
    firsts = [0, *accumulate(len(tokens) for tokens, _ in pieces)]
    parts = [prediction.coverage for _, prediction in pieces if prediction.coverage is not None]
    is_first = np.zeros(firsts[-1], bool)
    is_first[firsts[:-1]] = True
    return Coverage(
        text,
        [(token.start, token.end) for tokens, _ in pieces for token in tokens],
        labels,
        np.concatenate([np.zeros((0, len(labels))), *parts]),
        tuple(
            NamedSegment(first + start, first + end, label)
            for first, (_, prediction) in zip(firsts, pieces)
            for start, end, label in prediction.segments
        ),
        is_first,
    )


# ---- What is taken of what is decoded --------------------------------------------------------------------------------


class Decision(NamedTuple):
    """What is taken of a batch in place of its best segmentation, so that a promise is kept, or F1 is larger; or with
    it."""

    f1_cutoff: float | None = None  # the set with the largest sum of probability - cutoff, by `above_cutoff`
    cover: Thresholds | None = None  # or the runs of tokens that are covered
    accept: float = 0.0  # or the entities that are at least so probable
    margin: float = 0.0  # of a filter, as coverage takes it
    with_coverage: bool = False  # beside what is taken by the cutoff, or the best segmentation

    @classmethod
    def of_objective(cls, objective: str) -> Decision | None:
        """Read what is to be largest: probability, which needs no decision, or the expected F1, as f1 or f1=0.35 with
        the cutoff, half of the F1 that is to be expected.

        >>> Decision.of_objective("f1=0.35").f1_cutoff
        0.35
        """
        name, sign, number = objective.partition("=")
        if objective == "probability":
            return None
        try:
            cutoff = float(number) if sign else F1_CUTOFF
        except ValueError:
            cutoff = 0.0
        if name != "f1" or not MIN_CUTOFF <= cutoff < 1:
            wanted = f"probability, f1 or f1=CUTOFF with a cutoff from {MIN_CUTOFF} to 1, such as f1={F1_CUTOFF}"
            raise ValueError(f"objective must be {wanted}, got {objective!r}")
        return cls(f1_cutoff=cutoff)

    def of(
        self, segments: FlatSegments, probabilities: np.ndarray, coverage: np.ndarray | None
    ) -> tuple[FlatSegments, np.ndarray]:
        """Take segments, with the probability of each."""
        if self.cover is not None:
            assert coverage is not None
            return covered_segments(coverage, segments, self.cover)
        is_accepted = probabilities.astype(np.float64) >= self.accept
        return segments.where(is_accepted), probabilities[is_accepted]


# ---- Runs of covered tokens ------------------------------------------------------------------------------------------


class Runs(NamedTuple):
    """Runs of covered tokens, from left to right."""

    first: np.ndarray
    end: np.ndarray
    label: np.ndarray  # counted from 0: null is none of them
    probability: np.ndarray


def thresholds_of(threshold: float | Mapping[str, float], labels: Sequence[str]) -> Thresholds:
    """Check one threshold for all labels, or those of some."""
    values = threshold.values() if isinstance(threshold, Mapping) else [threshold]
    for value in values:
        if not 0 < value <= 1:
            raise ValueError(f"threshold must lie in (0, 1], got {value}")
    if not isinstance(threshold, Mapping):
        return float(threshold)
    return np.array([threshold.get(label, np.inf) for label in labels])


def covered_runs(
    probability: np.ndarray, best: Sequence[tuple[int, int, int]], is_first: np.ndarray, threshold: Thresholds
) -> Runs:
    """Find the runs of tokens, of probability (T, Y), that a threshold covers, as `Coverage.spans` has them; what is
    predicted comes with its label counted from 0, a container before what it contains."""
    num_tokens, num_labels = probability.shape
    if not num_tokens:
        none = np.zeros(0, np.int64)
        return Runs(none, none, none, np.zeros(0))
    in_entity = probability.sum(1).clip(max=1.0)
    is_wanted = np.ones(num_labels, bool)
    if isinstance(threshold, np.ndarray):
        reaches, is_wanted = probability >= threshold, threshold < np.inf
        is_covered, label = np.any(reaches, 1), np.where(reaches, probability, -1.0).argmax(1)
    else:
        is_covered, label = np.asarray(in_entity >= threshold), probability.argmax(1)
    opens, closes = np.zeros((2, num_tokens + 1), bool)
    for start, stop, y in best:
        opens[start] = closes[stop] = True
        if is_wanted[y]:
            is_covered[start:stop], label[start:stop] = True, y
    begins = is_first | (opens & closes)[:-1]
    begins[1:] |= (label[1:] != label[:-1]) | ~is_covered[:-1]
    first = np.flatnonzero(begins & is_covered)
    borders = np.append(np.flatnonzero(begins | ~is_covered), num_tokens)
    end = borders[np.searchsorted(borders, first, side="right")]  # the border after each start
    bounds = np.stack((first, end), 1).reshape(-1)  # every second part is a run
    highest = np.maximum.reduceat(np.append(in_entity, 0.0), bounds)[::2] if len(first) else np.zeros(0)
    return Runs(first, end, label[first], highest)


def covered_segments(
    coverage: np.ndarray, best: FlatSegments, threshold: Thresholds
) -> tuple[FlatSegments, np.ndarray]:
    """Cover a batch, of coverage (B, L, Y + 1) with null in front: the segments, and the probability of each."""
    num_sentences, num_tokens, num_labels = coverage.shape
    shift = best.sentence * num_tokens
    flat = zip((shift + best.start).tolist(), (shift + best.end).tolist(), (best.label - 1).tolist())
    is_first = np.arange(num_sentences * num_tokens) % max(num_tokens, 1) == 0
    runs = covered_runs(coverage.reshape(-1, num_labels)[:, 1:], list(flat), is_first, threshold)
    sentence, start = np.divmod(runs.first, max(num_tokens, 1))
    segments = FlatSegments(offsets_of(sentence, num_sentences), start, start + runs.end - runs.first, runs.label + 1)
    return segments, runs.probability
