"""CRF: a linear chain over tags, ill-formed sequences left out of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, Gold, LinearChain, TagConstraints
from spansieve.data.tagging import segments_of_tags, tags_of_segments
from spansieve.labels import LabelSet
from spansieve.models.head import Head, HeadGold
from spansieve.segments import NamedSegment, Segment


class CRF(Head):
    has_width_limit = False

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(labels, max_width)
        self.scheme = config.scheme
        prefixes = {"BIO": "BI", "BIOES": "BIES"}[config.scheme]
        self.tags = ["O", *(f"{prefix}-{name}" for name in labels for prefix in prefixes)]
        self._ids = {tag: i for i, tag in enumerate(self.tags)}
        self.constraints = TagConstraints.from_tags(self.tags)
        hidden_size = config.hidden_size
        self.output = nn.Sequential(
            nn.Linear(size, hidden_size), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(hidden_size, len(self.tags))
        )
        self.transition = nn.Parameter(torch.zeros(len(self.tags), len(self.tags)))

    def fits(self, segment: Segment) -> bool:
        return True

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int]) -> HeadGold:
        tags = []
        for sentence, length in zip(segments, lengths):
            named = [NamedSegment(s.start, s.end, self.labels.name(s.label)) for s in sentence]
            tags.append([self._ids[tag] for tag in tags_of_segments(named, length, self.scheme)])
        return HeadGold(Gold.from_tags(tags, (len(lengths), max(lengths, default=0), len(self.tags))))

    def losses(self, tokens: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        return {"sequence": -self.distribution(tokens, lengths).log_prob(gold.structures)}

    def distribution(self, tokens: Tensor, lengths: Tensor) -> Distribution:
        return LinearChain(self.output(tokens).float(), self.transition, lengths, self.constraints)

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        named = segments_of_tags([self.tags[tag] for tag in structure], self.scheme)
        return tuple(Segment(s.start, s.end, self.labels.id(s.label)) for s in named)

    def probabilities(self, distribution: Distribution, entities: Sequence[Sequence[Segment]]) -> list[list[float]]:
        """The share of Z that the sequences with exactly this segment have: its tags fixed, all others free."""
        assert isinstance(distribution, LinearChain)
        sentence = [b for b, found in enumerate(entities) for _ in found]
        if not sentence:
            return [[] for _ in entities]
        fixed = distribution.scores[sentence].detach().clone()
        for row, segment in zip(fixed, (segment for found in entities for segment in found)):
            self._fix(row, segment)
        with torch.no_grad():
            total = distribution.log_partition[sentence]
            chain = LinearChain(fixed, distribution.transition, distribution.lengths[sentence])
            flat = iter((chain.log_partition - total).exp().clamp(max=1.0).tolist())
        return [[next(flat) for _ in found] for found in entities]

    def _fix(self, scores: Tensor, segment: Segment) -> None:
        """Leave only the sequences that have this segment; scores (L, Y) are changed in place."""
        name = self.labels.name(segment.label)
        tags = tags_of_segments([(0, segment.width, name)], segment.width, self.scheme)
        for position, tag in enumerate(tags, segment.start):
            kept = scores[position, self._ids[tag]].clone()
            scores[position] = -torch.inf
            scores[position, self._ids[tag]] = kept
        if self.scheme == "BIO" and segment.end < len(scores):
            scores[segment.end, self._ids[f"I-{name}"]] = -torch.inf  # or it would go on
