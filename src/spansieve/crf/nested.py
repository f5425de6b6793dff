"""Nested segments: a distribution over the laminar sets of candidates.

Axes: B sentences, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import CandidateDistribution, Candidates
from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.gold import Gold, Parts, Triples
from spansieve.crf.kernels import RequiredDepths, reference
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import arrays_to_device, checked_scores
from spansieve.segments import Segment


class NestedSegments(CandidateDistribution):
    """A distribution over the laminar sets of the candidates of each sentence: of two segments one contains the other,
    or they share no token. A span is in a set at most once, with one label. Every such set counts, the empty one too.

    A structure is a tuple of Segments, a container before what it contains. `scores[c]` is the score of candidate c;
    `transition[parent, child]` is added for each segment, `parent` being the label of the smallest segment around it,
    and 0 where there is none. Without a transition labels do not meet, and `transition_counts` are (B, 1, 1).

    Time O(L + N·Y + Σ of the spans inside the widest container of each start and label): about N where few candidates
    lie within others, O(L·K²) for each label that containers have where every span up to width K is kept.
    """

    _required: RequiredDepths | None = None

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor,
        transition: Tensor | None = None,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        self.has_labels = transition is not None
        # With one label for all, the recursion is that without labels.
        self._nodes = candidates if self.has_labels else replace(candidates, label=torch.zeros_like(candidates.label))
        super().__init__(candidates, scores, transition, kernel, self._nodes)
        self.label_transition = self.transition

    @classmethod
    def from_scores(
        cls,
        local_scores: Tensor,
        global_scores: Tensor,
        transition: Tensor | None,
        lengths: Tensor | Sequence[int],
        gold: Triples | Gold | None = None,
        *,
        labels_per_span: int = 1,
        budget: int | None = None,
        kernel: ModuleType | None = None,
    ) -> NestedSegments:
        """Filter by the local scores, then score what is kept by the global ones, both dense: (B, L, K, Y).

        As for `FilteredSemiMarkov.from_scores`; but with gold no candidate needs to be dropped, since gold need not be
        maximal.
        """
        scores = checked_scores("global_scores", global_scores, 4)
        if local_scores.shape != scores.shape:
            shapes = f"{tuple(local_scores.shape)} and {tuple(scores.shape)}"
            raise ValueError(f"local_scores and global_scores must have one shape, got {shapes}")
        candidates = Candidates.for_training(
            local_scores, lengths, gold, skip=True, labels_per_span=labels_per_span, budget=budget
        )
        return NestedSegments(candidates, scores, transition, kernel=kernel)

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.nested(semiring, scores, transition, self._nodes, self._required)

    def _compiled(self, verb: str, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        return getattr(self._kernel, f"nested_{verb}")(self._nodes, scores, transition, self._required, *options)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return self.candidates.on_host().where(is_part.cpu().numpy()).outermost_first().by_sentence()

    def _parts_of_segments(self, segments: FlatSegments) -> Parts:
        segments = segments.outermost_first()
        node, sentence = self._index_of(segments), segments.sentence
        label = self._nodes.label.cpu().numpy()[node]
        around = containers(segments)
        parent = np.where(around < 0, 0, label[around])
        pair = parent * len(self.transition) + label
        offsets = np.stack((segments.offsets, segments.offsets))
        return Parts(*arrays_to_device((node, sentence, pair, sentence, offsets), self.scores.device))


def containers(segments: FlatSegments) -> np.ndarray:
    """The smallest container of each segment by its index, -1 where there is none, of segments sorted outermost first.

    Raises where two cross or share their span.
    """
    start, end, sentence = segments.start.tolist(), segments.end.tolist(), segments.sentence.tolist()
    around = np.full(len(start), -1, np.int64)
    stack: list[int] = []  # the segments that are not over at the present start, outermost first
    for k in range(len(start)):
        while stack and (sentence[stack[-1]] != sentence[k] or end[stack[-1]] <= start[k]):
            stack.pop()
        if stack:
            around[k] = last = stack[-1]
            is_same = (start[k], end[k]) == (start[last], end[last])
            if is_same or end[k] > end[last]:
                pair = f"{segments.named(last)} and {segments.named(k)}"
                crossing = "cross: one must contain the other, or share no token"
                why = "have one span, which is taken once" if is_same else crossing
                raise ValueError(f"segmentation {sentence[k]} is outside the support: {pair} {why}")
        stack.append(k)
    return around
