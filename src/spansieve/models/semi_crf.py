"""Semi-CRF: every token is in a segment, and null segments may be as wide as others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Gold, SemiMarkov, given
from spansieve.crf.flat_segments import covering
from spansieve.models.head import Head, HeadGold, Unknown, dense_shape, known_of
from spansieve.segments import LabelSet, Segment


class SemiCRF(Head):
    """The semi-Markov CRF of Sarawagi and Cohen (2004): segments cover the sentence, null ones included."""

    kind = "semi-markov"
    takes_padded_gold = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        num_labels = len(labels)
        self.scorer = self.scorer_of(config, size, num_labels)
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int], unknown: Unknown = None) -> HeadGold:
        covered = [covering(sentence, length) for sentence, length in zip(segments, lengths)]
        shape = dense_shape(lengths, self.max_width, len(self.labels))
        known = None if unknown is None else tuple(map(known_of, segments, unknown, lengths))
        return HeadGold(Gold.from_segments(covered, shape, lengths), known=known)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        segmentations = self.distribution_of(self.scores(vectors), lengths)
        if gold.known is None:
            return {"segmentation": -segmentations.log_prob(gold.structures)}
        # Null segments of gold are one token wide, whatever it is that is not known.
        like_gold = SemiMarkov(segmentations.scores, self.transition, lengths, unit_null=True)
        return {"segmentation": segmentations.log_partition - given(like_gold, gold.known).log_partition}

    def check_teacher(self, teacher: Head) -> None:
        super().check_teacher(teacher)
        if self.unit_null and not teacher.unit_null:
            raise ValueError("teacher must have null segments of width 1, as the student has; --head semicrf takes any")

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> SemiMarkov:
        (dense,) = scores
        return SemiMarkov(dense, self.transition, lengths, unit_null=self.unit_null)

    def scores(self, vectors: Tensor) -> tuple[Tensor]:
        """The scores of the segments, (B, L, K, Y)."""
        return (self.scorer.dense(self.scorer(vectors)).float(),)


class SemiCRFUnitNull(SemiCRF):
    """A Semi-CRF whose null segments have width 1: one segmentation for each set of entities."""

    unit_null = True
