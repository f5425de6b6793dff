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

from spansieve.crf.checks import checked_lengths, checked_scores, checked_transition, to_device
from spansieve.crf.distribution import Distribution, Parts
from spansieve.crf.kernels import Sums, reference
from spansieve.crf.kernels.dispatch import kernel_for
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.structures import FlatSegments, check_segment, named, offsets_of, segments_by_sentence
from spansieve.segments import Segment


class SemiMarkov(Distribution):
    """A distribution over the segmentations of each sentence.

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
        self._kernel = kernel or kernel_for(scores)
        super().__init__(scores, transition, num_sentences)

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.semi_markov(semiring, scores, transition, self.lengths)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        if self._kernel is reference:
            return super()._sums(scores, transition, with_marginals)
        return self._kernel.semi_markov_sums(scores, transition, self.lengths, with_marginals)

    def _best(self) -> tuple[Tensor, list[Any]]:
        if self._kernel is reference:
            return super()._best()
        max_score, widths, labels = self._kernel.semi_markov_best(
            self.scores.detach(), self.transition.detach(), self.lengths
        )
        width, label = widths.cpu().numpy(), labels.cpu().numpy()
        sentence, start = place = width.nonzero()
        return max_score, self._segments(sentence, start, start + width[place], label[place])

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        sentence, start, width, label = is_part.cpu().numpy().nonzero()
        return self._segments(sentence, start, start + width + 1, label)

    def _segments(self, sentence: np.ndarray, start: np.ndarray, end: np.ndarray, label: np.ndarray):
        return segments_by_sentence(FlatSegments(offsets_of(sentence, self.num_sentences), start, end, label))

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        _, num_tokens, max_width, num_labels = self.scores.shape
        index, sentence, pair, pair_sentence = [], [], [], []
        for b, (segments, length) in enumerate(zip(structures, self.lengths.tolist())):
            reached, previous = 0, None
            for segment in segments:
                start, end, label = segment
                check_segment(segment, b, length, max_width, num_labels, 0)
                if start != reached:
                    raise ValueError(
                        f"{named(segment)} of sentence {b} must start at {reached}, where the last one ends"
                    )
                index.append(((b * num_tokens + start) * max_width + end - start - 1) * num_labels + label)
                sentence.append(b)
                if previous is not None:
                    pair.append(previous * num_labels + label)
                    pair_sentence.append(b)
                reached, previous = end, label
            if reached != length:
                raise ValueError(f"segments of sentence {b} must cover its {length} tokens, got the first {reached}")
        lists = (index, sentence, pair, pair_sentence)
        return Parts(*(to_device(torch.tensor(x, dtype=torch.int64), self.scores.device) for x in lists))
