"""The work of the core benchmark: random scores of one batch, in the form that each contender takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from spansieve.segments import Segment

MODE, LOG_PARTITION, LOSS = "mode", "log Z and gradient", "loss and gradient"


@dataclass(frozen=True)
class Work:
    """`num_labels` counts null; the linear chain gets the BIO tags of the other labels."""

    num_labels: int  # Y
    num_sentences: int = 32  # B
    num_tokens: int = 32  # L
    max_width: int = 12  # K
    kept: float = 0.02  # the share of the spans that the filter keeps
    device: str = "cpu"

    @property
    def num_tags(self) -> int:
        return 2 * (self.num_labels - 1) + 1

    @cached_property
    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(0)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator).to(self.device)

    @cached_property
    def lengths(self) -> Tensor:
        return torch.full((self.num_sentences,), self.num_tokens, device=self.device)

    @cached_property
    def is_span(self) -> Tensor:
        """(L, K)."""
        start = torch.arange(self.num_tokens, device=self.device)[:, None]
        return start + torch.arange(1, self.max_width + 1, device=self.device) <= self.num_tokens

    @cached_property
    def local_scores(self) -> Tensor:
        """Normal scores, with null shifted so that it is the best label of all but the wanted share of the spans."""
        scores = self._normal(self.num_sentences, self.num_tokens, self.max_width, self.num_labels)
        lead = (scores[..., 1:].amax(-1) - scores[..., 0])[:, self.is_span]
        scores[..., 0] += lead.flatten().quantile(1 - self.kept)
        return scores

    @cached_property
    def global_scores(self) -> Tensor:
        return self._normal(self.num_sentences, self.num_tokens, self.max_width, self.num_labels)

    @cached_property
    def transition(self) -> Tensor:
        return self._normal(self.num_labels, self.num_labels)

    @cached_property
    def tag_scores(self) -> Tensor:
        return self._normal(self.num_sentences, self.num_tokens, self.num_tags)

    @cached_property
    def tag_transition(self) -> Tensor:
        return self._normal(self.num_tags, self.num_tags)

    @cached_property
    def gold(self) -> list[tuple[Segment, ...]]:
        """An entity of two tokens in every eight."""
        return [
            tuple(Segment(i, i + 2, 1 + (b + i) % (self.num_labels - 1)) for i in range(1, self.num_tokens - 2, 8))
            for b in range(self.num_sentences)
        ]

    @cached_property
    def gold_cover(self) -> list[tuple[Segment, ...]]:
        """The same with null segments of width 1 between, as the semi-Markov model has it."""
        covers = []
        for segments in self.gold:
            inside = {i for s in segments for i in range(s.start, s.end)}
            nulls = [Segment(i, i + 1, 0) for i in range(self.num_tokens) if i not in inside]
            covers.append(tuple(sorted([*segments, *nulls])))
        return covers

    @cached_property
    def gold_tags(self) -> list[list[int]]:
        """The same in BIO: 0 is O, 2y - 1 is B and 2y is I of label y."""
        tags = [[0] * self.num_tokens for _ in self.gold]
        for row, segments in zip(tags, self.gold):
            for start, end, label in segments:
                row[start:end] = [2 * label - 1] + [2 * label] * (end - start - 1)
        return tags
