"""CRF: a linear chain over tags, ill-formed sequences left out of the model.

Axes: B sentences, L tokens, Y tags, N entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, Gold, LinearChain, TagConstraints, given
from spansieve.crf.conditioning import ChainGiven
from spansieve.labels import LabelSet
from spansieve.models.head import Head, HeadGold
from spansieve.models.partial_annotation import Ranges, known_of
from spansieve.models.segment_tags import Chain, SegmentTags
from spansieve.segments import Segment


class CRF(Head):
    takes_any_width = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(labels, max_width)
        self.tags = SegmentTags(labels, config.scheme)
        self.constraints = TagConstraints.from_tags(self.tags.names)
        hidden_size, num_tags = config.hidden_size, len(self.tags)
        self.output: nn.Module
        if config.features in ("sum", "mean"):  # linear of segments, and so of tokens: as the paper has it
            self.output = nn.Linear(size, num_tags)
        else:
            layers = nn.Linear(size, hidden_size), nn.ReLU(), nn.Dropout(config.dropout)
            self.output = nn.Sequential(*layers, nn.Linear(hidden_size, num_tags))
        self.transition = nn.Parameter(torch.zeros(num_tags, num_tags))

    def gold(
        self,
        segments: Sequence[Sequence[Segment]],
        lengths: Sequence[int],
        unknown: Sequence[Ranges] | None = None,
    ) -> HeadGold:
        tags = [self.tags.of_segments(sentence, length) for sentence, length in zip(segments, lengths)]
        known = None if unknown is None else tuple(map(known_of, segments, unknown, lengths))
        return HeadGold(Gold.from_tags(tags, (len(lengths), max(lengths, default=0), len(self.tags))), known=known)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        chain = self.distribution(vectors, lengths)
        if gold.known is None:
            return {"sequence": -chain.log_prob(gold.structures)}
        return {"sequence": chain.log_partition - given(chain, gold.known, tags=self.tags).log_partition}

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> LinearChain:
        (tag_scores,) = scores
        return LinearChain(tag_scores, self.transition, lengths, self.constraints)

    def scores(self, vectors: Tensor) -> tuple[Tensor]:
        """The scores of the tags, (B, L, Y)."""
        return (self.output(vectors).float(),)

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        return self.tags.segments(structure)

    def probabilities(self, distribution: Distribution, entities: Sequence[Sequence[Segment]]) -> list[list[float]]:
        """P(this segment is in the output) of each entity, on the host in double precision."""
        assert isinstance(distribution, LinearChain)
        if not any(entities):
            return [[] for _ in entities]
        tensors = (distribution.scores, distribution.transition, distribution.lengths)
        chain = Chain.of(*(x.detach().cpu().numpy() for x in tensors))
        written = distribution.written.of_segment if isinstance(distribution, ChainGiven) else None
        return self.tags.probabilities(chain, entities, written)
