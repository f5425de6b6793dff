"""The semi-Markov CRF: a score per segment, a transition between neighbours, and every token covered.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import FlatSegments, offsets_of, segments_by_index, segments_by_start
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import kernel_for, reference
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment


class SemiMarkov(Distribution):
    """A distribution over the segmentations of each sentence (Sarawagi & Cohen, Semi-Markov Conditional Random Fields,
    NeurIPS 2004).

    A structure is a tuple of Segments that covers the sentence from left to right, null ones (label 0) included.
    `scores[b, i, w, y]` is the score of the segment that starts at token i of sentence b, has width w + 1 and label y.
    With `unit_null`, null segments wider than one token are no part of the model, which leaves one segmentation for
    each set of entities. Time O(L·K·Y + L·Y²) per sentence.
    """

    def __init__(
        self,
        scores: Tensor,
        transition: Tensor,
        lengths: Tensor | Sequence[int],
        unit_null: bool = False,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        scores = checked_scores("scores", scores, 4)
        num_sentences, num_tokens, max_width, num_labels = scores.shape
        if max_width < 1 or num_labels < 1:
            raise ValueError(f"scores must have at least one width and one label, got {tuple(scores.shape)}")
        transition = checked_transition(transition, scores, num_labels)
        self.lengths = checked_lengths(lengths, num_sentences, num_tokens, scores)
        if unit_null:
            is_wide_null = torch.zeros(max_width, num_labels, dtype=torch.bool, device=scores.device)
            is_wide_null[1:, 0] = True
            scores = scores.masked_fill(is_wide_null, -torch.inf)
        super().__init__(scores, transition, num_sentences, kernel or kernel_for(scores))

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.semi_markov(semiring, scores, transition, self.lengths)

    def _compiled(self, verb: str, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        return getattr(self._kernel, f"semi_markov_{verb}")(scores, transition, self.lengths, *options)

    def _found(self, widths: Tensor, labels: Tensor) -> list[tuple[Segment, ...]]:  # type: ignore[override]
        return segments_by_start(widths.cpu().numpy(), labels.cpu().numpy(), self.scores.shape)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        sentence, index = is_part.flatten(1).cpu().numpy().nonzero()
        return segments_by_index(offsets_of(sentence, self.num_sentences), index, *self.scores.shape[2:])

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        # On a GPU the lengths are not looked at, since that would synchronise the host.
        lengths = self.lengths.numpy() if self.lengths.is_cpu else None
        return self._parts_of_gold(Gold.from_segments(structures, self.scores.shape, lengths, self.scores.device))

    def _parts_of_gold(self, gold: Gold) -> Parts:
        parts = super()._parts_of_gold(gold)
        if gold.segments is not None:
            _check_cover(gold.segments, self.lengths.numpy() if self.lengths.is_cpu else None)
        return parts


def _check_cover(segments: FlatSegments, lengths: np.ndarray | None) -> None:
    """Check that each segment starts where the one before ends, the first at 0, and the last ends with the sentence."""
    reached = segments.previous_ends
    if (wrong := np.flatnonzero(segments.start != reached)).size:
        which = f"{segments.named(wrong[0])} of sentence {segments.sentence[wrong[0]]}"
        raise ValueError(f"{which} must start at {reached[wrong[0]]}, where the segments before it end")
    ends = segments.last_ends
    if lengths is not None and (wrong := np.flatnonzero(ends != lengths)).size:
        b = wrong[0]
        raise ValueError(f"segments of sentence {b} must cover its {lengths[b]} tokens, got the first {ends[b]}")
