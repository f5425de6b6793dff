"""Scoring and decoding apart: what a model computes of a sentence, and what is then made of its scores.

Scoring is the encoder and the head's scores of all spans or tokens. Decoding is all that follows: the checks of the
scores, the filter where there is one, the best path, and its segments as Python values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spansieve.crf import Distribution
from spansieve.data.example import Example
from spansieve.models.tagger import Batch, Tagger
from spansieve.segments import Segment


@dataclass(frozen=True, eq=False)
class Scored:
    """A batch and its scores, on the device."""

    tagger: Tagger
    batch: Batch
    vectors: Tensor  # (B, L, D)
    scores: tuple[Tensor, ...]  # as the head has them

    @classmethod
    def of(cls, tagger: Tagger, sentences: Sequence[Sequence[str]]) -> Scored:
        batch = tagger.batch(sentences).to(tagger.device)
        with torch.inference_mode():
            vectors = tagger.vectors(batch)
            return cls(tagger, batch, vectors, tagger.head.scores(vectors))

    def score(self) -> tuple[Tensor, ...]:
        with torch.inference_mode():
            return self.tagger.head.scores(self.tagger.vectors(self.batch))

    def distribution(self) -> Distribution:
        """A new distribution, of which nothing is computed yet."""
        with torch.inference_mode():
            return self._head.distribution(self.vectors, self.batch.lengths)

    def decode(self) -> list[list[Segment]]:
        with torch.inference_mode():
            mode = self._head.distribution(self.vectors, self.batch.lengths).mode
            return [list(self._head.entities(structure)) for structure in mode]

    @property
    def _head(self) -> Any:
        """The head with its scores known."""
        head = copy.copy(self.tagger.head)
        head.scores = lambda vectors: self.scores  # type: ignore[method-assign]
        return head


def batches_of(tagger: Tagger, examples: Sequence[Example], batch_size: int) -> list[Scored]:
    """Sentences of like length together, as a predictor has them."""
    ordered = sorted((example.tokens for example in examples), key=len)
    return [Scored.of(tagger, ordered[i : i + batch_size]) for i in range(0, len(ordered), batch_size)]


def over(runs: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """One after the other."""

    def run() -> None:
        for one in runs:
            one()

    return run
