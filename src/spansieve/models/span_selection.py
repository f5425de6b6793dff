"""Filtered heads without label transitions: the filter alone, and global span selection.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, NestedSegments
from spansieve.crf.kernels import FilterLimits
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import HeadGold, SoftTargets
from spansieve.segments import LabelSet


class WithoutTransitions(FilteredHead):
    """A filtered head whose filter alone decides on labels, and whose paths have no scores of label pairs."""

    filter_labels = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.register_buffer("transition", torch.zeros(len(labels), len(labels)), persistent=False)


class FilterOnly(WithoutTransitions):
    """The filter without the global model. A candidate's score is how far its label stands above null: all that the
    classifier has learned of it."""

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.scorer = self.scorer_of(config, size, len(labels))

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        return {"filtering": self.filtering_loss(self.scores(vectors)[0], gold)}

    def distillation_losses(self, vectors: Tensor, lengths: Tensor, targets: SoftTargets) -> dict[str, Tensor]:
        return {"filtering": self.soft_filtering_loss(self.scores(vectors)[0], lengths, targets)}

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, and how far they stand above null, (B, L, K, Y) each."""
        local_scores = self.scorer.dense(self.scorer(vectors)).float()
        return local_scores, local_scores - local_scores[..., :1]


class NestedFilterOnly(FilterOnly):
    """The local classifier alone on nested gold: all that it keeps, less what crosses something better."""

    kind = "nested"

    def decoder_arrays(self) -> dict[str, Tensor]:
        return {}  # there is no score of what lies within what

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, above_null = scores
        return NestedSegments.from_scores(local_scores, above_null, None, lengths, **self.limits._asdict())


class GlobalSelection(WithoutTransitions):
    """Global span selection (Zaratiana et al. 2022): the filter gives a span its label, and the global model decides
    which spans there are. A span has one label at a time, whatever `labels_per_span` is: its labels have one score, and
    the best path could not choose among them."""

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.skip = config.skip
        # The local scores, and one more: of the span as such.
        self.scorer = self.scorer_of(config, size, len(labels) + 1)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, span_scores = self.scores(vectors)
        labelled = self._labelled_as_gold(local_scores, gold)
        return {
            "filtering": self.filtering_loss(local_scores, gold),
            "segmentation": -self.log_prob(labelled, span_scores, self.transition, lengths, gold),
        }

    def for_loss(self, local_scores: Tensor) -> tuple[Tensor, FilterLimits]:
        """The filter of the graph that the global loss is over: every span passes an unfiltered one, with one label."""
        local_scores, limits = super().for_loss(local_scores)
        return local_scores, limits._replace(labels_per_span=1)

    def _labelled_as_gold(self, local_scores: Tensor, gold: HeadGold) -> Tensor:
        """Give the best score of a gold span to its gold label, so that the filter keeps it with no other."""
        local_scores, label = local_scores.detach(), gold.labels()[..., None]  # (B, L, K, 1)
        of_names = local_scores[..., 1:]
        is_other = torch.arange(1, len(self.labels), device=label.device) != label
        as_gold = of_names.amax(-1, keepdim=True).masked_fill(is_other, -torch.inf)
        return torch.cat((local_scores[..., :1], torch.where(label > 0, as_gold, of_names)), -1)

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, and those of the span as such, the same for each of its labels, (B, L, K, Y) each."""
        scores = self.scorer.dense(self.scorer(vectors)).float()
        local_scores, span_score = scores[..., :-1], scores[..., -1:]
        return local_scores, span_score.expand_as(local_scores)
