"""What the distributions over sets of candidates share.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType

import numpy as np
from torch import Tensor

from spansieve.crf.candidates import Candidates, in_place
from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import FlatSegments, dense_index, index_in, named_at
from spansieve.crf.kernels.dispatch import kernel_for
from spansieve.crf.validation import checked_scores, checked_transition


class CandidateDistribution(Distribution):
    """A distribution over sets of candidates, scored one by one, (N,), or from the dense scores of every span."""

    candidates: Candidates
    dense_scores: Tensor | None = None  # (B, L, K, Y), where the candidates' scores come from there

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor,
        transition: Tensor | None,
        kernel: ModuleType | None,
        nodes: Candidates | None = None,
    ) -> None:
        """`nodes` are the candidates with the labels that the transition has, where those are not their own."""
        if candidates.start.is_cpu:
            candidates.check()
        self.candidates, nodes = candidates, nodes or candidates
        if isinstance(scores, Tensor) and scores.ndim == 4:
            self.dense_scores = checked_scores("scores", scores, 4, look=False)
            scores = self.dense_scores.flatten().index_select(0, self._index)
        scores = checked_scores("scores", scores, 1)
        if len(scores) != len(candidates):
            raise ValueError(f"scores must be one per candidate, {len(candidates)}, got {len(scores)}")
        transition = scores.new_zeros(1, 1) if transition is None else checked_transition(transition, scores)
        if len(nodes) and scores.is_cpu and (highest := int(nodes.label.max())) >= len(transition):
            raise ValueError(f"transition must have a row for each label up to {highest}, got {len(transition)}")
        super().__init__(scores, transition, candidates.num_sentences, kernel or kernel_for(scores))

    @property
    def marginals(self) -> Tensor:
        """P(candidate): (N,), or like the dense scores where those are from there, 0 elsewhere. Differentiable."""
        marginals = super().marginals
        if self.dense_scores is None or marginals.ndim > 1:
            return marginals
        return in_place(marginals, self._index, self.dense_scores.shape)

    @cached_property
    def _index(self) -> Tensor:
        """The flat index of the candidates in the dense scores, (N,)."""
        assert self.dense_scores is not None
        return dense_index(self.candidates, self.dense_scores.shape)

    @property
    def _part_sentence(self) -> Tensor | None:
        return self.candidates.sentence

    def _index_of(self, segments: FlatSegments) -> np.ndarray:
        """The position of each segment among the candidates."""
        index = index_in(segments, self.candidates.on_host())
        if (index < 0).any():
            at = int((index < 0).argmax())
            raise ValueError(
                f"segmentation {segments.sentence[at]} is outside the support: {named_at(segments, at)} is no candidate"
            )
        return index
