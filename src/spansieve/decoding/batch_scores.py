"""The scores of a batch under each kind of model: their best segments, the probabilities of these, and the same given
constraints. By the compiled kernels, without torch.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates, M segments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from spansieve.crf.evidence import (
    DepthLabels,
    FlatKnown,
    Known,
    Pair,
    are_among,
    candidates_left,
    impossible_segments,
    in_banned_pair,
)
from spansieve.crf.flat_segments import FlatSegments, dense_index, index_in, offsets_of, outermost_first, sorted_by_end
from spansieve.crf.kernels import cpu
from spansieve.crf.tag_automaton import WatchedTags, tag_pairs
from spansieve.decoding.tag_codec import Chain, TagCodec


class BatchScores(Protocol):
    """The scores of a batch, as one kind of model takes them."""

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> BatchScores:
        """Restrict the model to what agrees with what is known of each sentence."""

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        """Return the score of the best segmentation, (B,), and its segments, null ones left out, in order."""

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        """Return the probability of each of some segments of the model, (M,)."""

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        """Return every segment that is more probable than this, sorted by (sentence, end, start, label), with its
        probability, (M,)."""

    def coverage(self) -> np.ndarray:
        """Return P(the token is part of an entity of this label), (B, L, Y): the sum of the marginals of the segments
        over it, of which a segmentation has at most one. Under a model that nests it may have several; there it is how
        many are expected, or 1 where that is less. Column 0, of null, has no meaning."""

    def expected_counts(self) -> np.ndarray:
        """Return how many entities of each label are expected, (B, Y); column 0, of null, has no meaning."""


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Scores of tags, for a linear chain."""

    scores: np.ndarray  # (B, L, Y), start and end included, without what is known
    transition: np.ndarray
    lengths: np.ndarray
    codec: TagCodec
    threads: int = 1
    known: Sequence[Known] | None = None

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> ChainScores:
        return replace(self, known=known, transition=_without_pairs(self.transition, tag_pairs(banned, self.codec)))

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        automaton, scores, transition = self._chain
        max_score, tags = cpu.linear_chain_best(scores, transition, self.lengths, self.threads)
        tags = tags if automaton is None else automaton.base[tags]
        return max_score, self.codec.flat_segments(tags, self.lengths)

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        if not len(segments.start):
            return np.zeros(0)
        automaton, scores, transition = self._chain
        tags_of = None if automaton is None else automaton.of_segment
        return self.codec.probabilities(Chain.from_scores(scores, transition, self.lengths), segments, tags_of)

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        automaton, scores, transition = self._chain
        tags_of = None if automaton is None else automaton.of_segment
        chain, opened = Chain.from_scores(scores, transition, self.lengths), self._by_label(self.codec.opened)
        rows, values = self.codec.likely_segments(chain, opened, least, tags_of)
        segments, order = sorted_by_end([np.array(rows, np.int64).reshape(-1, 4).T], len(self.lengths))
        return segments, np.array(values)[order]

    def coverage(self) -> np.ndarray:
        return self._by_label(self.codec.label_of_tag)

    def expected_counts(self) -> np.ndarray:
        return self._by_label(self.codec.opened).sum(1)

    def _by_label(self, label_of_tag: np.ndarray) -> np.ndarray:
        """Add up the marginals of the tags of each label, (B, L, Y)."""
        automaton, scores, transition = self._chain
        marginals = cpu.linear_chain_sums(scores, transition, self.lengths, True, self.threads).marginals
        label = label_of_tag if automaton is None else label_of_tag[automaton.base]
        sums = np.zeros((*marginals.shape[:2], self.codec.num_labels + 1))
        for y in range(1, self.codec.num_labels + 1):
            sums[..., y] = marginals[..., label == y].sum(-1, dtype=np.float64)
        return sums

    @cached_property
    def _chain(self) -> tuple[WatchedTags | None, np.ndarray, np.ndarray]:
        """The chain whose tags encode what is known; without that, the chain itself."""
        if self.known is None:
            return None, self.scores, self.transition
        _, num_tokens, num_tags = self.scores.shape
        flat = FlatKnown.of(self.known, self.lengths, self.codec.num_labels + 1, None)
        automaton = WatchedTags(flat, self.codec, num_tags, self.lengths, num_tokens)
        impossible = np.float32(-np.inf)
        is_impossible = automaton.is_impossible(flat, num_tokens)
        scores = np.where(is_impossible, impossible, self.scores[..., automaton.base])
        transition = self.transition[np.ix_(automaton.base, automaton.base)]
        return automaton, scores, np.where(automaton.can_follow(), transition, impossible)


