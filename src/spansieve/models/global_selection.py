"""Global span selection (Zaratiana et al. 2022): the filter's graph with one score per span, whatever its label."""

from __future__ import annotations

from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, FilteredSemiMarkov
from spansieve.labels import LabelSet
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import HeadGold, filtering_loss
from spansieve.nn.span_scorers import span_scorer


class GlobalSelection(FilteredHead):
    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, max_width)
        self.skip = config.skip
        # The local scores, and one more: of the span as such.
        self.scorer = span_scorer(
            config.features, size, config.hidden_size, max_width, len(labels) + 1, sets=1, dropout=config.dropout
        )

    def losses(self, tokens: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, graph = self._graph(tokens, lengths, gold)
        return {
            "filtering": filtering_loss(local_scores, gold.labels(), self.beta),
            "segmentation": -graph.log_prob(gold.structures),
        }

    def distribution(self, tokens: Tensor, lengths: Tensor) -> Distribution:
        return self._graph(tokens, lengths, None)[1]

    def _graph(self, tokens: Tensor, lengths: Tensor, gold: HeadGold | None) -> tuple[Tensor, Distribution]:
        local_scores, span_scores = self.scores(tokens)
        structures = None if gold is None else gold.structures
        no_transition = local_scores.new_zeros(len(self.labels), len(self.labels))
        graph = FilteredSemiMarkov.from_scores(
            local_scores, span_scores, no_transition, lengths, structures, skip=self.skip
        )
        return local_scores, graph

    def scores(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Local, and of the span as such, the same for each of its labels, (B, L, K, Y) each."""
        scores = self.scorer.dense(self.scorer(tokens)).float()
        local_scores, span_score = scores[..., :-1], scores[..., -1:]
        return local_scores, span_score.expand_as(local_scores)
