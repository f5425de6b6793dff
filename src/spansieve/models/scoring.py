"""Sentences batch by batch with their scores, told of the lexicon and of the rest of their document where the model is
made for that.

Axes: B sentences, L tokens, K widths, Y labels, D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import Candidates
from spansieve.crf.structures import FlatSegments
from spansieve.data.batching import prepared_ahead
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import Documents
from spansieve.models.hearing import ArrayCells, Cells, HeardBatch, hear
from spansieve.models.listening import News
from spansieve.models.planning import Most, checked_documents, planned
from spansieve.models.tagger import Batch, Tagger


class Scored(NamedTuple):
    """A batch with what the model thinks of it."""

    indices: Sequence[int]  # which of the sentences
    lengths: Tensor  # (B,)
    vectors: Tensor  # (B, L, D)
    scores: tuple[Tensor, ...]  # as the head has them


def scored_batches(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    documents: Documents | None,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int],
    most: Most,
) -> Iterator[Scored]:
    """Each sentence of the groups once, in a batch with others of its group that are alike in their `sizes`."""
    listening = tagger.listening
    documents = checked_documents(documents, len(sentences), listening.to_documents)
    parts = list(planned(sizes, groups, documents, most))
    batches = list(chain.from_iterable(parts))

    def make(batch: list[int]) -> Batch:
        return tagger.batch([sentences[i] for i in batch])

    made = map(make, batches) if tagger.device.type == "cpu" else prepared_ahead(batches, make)
    scored = (score(tagger, indices, batch.to(tagger.device)) for indices, batch in zip(batches, made))
    if documents is None and not listening.to_lexicon:
        yield from scored
        return
    for part in parts:
        news = listening.news(sentences, documents, chain.from_iterable(part))
        yield from heard(tagger, [next(scored) for _ in part], news)


def score(tagger: Tagger, indices: Sequence[int], batch: Batch) -> Scored:
    vectors = tagger.vectors(batch)
    return Scored(indices, batch.lengths, vectors, tagger.head.scores(vectors))


def heard(tagger: Tagger, batches: Sequence[Scored], news: News) -> list[Scored]:
    """With other scores. Where there is news of documents, all sentences of each are in the batches."""
    batches = [batch._replace(scores=(*batch.scores[:-1], batch.scores[-1].contiguous())) for batch in batches]
    ready = [
        HeardBatch(b.indices, cells_of(b.scores[-1]), _candidates(tagger, b) if news.is_of_documents else None)
        for b in batches
    ]
    hear(ready, news, tagger.listening)
    return batches


def _candidates(tagger: Tagger, batch: Scored) -> FlatSegments | None:
    head = tagger.head
    if not isinstance(head, FilteredHead) or head.takes_nested:
        return None
    return Candidates.from_local_scores(batch.scores[0], batch.lengths, **head.limits._asdict()).on_host()


def cells_of(scores: Tensor) -> Cells:
    """Of (B, L, K, Y) or, of tags, (B, L, Y); contiguous."""
    return ArrayCells(scores.detach().numpy()) if scores.is_cpu else TensorCells(scores)


class TensorCells:
    """Of a tensor on a device, which is written to."""

    def __init__(self, scores: Tensor) -> None:
        dense = scores if scores.ndim == 4 else scores[:, :, None]
        self.shape, self._flat = tuple(dense.shape), dense.view(-1)

    def take(self, index: np.ndarray) -> np.ndarray:
        return self._flat[self._there(index)].cpu().numpy()

    def put(self, index: np.ndarray, values: np.ndarray) -> None:
        self._flat[self._there(index)] = self._there(values).to(self._flat.dtype)

    def _there(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._flat.device)
