"""Laminar sets that have certain segments.

Axes: B sentences, L tokens, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates, in_place
from spansieve.crf.depth_labels import DepthLabels
from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import dense_index, named
from spansieve.crf.gold import Parts
from spansieve.crf.nested import NestedSegments
from spansieve.segments import Segment


class NestedGiven(NestedSegments):
    """Laminar sets with all of the required candidates, which no other crosses and with whose span there is no other.

    Labels become `DepthLabels`, so that a required segment is missing nowhere.
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
            self._index = dense_index(candidates, dense_scores.shape)
            scores = dense_scores.flatten().index_select(0, self._index)
        assert scores is not None
        label = candidates.label if has_labels else torch.zeros_like(candidates.label)
        known = (is_required.cpu().numpy(), label.cpu().numpy())
        labels = DepthLabels(candidates.on_host(), *known, len(transition), candidates.num_tokens)
        self._label_of = torch.from_numpy(labels.label_of).to(scores.device)
        self._nodes = replace(candidates, label=torch.from_numpy(labels.of_node).to(scores.device))
        self._required = labels.required
        by_depth = transition.index_select(0, self._label_of).index_select(1, self._label_of)
        by_depth = by_depth.masked_fill(~torch.from_numpy(labels.can_meet).to(scores.device), -torch.inf)
        Distribution.__init__(self, scores, by_depth, candidates.num_sentences, kernel)

    @property
    def marginals(self) -> Tensor:
        flat = super().marginals
        if self.dense_scores is None:
            return flat
        return in_place(flat, self._index, self.dense_scores.shape)

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