@dataclass(frozen=True, eq=False)
class SegmentScores:
    """Scores of segments that cover each sentence, for a semi-Markov CRF."""

    scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray
    lengths: np.ndarray
    threads: int = 1

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> SegmentScores:
        shape = self.scores.shape
        is_impossible = impossible_segments(FlatKnown.of(known, self.lengths, shape[3], shape[2]), shape)
        scores = np.where(is_impossible, np.float32(-np.inf), self.scores)
        return replace(self, scores=scores, transition=_without_pairs(self.transition, banned))

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        max_score, widths, labels = cpu.semi_markov_best(self.scores, self.transition, self.lengths, self.threads)
        sentence, start = index = labels.nonzero()
        offsets = offsets_of(sentence, len(self.lengths))
        return max_score, FlatSegments(offsets, start, start + widths[index], labels[index])

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        sums = cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True, self.threads)
        return sums.marginals.reshape(-1)[dense_index(segments, self.scores.shape)]

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        sums = cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True, self.threads)
        sentence, start, width, label = at = np.nonzero(sums.marginals[..., 1:] > least)
        columns = (sentence, start, start + width + 1, label + 1)
        segments, order = sorted_by_end([columns], len(self.lengths))
        return segments, sums.marginals[..., 1:][at][order]

    def coverage(self) -> np.ndarray:
        sums = cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True, self.threads)
        # Of the segments that start o tokens before, those wider than o.
        reaching = sums.marginals[:, :, ::-1].cumsum(2, dtype=np.float64)[:, :, ::-1]
        covered = reaching[:, :, 0].copy()
        for offset in range(1, min(reaching.shape[1:3])):
            covered[:, offset:] += reaching[:, :-offset, offset]
        return covered

    def expected_counts(self) -> np.ndarray:
        sums = cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True, self.threads)
        return sums.marginals.sum((1, 2), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """Scores of candidates, for the paths of a filtered semi-Markov CRF."""

    segments: FlatSegments  # the candidates, sorted by (sentence, end, start, label)
    scores: np.ndarray  # (N,): global
    skip: np.ndarray | bool  # (N,), or for all of them: whether a path may leave the candidate out
    transition: np.ndarray
    lengths: np.ndarray
    dense: DenseScores | None = None  # of all spans: constraints may require one that is no candidate
    threads: int = 1
    best_path: tuple[np.ndarray, np.ndarray] | None = None  # where it is known: its score (B,), its candidates (M,)

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> CandidateScores:
        assert self.dense is not None
        _, num_tokens, max_width, num_labels = self.dense.scores.shape
        flat = FlatKnown.of(known, self.lengths, num_labels, max_width)
        left = candidates_left(self.segments, flat, num_tokens)
        may_skip = (are_among(left.nodes, self.segments) & self.skip) | in_banned_pair(left.nodes, banned)
        return replace(
            self,
            segments=left.nodes,
            scores=self.dense.of_segments(left.nodes),
            skip=may_skip & ~left.is_required,
            transition=_without_pairs(self.transition, banned),
            best_path=None,
        )

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        return self._best[:2]

    @cached_property
    def _best(self) -> tuple[np.ndarray, FlatSegments, np.ndarray]:
        """The best path with its candidates' indices, (M,)."""
        if self.best_path is not None:
            max_score, index = self.best_path
        else:
            max_score, is_chosen = cpu.filtered_best(**self._graph)
            index = np.flatnonzero(is_chosen)
        return max_score, self.segments.at(index), index

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        index = self._best[2] if segments is self._best[1] else index_in(segments, self.segments)
        values = cpu.filtered_sums(**self._graph).marginals[index]
        return values if self.dense is None else self.dense.weighted(values, segments)

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        values = cpu.filtered_sums(**self._graph).marginals
        values = values if self.dense is None else self.dense.weighted(values, self.segments)
        return self.segments.where(values > least), values[values > least]

    def coverage(self) -> np.ndarray:
        marginals = cpu.filtered_sums(**self._graph).marginals
        return _covered(self.segments, marginals, int(self.lengths.max()), len(self.transition))

    def expected_counts(self) -> np.ndarray:
        return _counted(self.segments, cpu.filtered_sums(**self._graph).marginals, len(self.transition))

    @property
    def _graph(self) -> dict[str, Any]:
        """The arguments of the kernels."""
        columns = {name: np.ascontiguousarray(column) for name, column in self.segments._asdict().items()}
        options = {"lengths": self.lengths, "skip": self.skip, "threads": self.threads}
        return columns | options | {"scores": self.scores, "transition": self.transition}


@dataclass(frozen=True, eq=False)
class NestedScores:
    """Scores of candidates, for laminar sets of them."""

    segments: FlatSegments  # the candidates, sorted by (sentence, end, start, label)
    scores: np.ndarray  # (N,): global
    transition: np.ndarray | None  # from a container to what it contains; None: there is no score of that
    lengths: np.ndarray
    num_tokens: int
    dense: DenseScores | None = None
    threads: int = 1
    is_required: np.ndarray | None = None  # (N,)

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> NestedScores:
        if banned and self.transition is None:
            raise ValueError("banned pairs need a transition between labels, which this nested model has none of")
        assert self.dense is not None
        _, num_tokens, max_width, num_labels = self.dense.scores.shape
        flat = FlatKnown.of(known, self.lengths, num_labels, max_width, nested=True)
        left = candidates_left(self.segments, flat, num_tokens, nested=True)
        return replace(
            self,
            segments=left.nodes,
            scores=self.dense.of_segments(left.nodes),
            transition=None if self.transition is None else _without_pairs(self.transition, banned),
            is_required=left.is_required,
        )

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        max_score, is_chosen = cpu.nested_best(**self._graph)
        chosen = self.segments.where(is_chosen)
        return max_score, chosen.ordered(outermost_first(chosen))

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        marginals = cpu.nested_sums(**self._graph).marginals
        values = marginals[index_in(segments, self.segments)]
        return values if self.dense is None else self.dense.weighted(values, segments)

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        values = cpu.nested_sums(**self._graph).marginals
        values = values if self.dense is None else self.dense.weighted(values, self.segments)
        return self.segments.where(values > least), values[values > least]

    def coverage(self) -> np.ndarray:
        assert self.dense is not None
        marginals = cpu.nested_sums(**self._graph).marginals
        return _covered(self.segments, marginals, int(self.lengths.max()), self.dense.scores.shape[3]).clip(max=1.0)

    def expected_counts(self) -> np.ndarray:
        assert self.dense is not None
        return _counted(self.segments, cpu.nested_sums(**self._graph).marginals, self.dense.scores.shape[3])

    @cached_property
    def _graph(self) -> dict[str, Any]:
        """The arguments of the kernels; where there is no transition, with one label for all."""
        label, transition, required = self.segments.label, self.transition, None
        if transition is None:
            label, transition = np.zeros_like(label), np.zeros((1, 1), self.scores.dtype)
        if self.is_required is not None and self.is_required.any():
            labels = DepthLabels(self.segments, self.is_required, label, len(transition), self.num_tokens)
            by_depth = transition[np.ix_(labels.label_of, labels.label_of)]
            transition = np.where(labels.can_meet, by_depth, np.float32(-np.inf))
            label, required = labels.of_node, labels.required
        segments = self.segments._replace(label=label)
        columns = {name: np.ascontiguousarray(column) for name, column in segments._asdict().items()}
        options = {"lengths": self.lengths, "threads": self.threads, "required": required}
        return columns | options | {"scores": self.scores, "transition": transition}


class DenseScores(NamedTuple):
    """The scores of all spans behind a graph of candidates."""

    scores: np.ndarray  # (B, L, K, Y): global
    local_scores: np.ndarray | None = None  # as they were learned but for the margin; None: probabilities are marginals
    margin: float = 0.0  # by which the local score of null is lowered

    def of_segments(self, segments: FlatSegments) -> np.ndarray:
        return self.scores.reshape(-1)[dense_index(segments, self.scores.shape)]

    def weighted(self, marginals: np.ndarray, segments: FlatSegments) -> np.ndarray:
        """Multiply marginals by P(the span has this label) of the filter alone, where that is wanted."""
        if self.local_scores is None:
            return marginals
        num_labels = self.scores.shape[3]
        span, label = np.divmod(dense_index(segments, self.scores.shape), num_labels)
        rows = self.local_scores.reshape(-1, num_labels)[span].astype(np.float64)
        rows[:, 0] += self.margin
        return marginals * np.exp(rows[np.arange(len(label)), label] - np.logaddexp.reduce(rows, axis=-1))


def _covered(segments: FlatSegments, marginals: np.ndarray, num_tokens: int, num_labels: int) -> np.ndarray:
    """Add up the marginals of the segments over each token, (B, L, Y)."""
    widths = segments.end - segments.start
    first = (segments.sentence * num_tokens + segments.start).repeat(widths)
    token = first + np.arange(len(first)) - (widths.cumsum() - widths).repeat(widths)
    shape = (len(segments.offsets) - 1, num_tokens, num_labels)
    index = token * num_labels + segments.label.repeat(widths)
    return np.bincount(index, marginals.repeat(widths), shape[0] * num_tokens * num_labels).reshape(shape)


def _counted(segments: FlatSegments, marginals: np.ndarray, num_labels: int) -> np.ndarray:
    """Add up the marginals of the segments of each label, (B, Y)."""
    shape = (len(segments.offsets) - 1, num_labels)
    return np.bincount(segments.sentence * num_labels + segments.label, marginals, shape[0] * num_labels).reshape(shape)


def _without_pairs(transition: np.ndarray, banned: Collection[Pair]) -> np.ndarray:
    transition = transition.copy()
    for pair in banned:
        transition[pair] = -np.inf
    return transition
