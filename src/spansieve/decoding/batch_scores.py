"""The scores of a batch under each kind of model: their best segments, the probabilities of these, and the same given
constraints. By the compiled kernels, without torch.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates, M segments.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from spansieve.crf.evidence import DepthLabels, FlatKnown, Known, Left, Pair, in_banned_pair
from spansieve.crf.flat_segments import FlatSegments, dense_index, segments_of_starts, sorted_by_end
from spansieve.crf.kernels import cpu
from spansieve.crf.tag_automaton import WatchedTags, tag_pairs
from spansieve.decoding.tag_codec import Chain, TagCodec
from spansieve.segments import Segment


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
        chain = Chain.from_scores(*self._chain[1:], self.lengths)
        return self.codec.probabilities(chain, segments, self._tags_of)

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        chain, opened = Chain.from_scores(*self._chain[1:], self.lengths), self._by_label(self.codec.opened)
        rows, values = self.codec.likely_segments(chain, opened, least, self._tags_of)
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

    def _tags_of(self, b: int, segment: Segment) -> list[int]:
        automaton = self._chain[0]
        return self.codec.of_segment(segment) if automaton is None else automaton.of_segment(b, segment)

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
        is_impossible = FlatKnown.of(known, self.lengths, shape[3], shape[2]).impossible_segments(shape)
        scores = np.where(is_impossible, np.float32(-np.inf), self.scores)
        return replace(self, scores=scores, transition=_without_pairs(self.transition, banned))

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        max_score, widths, labels = cpu.semi_markov_best(self.scores, self.transition, self.lengths, self.threads)
        return max_score, segments_of_starts(widths, labels)

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        return self._marginals.reshape(-1)[dense_index(segments, self.scores.shape)]

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        named = self._marginals[..., 1:]
        sentence, start, width, label = at = np.nonzero(named > least)
        columns = (sentence, start, start + width + 1, label + 1)
        segments, order = sorted_by_end([columns], len(self.lengths))
        return segments, named[at][order]

    def coverage(self) -> np.ndarray:
        # Of the segments that start o tokens before, those wider than o.
        reaching = self._marginals[:, :, ::-1].cumsum(2, dtype=np.float64)[:, :, ::-1]
        covered = reaching[:, :, 0].copy()
        for offset in range(1, min(reaching.shape[1:3])):
            covered[:, offset:] += reaching[:, :-offset, offset]
        return covered

    def expected_counts(self) -> np.ndarray:
        return self._marginals.sum((1, 2), dtype=np.float64)

    @cached_property
    def _marginals(self) -> np.ndarray:
        return cpu.semi_markov_sums(self.scores, self.transition, self.lengths, True, self.threads).marginals


@dataclass(frozen=True, eq=False)
class _OfCandidates:
    """Scores of candidates, whichever sets of them there may be: what follows from their marginals."""

    segments: FlatSegments  # the candidates, sorted by (sentence, end, start, label)
    scores: np.ndarray  # (N,): global
    transition: Any
    lengths: np.ndarray
    dense: DenseScores | None = None  # of all spans: constraints may require one that is no candidate
    threads: int = 1

    @property
    def _marginals(self) -> np.ndarray:
        raise NotImplementedError

    def probabilities(self, segments: FlatSegments) -> np.ndarray:
        return self._weighted(self._marginals[self._index_of(segments)], segments)

    def likely_segments(self, least: float) -> tuple[FlatSegments, np.ndarray]:
        values = self._weighted(self._marginals, self.segments)
        return self.segments.where(values > least), values[values > least]

    def coverage(self) -> np.ndarray:
        segments, shape = self.segments, (len(self.lengths), int(self.lengths.max()), self._num_labels)
        widths = segments.end - segments.start
        first = (segments.sentence * shape[1] + segments.start).repeat(widths)
        token = first + np.arange(len(first)) - (widths.cumsum() - widths).repeat(widths)
        index = token * shape[2] + segments.label.repeat(widths)
        return np.bincount(index, self._marginals.repeat(widths), math.prod(shape)).reshape(shape)

    def expected_counts(self) -> np.ndarray:
        shape = (len(self.lengths), self._num_labels)
        index = self.segments.sentence * shape[1] + self.segments.label
        return np.bincount(index, self._marginals, math.prod(shape)).reshape(shape)

    @property
    def _num_labels(self) -> int:
        return len(self.transition) if self.dense is None else self.dense.scores.shape[3]

    def _index_of(self, segments: FlatSegments) -> np.ndarray:
        return segments.index_in(self.segments)

    def _weighted(self, marginals: np.ndarray, segments: FlatSegments) -> np.ndarray:
        return marginals if self.dense is None else self.dense.weighted(marginals, segments)

    def _left(self, known: Sequence[Known], nested: bool) -> tuple[Left, dict[str, Any]]:
        """What is left of the candidates, and with that the first fields of the scores."""
        assert self.dense is not None
        _, num_tokens, max_width, num_labels = self.dense.scores.shape
        flat = FlatKnown.of(known, self.lengths, num_labels, max_width, nested)
        left = flat.candidates_left(self.segments, num_tokens, nested)
        return left, {"segments": left.nodes, "scores": self.dense.of_segments(left.nodes)}

    def _arguments(self, label: np.ndarray, transition: np.ndarray, **options: Any) -> dict[str, Any]:
        """The arguments of the kernels."""
        nodes = self.segments._replace(label=label)._asdict()
        own = {"scores": self.scores, "transition": transition, "lengths": self.lengths, "threads": self.threads}
        return {name: np.ascontiguousarray(column) for name, column in nodes.items()} | own | options


@dataclass(frozen=True, eq=False)
class CandidateScores(_OfCandidates):
    """Scores of candidates, for the paths of a filtered semi-Markov CRF."""

    skip: np.ndarray | bool = False  # (N,), or for all of them: whether a path may leave the candidate out
    # Where it is known: its score (B,), its segments, and their indices among the candidates (M,).
    best_path: tuple[np.ndarray, FlatSegments, np.ndarray] | None = None

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> CandidateScores:
        left, fields = self._left(known, nested=False)
        may_skip = (left.nodes.are_among(self.segments) & self.skip) | in_banned_pair(left.nodes, banned)
        transition = _without_pairs(self.transition, banned)
        return replace(self, **fields, transition=transition, skip=may_skip & ~left.is_required, best_path=None)

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        return self._best[:2]

    @cached_property
    def _best(self) -> tuple[np.ndarray, FlatSegments, np.ndarray]:
        if self.best_path is not None:
            return self.best_path
        max_score, is_chosen = cpu.filtered_best(**self._graph)
        index = np.flatnonzero(is_chosen)
        return max_score, self.segments.at(index), index

    def _index_of(self, segments: FlatSegments) -> np.ndarray:
        return self._best[2] if segments is self._best[1] else super()._index_of(segments)

    @cached_property
    def _marginals(self) -> np.ndarray:
        return cpu.filtered_sums(**self._graph).marginals

    @property
    def _graph(self) -> dict[str, Any]:
        return self._arguments(self.segments.label, self.transition, skip=self.skip)


@dataclass(frozen=True, eq=False)
class NestedScores(_OfCandidates):
    """Scores of candidates, for laminar sets of them. The transition goes from a container to what it contains; None:
    there is no score of that."""

    is_required: np.ndarray | None = None  # (N,)

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> NestedScores:
        if banned and self.transition is None:
            raise ValueError("banned pairs need a transition between labels, which this nested model has none of")
        left, fields = self._left(known, nested=True)
        transition = None if self.transition is None else _without_pairs(self.transition, banned)
        return replace(self, **fields, transition=transition, is_required=left.is_required)

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        max_score, is_chosen = cpu.nested_best(**self._graph)
        chosen = self.segments.where(is_chosen)
        return max_score, chosen.outermost_first()

    @cached_property
    def _marginals(self) -> np.ndarray:
        return cpu.nested_sums(**self._graph).marginals

    @cached_property
    def _graph(self) -> dict[str, Any]:
        """The arguments of the kernels; where there is no transition, with one label for all."""
        label, transition, required = self.segments.label, self.transition, None
        if transition is None:
            label, transition = np.zeros_like(label), np.zeros((1, 1), self.scores.dtype)
        if self.is_required is not None and self.is_required.any():
            num_tokens = int(self.lengths.max(initial=0))
            labels = DepthLabels(self.segments, self.is_required, label, len(transition), num_tokens)
            by_depth = transition[np.ix_(labels.label_of, labels.label_of)]
            transition = np.where(labels.can_meet, by_depth, np.float32(-np.inf))
            label, required = labels.of_node, labels.required
        return self._arguments(label, transition, required=required)


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


def _without_pairs(transition: np.ndarray, banned: Collection[Pair]) -> np.ndarray:
    transition = transition.copy()
    for pair in banned:
        transition[pair] = -np.inf
    return transition
