"""Nested entities: a local classifier filters the spans, and a distribution over laminar sets picks the best one."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, NestedSegments, given
from spansieve.crf.losses import with_margin
from spansieve.models.fsemicrf import FSemiCRF
from spansieve.models.head import HeadGold
from spansieve.models.span_selection import FilterOnly
from spansieve.segments import LabelSet


class Nested(FSemiCRF):
    """Nested entities by the scores of FSemiCRF; its transition goes from a container to what it contains, row 0 being
    the sentence.

    Every laminar set counts, so gold is always possible and no candidate is dropped in training. The loss is over what
    the filter keeps: all spans would be too many to nest. Segments within each other have tokens in common, so that
    there is no score of tokens as null.
    """

    kind = "nested"

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(replace(config, global_loss="filtered", score_null=False), labels, size, max_width)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, global_scores = self.learned_scores(vectors)
        inputs = (with_margin(local_scores, self.margin), global_scores, self.transition, lengths, gold.structures)
        sets = NestedSegments.from_scores(*inputs, **self.limits._asdict())
        if gold.known is None:
            log_prob = sets.log_prob(gold.structures)
        else:
            log_prob = given(sets, gold.known).log_partition - sets.log_partition
        return {"filtering": self.filtering_loss(local_scores, gold), "segmentation": -log_prob}

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, global_scores = scores
        inputs = (local_scores, global_scores, self.transition, lengths)
        return NestedSegments.from_scores(*inputs, **self.limits._asdict())


class NestedFilterOnly(FilterOnly):
    """The local classifier alone on nested gold: all that it keeps, less what crosses something better."""

    kind = "nested"

    def decoder_arrays(self) -> dict[str, Tensor]:
        return {}  # there is no score of what lies within what

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, above_null = scores
        return NestedSegments.from_scores(local_scores, above_null, None, lengths, **self.limits._asdict())
