"""Global span selection (Zaratiana et al. 2022): the filter's graph with one score per span, whatever its label."""

from __future__ import annotations

import torch
from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, FilteredSemiMarkov
from spansieve.labels import LabelSet
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import HeadGold
from spansieve.nn.span_scorers import span_scorer


class GlobalSelection(FilteredHead):
    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, max_width)
        self.skip = config.skip
        # The local scores, and one more: of the span as such.
        self.scorer = span_scorer(
            config.features, size, config.hidden_size, max_width, len(labels) + 1, sets=1, dropout=config.dropout
        )

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, span_scores = self.scores(vectors)
        return {
            "filtering": self.filtering_loss(local_scores, gold),
            "segmentation": -self.log_prob(local_scores, span_scores, self._no_transition(vectors), lengths, gold),
        }

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, span_scores = scores
        inputs = (local_scores, span_scores, self._no_transition(local_scores), lengths)
        return FilteredSemiMarkov.from_scores(*inputs, skip=self.skip, **self.limits._asdict())

    def _no_transition(self, like: Tensor) -> Tensor:
        return torch.zeros(len(self.labels), len(self.labels), device=like.device)

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Local, and of the span as such, the same for each of its labels, (B, L, K, Y) each."""
        scores = self.scorer.dense(self.scorer(vectors)).float()
        local_scores, span_score = scores[..., :-1], scores[..., -1:]
        return local_scores, span_score.expand_as(local_scores)
