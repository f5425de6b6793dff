"""CRF: a linear chain over tags, ill-formed sequences left out of the model.

Axes: B sentences, L tokens, Y tags, N entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, Gold, LinearChain, TagConstraints
from spansieve.labels import LabelSet
from spansieve.models.chain_messages import from_the_left, from_the_right
from spansieve.models.head import Head, HeadGold, like_entities
from spansieve.segments import Segment

PREFIXES = {"BIO": "BI", "BIOES": "BIES"}


class LabelTags(NamedTuple):
    """The ids of a label's tags by what they say of a segment's tokens; one may stand for two."""

    first: int
    inner: int
    last: int
    single: int


class CRF(Head):
    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(labels, max_width)
        self.scheme = config.scheme
        self.tags = ["O", *(f"{prefix}-{name}" for name in labels for prefix in PREFIXES[config.scheme])]
        self._of_label = [_label_tags(label, config.scheme) for label in range(1, len(labels))]
        self._opened = {tag: y for y, tags in enumerate(self._of_label, 1) for tag in (tags.first, tags.single)}
        self.constraints = TagConstraints.from_tags(self.tags)
        hidden_size = config.hidden_size
        self.output = nn.Sequential(
            nn.Linear(size, hidden_size), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(hidden_size, len(self.tags))
        )
        self.transition = nn.Parameter(torch.zeros(len(self.tags), len(self.tags)))

    def fits(self, segment: Segment) -> bool:
        return True

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int]) -> HeadGold:
        tags = [self._tags(sentence, length) for sentence, length in zip(segments, lengths)]
        return HeadGold(Gold.from_tags(tags, (len(lengths), max(lengths, default=0), len(self.tags))))

    def losses(self, tokens: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        return {"sequence": -self.distribution(tokens, lengths).log_prob(gold.structures)}

    def distribution(self, tokens: Tensor, lengths: Tensor) -> Distribution:
        return LinearChain(self.output(tokens).float(), self.transition, lengths, self.constraints)

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        # No sequence of the model is ill-formed: a tag that opens nothing goes on with what is open.
        found: list[list[int]] = []
        opened = self._opened
        for position, tag in enumerate(structure):
            if not tag:
                continue
            if tag in opened:
                found.append([position, position + 1, opened[tag]])
            else:
                found[-1][1] = position + 1
        return tuple(Segment(*segment) for segment in found)

    def probabilities(self, distribution: Distribution, entities: Sequence[Sequence[Segment]]) -> list[list[float]]:
        """The share of Z that the sequences with exactly this segment have: its tags fixed, all others free."""
        assert isinstance(distribution, LinearChain)
        if not any(entities):
            return [[] for _ in entities]
        chain = _Chain.of(distribution)
        shares = [
            self._inside(chain, b, segment) + self._after(chain, b, segment) - chain.total[b]
            for b, found in enumerate(entities)
            for segment in found
        ]
        return like_entities(np.exp(shares).clip(max=1.0).tolist(), entities)

    def _inside(self, chain: _Chain, b: int, segment: Segment) -> float:
        """All that leads to the segment's first tag, and its other tags."""
        tags = self._tags_of(segment)
        share = chain.left[b, segment.start, tags[0]]
        if segment.width > 1:
            others = np.arange(segment.start + 1, segment.end)
            share += (chain.transition[tags[:-1], tags[1:]] + chain.scores[b, others, tags[1:]]).sum()
        return share

    def _after(self, chain: _Chain, b: int, segment: Segment) -> float:
        """All that may follow the segment's last tag without going on with it."""
        last, end = self._tags_of(segment)[-1], segment.end
        if self.scheme == "BIOES" or end == chain.lengths[b]:
            return chain.right[b, end - 1, last]
        following = chain.transition[last] + chain.scores[b, end] + chain.right[b, end]
        following[self._of_label[segment.label - 1].inner] = -np.inf
        return np.logaddexp.reduce(following)

    def _tags(self, segments: Sequence[Segment], length: int) -> list[int]:
        tags = [0] * length
        for segment in segments:
            if not 0 <= segment.start < segment.end <= length:
                raise ValueError(f"a segment must lie within the {length} tokens, got {tuple(segment)}")
            if any(tags[segment.start : segment.end]):
                raise ValueError(f"segments must not overlap to be written as tags, got another on {tuple(segment)}")
            tags[segment.start : segment.end] = self._tags_of(segment)
        return tags

    def _tags_of(self, segment: Segment) -> list[int]:
        tags = self._of_label[segment.label - 1]
        if segment.width == 1:
            return [tags.single]
        return [tags.first, *[tags.inner] * (segment.width - 2), tags.last]


class _Chain(NamedTuple):
    """A batch's chains on the host, in double precision, with what the two sides of each token add."""

    scores: np.ndarray  # (B, L, Y)
    transition: np.ndarray  # (Y, Y)
    lengths: np.ndarray  # (B,)
    left: np.ndarray  # (B, L, Y)
    right: np.ndarray  # (B, L, Y)
    total: np.ndarray  # (B,): log Z

    @classmethod
    def of(cls, distribution: LinearChain) -> _Chain:
        tensors = (distribution.scores.double(), distribution.transition.double(), distribution.lengths)
        scores, transition, lengths = (x.detach().cpu().numpy() for x in tensors)
        left, right = from_the_left(scores, transition), from_the_right(scores, transition, lengths)
        ending = left[np.arange(len(left)), np.maximum(lengths, 1) - 1]
        return cls(scores, transition, lengths, left, right, np.logaddexp.reduce(ending, axis=-1))


def _label_tags(label: int, scheme: str) -> LabelTags:
    prefixes = PREFIXES[scheme]
    first = 1 + (label - 1) * len(prefixes)
    return LabelTags(first, first + 1, *((first + 1, first) if scheme == "BIO" else (first + 2, first + 3)))
