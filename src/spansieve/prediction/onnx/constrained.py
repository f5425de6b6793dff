"""Scores decoded under constraints, as `spansieve.models.deciding` does it, by the compiled kernels alone.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from spansieve.crf.evidence import (
    FlatKnown,
    Known,
    Pair,
    are_among,
    candidates_left,
    impossible_segments,
    in_banned_pair,
)
from spansieve.crf.flat_segments import FlatSegments, dense_index, flat_segments, offsets_of, segments_by_sentence
from spansieve.crf.kernels import cpu
from spansieve.crf.tag_automaton import WatchedTags, tag_pairs
from spansieve.models.constraints import Rules
from spansieve.models.segment_tags import Chain, SegmentTags
from spansieve.models.under_rules import (
    Segments,
    Shares,
    above_thresholds,
    by_sentence,
    check_possible,
    sure_of_required,
)


class Model(Protocol):
    def given(self, known: Sequence[Known], banned: Collection[Pair] = ()) -> Model:
        """The model restricted to what agrees with what is known."""

    def best(self) -> Segments: ...

    def shares(self, segments: Segments) -> Shares:
        """The probability of each segment."""


def decided(model: Model, rules: Sequence[Rules], with_probabilities: bool) -> tuple[Segments, Shares | None]:
    """Decode the best segments, with their probabilities where these are wanted. All rules ban the same pairs."""
    model = model.given([one.known for one in rules], rules[0].banned)
    segments = model.best()
    if not with_probabilities and not any(one.thresholds for one in rules):
        return segments, None
    shares = sure_of_required(segments, model.shares(segments), rules)
    segments, shares = above_thresholds(segments, shares, rules)
    return segments, shares if with_probabilities else None


@dataclass(frozen=True, eq=False)
class FilteredModel:
    nodes: FlatSegments
    skip: np.ndarray  # (N,)
    scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray
    lengths: np.ndarray
    weight: Callable[[np.ndarray], np.ndarray] | None = None  # what a probability is multiplied by, by its place

    def given(self, known: Sequence[Known], banned: Collection[Pair] = ()) -> FilteredModel:
        _, num_tokens, max_width, num_labels = self.scores.shape
        flat = FlatKnown.of(known, self.lengths, num_labels, max_width)
        left = candidates_left(self.nodes, flat, num_tokens)
        offsets = offsets_of(self.nodes.sentence[self.skip], len(self.lengths))
        may_skip = FlatSegments(offsets, *self._columns(self.skip))
        skip = (are_among(left.nodes, may_skip) | in_banned_pair(left.nodes, banned)) & ~left.is_required
        return replace(self, nodes=left.nodes, skip=skip, transition=without_pairs(self.transition, banned))

    def best(self) -> Segments:
        max_score, is_chosen = cpu.filtered_best(*self._graph)
        check_possible(bool((max_score > -np.inf).all()))
        index = is_chosen.nonzero()[0]
        chosen = FlatSegments(np.searchsorted(index, self.nodes.offsets), *self._columns(index))
        return [list(found) for found in segments_by_sentence(chosen)]

    def shares(self, segments: Segments) -> Shares:
        marginals = np.zeros(self.scores.size)
        marginals[self._place] = cpu.filtered_sums(*self._graph).marginals
        place = dense_index(flat_segments(segments), self.scores.shape)
        values = marginals[place].clip(0.0, 1.0)
        return by_sentence((values if self.weight is None else values * self.weight(place)).tolist(), segments)

    def _columns(self, index: np.ndarray) -> list[np.ndarray]:
        return [column[index] for column in self.nodes[1:]]

    @property
    def _place(self) -> np.ndarray:
        return dense_index(self.nodes, self.scores.shape)

    @property
    def _graph(self) -> tuple[np.ndarray, ...]:
        nodes = map(np.ascontiguousarray, self.nodes)
        return (*nodes, self.scores.reshape(-1)[self._place], self.transition, self.lengths, self.skip)


@dataclass(frozen=True, eq=False)
class SemiMarkovModel:
    scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray
    lengths: np.ndarray

    def given(self, known: Sequence[Known], banned: Collection[Pair] = ()) -> SemiMarkovModel:
        shape = self.scores.shape
        is_impossible = impossible_segments(FlatKnown.of(known, self.lengths, shape[3], shape[2]), shape)
        scores = np.where(is_impossible, np.float32(-np.inf), self.scores)
        return SemiMarkovModel(scores, without_pairs(self.transition, banned), self.lengths)

    def best(self) -> Segments:
        max_score, widths, labels = cpu.semi_markov_best(self.scores, self.transition, self.lengths)
        check_possible(bool((max_score > -np.inf).all()))
        sentence, start = at = labels.nonzero()
        found = FlatSegments(offsets_of(sentence, len(self.lengths)), start, start + widths[at], labels[at])
        return [list(segments) for segments in segments_by_sentence(found)]

    def shares(self, segments: Segments) -> Shares:
        marginals = cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True).marginals
        place = dense_index(flat_segments(segments), self.scores.shape)
        return by_sentence(marginals.reshape(-1)[place].clip(0.0, 1.0).tolist(), segments)


@dataclass(frozen=True, eq=False)
class ChainModel:
    scores: np.ndarray  # (B, L, Y), without what is known
    transition: np.ndarray
    lengths: np.ndarray
    tags: SegmentTags
    known: Sequence[Known] = ()

    def given(self, known: Sequence[Known], banned: Collection[Pair] = ()) -> ChainModel:
        joined = [a.joined(b) for a, b in zip(self.known, known)] if self.known else known
        return replace(self, known=joined, transition=without_pairs(self.transition, tag_pairs(banned, self.tags)))

    def best(self) -> Segments:
        written, scores, transition = self._written()
        max_score, found = cpu.linear_chain_best(scores, transition, self.lengths)
        check_possible(bool((max_score > -np.inf).all()))
        rows = zip(written.base[found].tolist(), self.lengths.tolist())
        return [list(self.tags.segments(row[:length])) for row, length in rows]

    def shares(self, segments: Segments) -> Shares:
        if not any(segments):
            return [[] for _ in segments]
        written, scores, transition = self._written()
        return self.tags.probabilities(Chain.of(scores, transition, self.lengths), segments, written.of_segment)

    def _written(self) -> tuple[WatchedTags, np.ndarray, np.ndarray]:
        _, num_tokens, num_tags = self.scores.shape
        flat = FlatKnown.of(self.known, self.lengths, self.tags.num_labels + 1, None)
        written = WatchedTags(flat, self.tags, num_tags, self.lengths, num_tokens)
        impossible = np.float32(-np.inf)
        scores = np.where(written.is_impossible(flat, num_tokens), impossible, self.scores[..., written.base])
        transition = self.transition[np.ix_(written.base, written.base)]
        return written, scores, np.where(written.can_follow(), transition, impossible)


def without_pairs(transition: np.ndarray, banned: Collection[Pair]) -> np.ndarray:
    transition = transition.copy()
    for pair in banned:
        transition[pair] = -np.inf
    return transition
