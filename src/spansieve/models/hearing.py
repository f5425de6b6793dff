"""Scores that are told more than the sentence says: what the training data calls the words, and what the model thinks
of them, or of what stands in their place, elsewhere in the document. No torch here.

First, a segment whose words are in the lexicon is told what they say for its label. Then, with weight w, its score is
the mean of its own and of those of all other spans of the document that have its words, the others counting w each. A
candidate hears as much of the longer candidates elsewhere that its words are a part of: of "Ada Lovelace" where it
stands as "Lovelace". Last, it hears in the same way of the candidates between the same neighbours, the rows of a table.

Axes: B sentences, L tokens, K widths, Y labels, M mentions, N candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from spansieve.crf.structures import FlatSegments
from spansieve.data.frames import Frames
from spansieve.data.lexicon import Remembered
from spansieve.data.mentions import Mentions
from spansieve.models.listening import Listening, News


class Cells(Protocol):
    """Scores of a batch, (B, L, K, Y), wherever they are kept."""

    @property
    def shape(self) -> Sequence[int]: ...

    def take(self, index: np.ndarray) -> np.ndarray:
        """What stands at places in the flattened scores."""

    def put(self, index: np.ndarray, values: np.ndarray) -> None: ...


class ArrayCells:
    """Of an array, which is written to."""

    def __init__(self, scores: np.ndarray) -> None:
        """(B, L, K, Y) or, of tags, (B, L, Y); contiguous."""
        dense = scores if scores.ndim == 4 else scores[:, :, None]
        self.shape, self._flat = dense.shape, dense.reshape(-1)

    def take(self, index: np.ndarray) -> np.ndarray:
        return self._flat[index]

    def put(self, index: np.ndarray, values: np.ndarray) -> None:
        self._flat[index] = values


class HeardBatch(NamedTuple):
    indices: Sequence[int]  # which of the sentences
    cells: Cells
    candidates: FlatSegments | None  # of a model that filters and whose segments do not nest


def hear(batches: Sequence[HeardBatch], news: News, listening: Listening) -> None:
    """Changes the scores of batches; where there is news of documents, they have whole documents in them."""
    if not batches:
        return
    places = _Places(batches)
    if news.remembered is not None:
        _recall(places, news.remembered, listening.lexicon_weight)
    kept = None if any(batch.candidates is None for batch in batches) else _joined(batches)
    if news.mentions is not None and len(news.mentions):
        _hear_mentions(places, kept, news.mentions, listening.mention_weight)
    if news.frames is not None and kept is not None:
        _hear_same_frame(places, kept, news.frames, listening.frame_weight)


def _recall(places: _Places, found: Remembered, weight: float) -> None:
    found = Remembered(*(column[found.width <= places.max_width] for column in found))
    rows = places.of(found.sentence, found.start, found.width, 0)[:, None] + np.arange(places.num_labels)
    places.put(rows, places.take(rows) + weight * found.evidence)


def _hear_mentions(places: _Places, kept: _Kept | None, mentions: Mentions, weight: float) -> None:
    if kept is None:
        _hear_same_words(places, mentions, weight)
        return
    mention = mentions.find(kept.sentence, kept.start, kept.end - kept.start)  # which one each candidate is, or -1
    # Words that are nowhere a candidate need not hear of each other: nobody will ask for their scores.
    in_group = np.bincount(mentions.group[mention[mention >= 0]], minlength=len(mentions.first))
    _hear_same_words(places, mentions.only(in_group[mentions.group] > 0), weight)
    _hear_longer_candidates(places, kept, mention, mentions, weight)


def _hear_same_words(places: _Places, mentions: Mentions, weight: float) -> None:
    if not len(mentions):
        return
    rows = places.of(mentions.sentence, mentions.start, mentions.width, 0)[:, None] + np.arange(places.num_labels)
    scores = places.take(rows)
    first = mentions.first
    number = np.diff(first, append=len(mentions))
    total = np.repeat(np.add.reduceat(scores, first, axis=0), number, axis=0)
    others = np.repeat(number - 1, number)[:, None]
    places.put(rows, (scores + weight * (total - scores)) / (1 + weight * others))


def _hear_longer_candidates(
    places: _Places, kept: _Kept, mention: np.ndarray, mentions: Mentions, weight: float
) -> None:
    cells = places.of(kept.sentence, kept.start, kept.end - kept.start, kept.label)
    scores = places.take(cells)
    part, longer = _parts(kept, mentions)
    num_labels, num_groups = places.num_labels, len(mentions.first)

    def summed(where: np.ndarray, size: int, values: np.ndarray | None) -> np.ndarray:
        return np.bincount(where * num_labels + kept.label[longer], values, size * num_labels)

    hearing = np.flatnonzero(mention >= 0)
    here = mention[hearing] * num_labels + kept.label[hearing]
    words = mentions.group[mention[hearing]] * num_labels + kept.label[hearing]
    # Of what it is a part of elsewhere: here that is its rival.
    total, count = (
        summed(mentions.group[part], num_groups, values)[words] - summed(part, len(mentions), values)[here]
        for values in (scores[longer].astype(np.float64), None)
    )
    hearing, total, count = (column[count > 0] for column in (hearing, total, count))
    places.put(cells[hearing], (scores[hearing] + weight * total / count) / (1 + weight))


def _hear_same_frame(places: _Places, kept: _Kept, frames: Frames, weight: float) -> None:
    """A span with several labels is one that speaks, and of all of them."""
    spans = np.unique(np.stack((kept.sentence, kept.start, kept.end)), axis=1)
    frame = frames.of(*spans)
    _, group, number = np.unique(frame, return_inverse=True, return_counts=True)
    is_hearing = (frame >= 0) & (number[group] > 1)
    group = group[is_hearing]
    sentence, start, end = spans[:, is_hearing]
    rows = places.of(sentence, start, end - start, 0)[:, None] + np.arange(places.num_labels)
    scores = places.take(rows)
    total = np.zeros((len(number), places.num_labels), np.float64)
    np.add.at(total, group, scores)
    places.put(rows, (scores + weight * (total[group] - scores)) / (1 + weight * (number[group] - 1))[:, None])


def _parts(kept: _Kept, mentions: Mentions) -> tuple[np.ndarray, np.ndarray]:
    """Mentions that are a part of a candidate, and the candidates that they are a part of."""
    width = kept.end - kept.start
    parts, wholes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part_width in range(1, int(width.max(initial=1))):
        for offset in range(int(width.max(initial=1)) - part_width + 1):
            whole = np.flatnonzero((width >= offset + part_width) & (width > part_width))
            found = mentions.find(kept.sentence[whole], kept.start[whole] + offset, np.full(len(whole), part_width))
            parts.append(found[found >= 0])
            wholes.append(whole[found >= 0])
    return np.concatenate(parts), np.concatenate(wholes)


class _Kept(NamedTuple):
    """Candidates of all batches, (N,) each."""

    sentence: np.ndarray
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray


def _joined(batches: Sequence[HeardBatch]) -> _Kept:
    columns = [
        (np.asarray(batch.indices)[found.sentence], found.start, found.end, found.label)
        for batch in batches
        if (found := batch.candidates) is not None
    ]
    return _Kept(*(np.concatenate(column) for column in zip(*columns)))


class _Places:
    """The scores of all batches as one flat array, by sentence, start, width and label."""

    def __init__(self, batches: Sequence[HeardBatch]) -> None:
        self._cells = [batch.cells for batch in batches]
        shapes = np.array([cells.shape for cells in self._cells], np.int64)  # one row each
        sizes = shapes.prod(axis=1)
        self._base = sizes.cumsum() - sizes
        self.num_labels = int(shapes[0, 3])
        self.max_width = int(shapes[0, 2])
        row = np.concatenate([np.arange(number) for number in shapes[:, 0]])
        batch = np.repeat(np.arange(len(shapes)), shapes[:, 0])
        indices = np.concatenate([np.asarray(one.indices) for one in batches])
        self._first = np.zeros(indices.max() + 1, np.int64)  # where each sentence begins
        self._first[indices] = self._base[batch] + row * shapes[batch, 1:].prod(axis=1)

    def of(self, sentence: np.ndarray, start: np.ndarray, width: np.ndarray, label: np.ndarray | int) -> np.ndarray:
        return self._first[sentence] + (start * self.max_width + width - 1) * self.num_labels + label

    def take(self, places: np.ndarray) -> np.ndarray:
        values = np.empty(places.shape, np.float32)
        for cells, here, index in self._by_batch(places):
            values[here] = cells.take(index)
        return values

    def put(self, places: np.ndarray, values: np.ndarray) -> None:
        for cells, here, index in self._by_batch(places):
            cells.put(index, values[here])

    def _by_batch(self, places: np.ndarray) -> Iterator[tuple[Cells, np.ndarray, np.ndarray]]:
        batch = np.searchsorted(self._base, places, side="right") - 1
        for number, (cells, base) in enumerate(zip(self._cells, self._base)):
            here = batch == number
            if here.any():
                yield cells, here, places[here] - base
