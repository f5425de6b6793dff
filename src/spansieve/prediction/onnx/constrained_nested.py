"""Laminar sets of candidates under constraints, by the compiled kernels alone.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spansieve.crf.evidence import DepthLabels, FlatKnown, Known, Pair, are_among, candidates_left
from spansieve.crf.flat_segments import FlatSegments, dense_index, flat_segments, offsets_of, segments_by_sentence
from spansieve.crf.kernels import RequiredDepths, cpu
from spansieve.models.under_rules import Segments, Shares, by_sentence, check_possible
from spansieve.prediction.onnx.constrained import without_pairs


class Graph(NamedTuple):
    """The graph of candidates as the kernels take it."""

    offsets: np.ndarray
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray
    scores: np.ndarray  # (N,)
    transition: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True, eq=False)
class NestedModel:
    nodes: FlatSegments
    is_required: np.ndarray  # (N,)
    scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray | None  # from a container to what it contains; none: labels do not meet
    lengths: np.ndarray
    weight: Callable[[np.ndarray], np.ndarray] | None = None  # what a probability is multiplied by, by its place
    threads: int = 1

    def given(self, known: Sequence[Known], banned: Collection[Pair] = ()) -> NestedModel:
        if banned and self.transition is None:
            raise ValueError("banned pairs need a transition between labels, which this nested model has none of")
        _, num_tokens, max_width, num_labels = self.scores.shape
        flat = FlatKnown.of(known, self.lengths, num_labels, max_width, nested=True)
        left = candidates_left(self.nodes, flat, num_tokens, nested=True)
        before = self._flat(np.flatnonzero(self.is_required))  # what was required before still is
        transition = None if self.transition is None else without_pairs(self.transition, banned)
        required = left.is_required | are_among(left.nodes, before)
        return replace(self, nodes=left.nodes, is_required=required, transition=transition)

    def best(self) -> Segments:
        graph, required = self._graph
        max_score, is_chosen = cpu.nested_best(*graph, threads=self.threads, required=required)
        check_possible(bool((max_score > -np.inf).all()))
        chosen = self._flat(np.flatnonzero(is_chosen))
        order = np.lexsort((-chosen.end, chosen.start, chosen.sentence))  # a container before what it contains
        ordered = FlatSegments(chosen.offsets, *(column[order] for column in chosen[1:]))
        return [list(found) for found in segments_by_sentence(ordered)]

    def shares(self, segments: Segments) -> Shares:
        graph, required = self._graph
        marginals = np.zeros(self.scores.size)
        marginals[self._place] = cpu.nested_sums(*graph, threads=self.threads, required=required).marginals
        place = dense_index(flat_segments(segments), self.scores.shape)
        values = marginals[place].clip(0.0, 1.0)
        return by_sentence((values if self.weight is None else values * self.weight(place)).tolist(), segments)

    def _flat(self, index: np.ndarray) -> FlatSegments:
        """The candidates at some indices, in their order."""
        offsets = offsets_of(self.nodes.sentence[index], len(self.lengths))
        return FlatSegments(offsets, *(column[index] for column in self.nodes[1:]))

    @property
    def _place(self) -> np.ndarray:
        return dense_index(self.nodes, self.scores.shape)

    @property
    def _graph(self) -> tuple[Graph, RequiredDepths | None]:
        """The graph; where there is no transition, with one label for all."""
        label, transition = self.nodes.label, self.transition
        if transition is None:
            label, transition = np.zeros_like(label), np.zeros((1, 1), self.scores.dtype)
        required = None
        if self.is_required.any():
            labels = DepthLabels(self.nodes, self.is_required, label, len(transition), self.scores.shape[1])
            by_depth = transition[np.ix_(labels.label_of, labels.label_of)]
            transition = np.where(labels.can_meet, by_depth, np.float32(-np.inf))
            label, required = labels.of_node, labels.required
        offsets, start, end = map(np.ascontiguousarray, self.nodes[:3])
        scores = self.scores.reshape(-1)[self._place]
        return Graph(offsets, start, end, np.ascontiguousarray(label), scores, transition, self.lengths), required
