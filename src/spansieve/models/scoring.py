"""Sentences batch by batch with their scores.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from spansieve.data.batching import prepared_ahead
from spansieve.models.tagger import Batch, Tagger


class Scored(NamedTuple):
    """A batch with the model's scores."""

    indices: Sequence[int]  # which of the sentences
    lengths: Tensor  # (B,)
    vectors: Tensor  # (B, L, D)
    scores: tuple[Tensor, ...]  # as the head has them


def scored_batches(
    tagger: Tagger, sentences: Sequence[Sequence[str]], batches: Sequence[Sequence[int]]
) -> Iterator[Scored]:
    """Score the batches, in their order. With an accelerator the next batches are prepared while it works."""

    def make(batch: Sequence[int]) -> Batch:
        return tagger.batch([sentences[i] for i in batch])

    made = map(make, batches) if tagger.device.type == "cpu" else prepared_ahead(batches, make)
    return (score(tagger, indices, batch.to(tagger.device)) for indices, batch in zip(batches, made))


def score(tagger: Tagger, indices: Sequence[int], batch: Batch) -> Scored:
    vectors = tagger.vectors(batch)
    return Scored(indices, batch.lengths, vectors, tagger.head.scores(vectors))
