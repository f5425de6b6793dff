"""Batches padded to few shapes, in one block of memory each: what a captured step takes.

Axes: B sentences, L tokens, K widths, Y labels, N parts of gold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import Gold
from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.gold import Parts
from spansieve.crf.losses import IGNORED
from spansieve.models.head import HeadGold
from spansieve.models.tagger import Batch, Tagger
from spansieve.nn.encoder import rounded
from spansieve.nn.span_scorers import scored_widths

ALIGNMENT = 64  # bytes
MAX_RATES = 14  # groups of an optimizer
HEADER = 2 + MAX_RATES  # numbers in front of a batch
PARTS = [field.name for field in fields(Parts)]
GOLD = "gold."  # before the names of what is not the encoder's


class Entry(NamedTuple):
    """An array of the block: what it is, and where."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    low: int  # bytes
    high: int


class Layout(NamedTuple):
    """The shapes of a batch, which are those of a graph."""

    entries: tuple[Entry, ...]
    shape: tuple[int, ...]  # of the scores


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """A padded batch in one block, on the host, behind the numbers that change with every step."""

    layout: Layout
    data: Tensor  # (bytes,)
    segments: FlatSegments | None  # of gold, for its checks

    def set_header(self, numbers: Sequence[float]) -> None:
        self.data[: 4 * len(numbers)].view(torch.float32).copy_(torch.tensor(numbers))

    def on(self, block: Tensor) -> tuple[Batch, Tensor]:
        """The batch and the numbers before it, (HEADER,), as views of a block with this layout."""
        views = {
            entry.name: block[entry.low : entry.high].view(entry.dtype).view(entry.shape)
            for entry in self.layout.entries
        }
        own = {name.removeprefix(GOLD): views.pop(name) for name in list(views) if name.startswith(GOLD)}
        parts = Parts(*(own[name] for name in PARTS))
        structures = Gold(self.layout.shape, parts, self.segments, own.get("covered"))
        gold = HeadGold(structures, own.get("span_labels"))
        return Batch(views, own["lengths"], gold), block[: 4 * HEADER].view(torch.float32)


def pack(batch: Batch, tagger: Tagger, batch_size: int) -> PackedBatch | None:
    """Pad a batch to one of few shapes; None where it has none: it is larger than others, a sentence of it is longer
    than the encoder's window, or its gold is no structure per sentence."""
    gold = batch.gold
    if len(batch) > batch_size or not isinstance(gold, HeadGold) or gold.known is not None:
        return None
    # One token more than any sentence has: its parts belong to no sentence, and the gold that fills up is there.
    num_tokens = rounded(gold.structures.shape[1] + 1)
    features = tagger.encoder.padded(batch.features, batch_size, num_tokens)
    if features is None or len(gold.structures.parts.part) > batch_size * num_tokens:
        return None
    shape = _padded_shape(gold.structures.shape, batch_size, num_tokens, tagger.head.max_width)
    arrays = {name: tensor.numpy() for name, tensor in features.items()}
    arrays |= {GOLD + name: array for name, array in padded_gold(gold, shape).items()}
    arrays[GOLD + "lengths"] = padded(batch.lengths.numpy(), (batch_size,))
    segments = gold.structures.segments
    if segments is not None:
        segments = segments._replace(offsets=_extended(segments.offsets, batch_size + 1))
    return _in_one_block(arrays, shape, segments)


def padded_gold(gold: HeadGold, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The tensors of gold for scores of a larger shape. What fills up is a part of no sentence: a span beyond all."""
    structures, num_sentences, num_tokens = gold.structures, shape[0], shape[1]
    arrays = {name: getattr(structures.parts, name).numpy() for name in PARTS}
    at = np.unravel_index(arrays["part"], structures.shape)
    most = num_sentences * num_tokens
    nowhere = (num_tokens - 1) * prod(shape[2:])
    filled = {
        "part": padded(np.asarray(np.ravel_multi_index(at, shape)), (most,), nowhere),
        **{name: padded(arrays[name], (most,)) for name in ("sentence", "pair", "pair_sentence")},
        "offsets": _extended(arrays["offsets"], num_sentences + 1),
    }
    if structures.covered is not None:
        covered = _extended(structures.covered.numpy(), num_tokens + 1)
        filled["covered"] = padded(covered, (num_sentences, num_tokens + 1))
    if gold.span_labels is not None:
        filled["span_labels"] = padded(gold.span_labels.numpy(), shape[: gold.span_labels.ndim], IGNORED)
    return filled


def padded(array: np.ndarray, shape: Sequence[int], value: int = 0) -> np.ndarray:
    """Fill an array up to a shape."""
    result = np.full(shape, value, array.dtype)
    result[tuple(map(slice, array.shape))] = array
    return result


def _extended(array: np.ndarray, size: int) -> np.ndarray:
    """Repeat the last entries up to a size of the last axis."""
    result = np.empty((*array.shape[:-1], size), array.dtype)
    result[..., : array.shape[-1]], result[..., array.shape[-1] :] = array, array[..., -1:]
    return result


def _padded_shape(shape: tuple[int, ...], num_sentences: int, num_tokens: int, max_width: int) -> tuple[int, ...]:
    if len(shape) == 3:
        return num_sentences, num_tokens, shape[-1]
    return num_sentences, num_tokens, scored_widths(max_width, num_tokens), shape[-1]


def _in_one_block(arrays: dict[str, np.ndarray], shape: tuple[int, ...], segments: FlatSegments | None) -> PackedBatch:
    entries, low = [], _aligned(4 * HEADER)
    for name, array in arrays.items():
        dtype = torch.from_numpy(array[:0]).dtype
        entries.append(Entry(name, array.shape, dtype, low, low + array.nbytes))
        low = _aligned(low + array.nbytes)
    block = np.zeros(low, np.uint8)
    for entry, array in zip(entries, arrays.values()):
        block[entry.low : entry.high].view(array.dtype)[:] = array.ravel()
    return PackedBatch(Layout(tuple(entries), shape), torch.from_numpy(block), segments)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
