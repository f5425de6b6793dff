"""FSemiCRF (Zaratiana et al., Findings of EMNLP 2023): a local classifier filters the spans, and a semi-Markov CRF over
what it keeps picks the best set; and the same for nested entities, with a distribution over laminar sets."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, NestedSegments, given
from spansieve.crf.losses import with_margin
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import Head, HeadGold, SoftTargets
from spansieve.nn.span_scorers import prefix_sums, span_sums
from spansieve.segments import LabelSet


class FSemiCRF(FilteredHead):
    """The filtered semi-Markov CRF of Zaratiana et al. (Findings of EMNLP 2023), with its filtering loss.

    The global scores are dense like the local ones: what costs is the layer over the spans, which the filter needs of
    all of them. Scores of the candidates alone were no faster, with 5 labels or with 19.

    With `score_null`, a path is worth its segments and, as null, each token that none of them takes: what a Semi-CRF
    with unit null gives the same segmentation, transitions apart. All tokens as null is a constant, so it is enough to
    subtract from a segment's score that of its tokens as null."""

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        num_labels = len(labels)
        self.skip, self.margin, self.score_null = config.skip, config.margin, config.score_null
        self.scorer = self.scorer_of(config, size, num_labels, sets=2)
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, global_scores = self.learned_scores(vectors)
        filtered = with_margin(local_scores, self.margin)
        return {
            "filtering": self.filtering_loss(local_scores, gold),
            "segmentation": -self.log_prob(filtered, global_scores, lengths, gold),
        }

    def distillation_losses(self, vectors: Tensor, lengths: Tensor, targets: SoftTargets) -> dict[str, Tensor]:
        local_scores, global_scores = self.learned_scores(vectors)
        filtered = with_margin(local_scores, self.margin)
        log_partition = self.soft_log_partition(filtered, global_scores, lengths, targets)
        return {
            "filtering": self.soft_filtering_loss(local_scores, lengths, targets),
            "segmentation": log_partition - targets.expected_score(global_scores, self.transition),
        }

    def check_teacher(self, teacher: Head) -> None:
        super().check_teacher(teacher)
        if not self.skip:
            raise ValueError("a student over maximal paths cannot doubt a lone candidate: it needs model.skip=true")

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, as the filter takes them, and the global ones, (B, L, K, Y) each."""
        local_scores, global_scores = self.learned_scores(vectors)
        return with_margin(local_scores, self.margin), global_scores

    def learned_scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.scorer.dense(self.scorer(vectors)).float()  # (B, L, K, 2·Y)
        # One copy into two packed halves, where each user of a strided half would make its own.
        local_scores, global_scores = scores.unflatten(-1, (2, -1)).movedim(-2, 0).contiguous()
        if self.score_null:
            as_null = span_sums(prefix_sums(global_scores[:, :, 0, :1]), global_scores.shape[2])  # (B, L, K, 1)
            global_scores = global_scores - as_null.float()
        return local_scores, global_scores


class Nested(FSemiCRF):
    """Nested entities by the scores of FSemiCRF; its transition goes from a container to what it contains, row 0 being
    the sentence.

    Every laminar set counts, so gold is always possible and no candidate is dropped in training. The loss is over what
    the filter keeps: all spans would be too many to nest. Segments within each other have tokens in common, so that
    there is no score of tokens as null.
    """

    kind = "nested"
    takes_padded_gold = False  # the sums over laminar sets are the host's

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(replace(config, global_loss="filtered", score_null=False), labels, size, max_width)

    def log_prob(self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, gold: HeadGold) -> Tensor:
        inputs = (local_scores, global_scores, self.transition, lengths, gold.structures)
        sets = NestedSegments.from_scores(*inputs, **self.limits._asdict())
        if gold.known is None:
            return sets.log_prob(gold.structures)
        return given(sets, gold.known).log_partition - sets.log_partition

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, global_scores = scores
        inputs = (local_scores, global_scores, self.transition, lengths)
        return NestedSegments.from_scores(*inputs, **self.limits._asdict())
