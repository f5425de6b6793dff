"""FSemiCRF without the global loss: the local classifier alone, with the overlaps of what it keeps resolved exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, FilteredSemiMarkov
from spansieve.labels import LabelSet
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import HeadGold
from spansieve.nn.span_scorers import span_scorer


class FilterOnly(FilteredHead):
    """The filter without the global model. A candidate's score is how far its label stands above null: all that the
    classifier has learned of it."""

    filter_labels = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.scorer = span_scorer(
            config.features, size, config.hidden_size, max_width, len(labels), sets=1, dropout=config.dropout
        )

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        return {"filtering": self.filtering_loss(self.scores(vectors)[0], gold)}

    def decoder_arrays(self) -> dict[str, Tensor]:
        return {"transition": torch.zeros(len(self.labels), len(self.labels))}

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, above_null = scores
        no_transition = local_scores.new_zeros(len(self.labels), len(self.labels))
        inputs = (local_scores, above_null, no_transition, lengths)
        return FilteredSemiMarkov.from_scores(*inputs, **self.limits._asdict())

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, and how far they stand above null, (B, L, K, Y) each."""
        local_scores = self.scorer.dense(self.scorer(vectors)).float()
        return local_scores, local_scores - local_scores[..., :1]
