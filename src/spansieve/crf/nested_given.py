"""Laminar sets that have certain segments.

Axes: B sentences, L tokens, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.distribution import Distribution
from spansieve.crf.filtered_from_scores import dense_positions
from spansieve.crf.gold import Parts
from spansieve.crf.kernels import RequiredDepths
from spansieve.crf.nested import NestedSegments
from spansieve.crf.structures import FlatSegments, named
from spansieve.segments import Segment


class NestedGiven(NestedSegments):
    """Laminar sets with all of the required candidates, which no other crosses and with whose span there is no other.

    A label becomes one for each depth in required segments: how deep the segment lies, and how deep what it contains.
    A segment may then be right below another only where that one's content is as deep as it is itself, or a required
    segment would be missing between the two; and likewise a token that is in no further segment.
    """

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor | None,
        dense_scores: Tensor | None,
        transition: Tensor,
        has_labels: bool,
        is_required: Tensor,
        kernel: ModuleType,
    ) -> None:
        self.candidates, self.has_labels, self.label_transition = candidates, has_labels, transition
        self.dense_scores, self.is_required = dense_scores, is_required
        if dense_scores is not None:
            self._index = dense_positions(candidates, dense_scores.shape)
            scores = dense_scores.flatten().index_select(0, self._index)
        assert scores is not None
        label = candidates.label if has_labels else torch.zeros_like(candidates.label)
        depths = _Depths(candidates, is_required.cpu().numpy(), label.cpu().numpy(), len(transition))
        self._label_of = torch.from_numpy(depths.label_of).to(scores.device)
        self._nodes = replace(candidates, label=torch.from_numpy(depths.of_node).to(scores.device))
        self._required = RequiredDepths(depths.token, depths.content)
        by_depth = transition.index_select(0, self._label_of).index_select(1, self._label_of)
        can_meet = torch.from_numpy(depths.content[:, None] == depths.place[None]).to(scores.device)
        by_depth = by_depth.masked_fill(~can_meet, -torch.inf)
        Distribution.__init__(self, scores, by_depth, candidates.num_sentences, kernel)

    @property
    def marginals(self) -> Tensor:
        flat = super().marginals
        if self.dense_scores is None:
            return flat
        shape = self.dense_scores.shape
        return flat.new_zeros(shape.numel()).index_put((self._index,), flat).view(shape)

    @property
    def transition_counts(self) -> Tensor:
        by_depth, num_labels = super().transition_counts, 1 + int(self._label_of.max())
        shape = (len(by_depth), num_labels, by_depth.shape[2])
        rows = by_depth.new_zeros(shape).index_add(1, self._label_of, by_depth)
        return rows.new_zeros(len(rows), num_labels, num_labels).index_add(2, self._label_of, rows)

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        for b, (required, segments) in enumerate(zip(self._required_segments(), structures)):
            missing = set(required).difference(map(tuple, segments))
            if missing:
                raise ValueError(f"segmentation {b} is outside the support: {named(min(missing))} is required")
        return super()._parts(structures)

    def _required_segments(self) -> list[tuple[Segment, ...]]:
        every, is_required = self.candidates.segments(), self.is_required.tolist()
        bounds = self.candidates.offsets.tolist()
        return [
            tuple(s for s, is_one in zip(segments, is_required[low:]) if is_one) for segments, low in zip(every, bounds)
        ]


class _Depths:
    """Labels that know how deep in required segments they are: label · place · content."""

    def __init__(self, candidates: Candidates, is_required: np.ndarray, label: np.ndarray, num_labels: int) -> None:
        columns = (candidates.offsets, candidates.start, candidates.end, candidates.label)
        nodes = FlatSegments(*(column.cpu().numpy() for column in columns))
        num_sentences, sentence = candidates.num_sentences, nodes.sentence
        change = np.zeros((num_sentences, candidates.num_tokens + 1), np.int64)
        np.add.at(change, (sentence[is_required], nodes.start[is_required]), 1)
        np.add.at(change, (sentence[is_required], nodes.end[is_required]), -1)
        self.token = np.ascontiguousarray(change.cumsum(1)[:, :-1])  # (B, L): nothing crosses, so tokens may be counted
        place = _depth_of_nodes(nodes, is_required)
        num_places = 1 + int(place.max(initial=0))
        grid = np.arange(num_labels * num_places * 2)
        self.label_of, rest = np.divmod(grid, num_places * 2)
        self.place, goes_deeper = np.divmod(rest, 2)
        self.content = self.place + goes_deeper
        self.of_node = (label * num_places + place) * 2 + is_required


def _depth_of_nodes(nodes: FlatSegments, is_required: np.ndarray) -> np.ndarray:
    """(N,): in how many required segments each candidate strictly lies."""
    depth = np.zeros(len(nodes.start), np.int64)
    sentence = nodes.sentence
    for k in np.flatnonzero(is_required):
        here = slice(nodes.offsets[sentence[k]], nodes.offsets[sentence[k] + 1])
        start, end = nodes.start[here], nodes.end[here]
        is_wider = end - start < nodes.end[k] - nodes.start[k]
        depth[here] += (nodes.start[k] <= start) & (end <= nodes.end[k]) & is_wider
    return depth
