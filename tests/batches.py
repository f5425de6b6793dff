"""Random batches by seed, where hundreds of them say more than what Hypothesis would shrink."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from spansieve import Segment


class Batch(NamedTuple):
    local_scores: np.ndarray  # (B, L, K, Y)
    scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray  # (Y, Y)
    lengths: list[int]
    gold: list[list[Segment]]

    def tensors(self, dtype: torch.dtype, requires_grad: bool = False) -> list[torch.Tensor]:
        """Local scores, scores and transition; gradients reach the last two."""
        arrays = zip(self[:3], (False, requires_grad, requires_grad))
        return [torch.tensor(array, dtype=dtype, requires_grad=tracked) for array, tracked in arrays]


def random_batch(
    seed: int,
    lengths: tuple[int, ...] | None = None,
    max_width: int | None = None,
    num_labels: int | None = None,
    whole_numbers: bool = False,
) -> Batch:
    """Normal scores, or small whole numbers, which tie. Gold is disjoint. What is not given is drawn."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, 7, random.integers(1, 5))
    lengths = [int(length) for length in (drawn if lengths is None else lengths)]
    max_width = max_width or int(random.integers(1, 5))
    num_labels = num_labels or int(random.integers(2, 6))
    shape = (len(lengths), max(lengths), max_width, num_labels)
    shapes = (shape, shape, (num_labels, num_labels))
    arrays = [random.integers(-1, 2, s).astype(float) if whole_numbers else random.normal(size=s) for s in shapes]
    arrays[0][..., 0] += random.choice([0.0, 1.0, 2.0])
    gold = [random_gold(random, length, max_width, num_labels) for length in lengths]
    return Batch(*arrays, lengths, gold)


def random_gold(random: np.random.Generator, length: int, max_width: int, num_labels: int) -> list[Segment]:
    gold, at = [], int(random.integers(0, 3))
    while num_labels > 1 and at < length:
        end = at + int(random.integers(1, max_width + 1))
        if end <= length:
            gold.append(Segment(at, end, int(random.integers(1, num_labels))))
        at = end + int(random.integers(0, 3))
    return gold


def random_nodes(random: np.random.Generator, length: int, most: int = 9) -> list[Segment]:
    """Distinct candidates of one sentence, now and then two labels on one span."""
    starts = random.integers(0, length, random.integers(0, most + 1))
    nodes = {Segment(int(i), int(random.integers(i + 1, length + 1)), int(random.integers(1, 3))) for i in starts}
    return sorted(nodes, key=lambda s: (s.end, s.start, s.label))
