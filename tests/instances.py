"""What Hypothesis draws: small batches with ragged lengths, ties, extreme and impossible scores."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis.extra import numpy as hnp

from spansieve import Segment

PLAIN = st.floats(-3, 3, width=32)
TIES = st.integers(-1, 1).map(float)
EXTREME = st.one_of(PLAIN, st.sampled_from([1e4, -1e4, -np.inf]))
IMPOSSIBLE = st.one_of(PLAIN, st.just(-np.inf))


class Instance(NamedTuple):
    scores: np.ndarray  # (B, L, K, Y)
    local_scores: np.ndarray  # (B, L, K, Y)
    transition: np.ndarray  # (Y, Y)
    lengths: list[int]
    dtype: torch.dtype
    is_exact: bool
    device: str = "cpu"

    def tensor(self, array: np.ndarray, requires_grad: bool = False) -> torch.Tensor:
        return torch.tensor(array, dtype=self.dtype, device=self.device, requires_grad=requires_grad)


@st.composite
def instances(draw, most_tokens: int = 4, most_sentences: int = 3, most_labels: int = 3) -> Instance:
    elements = draw(st.sampled_from([PLAIN, TIES, EXTREME, IMPOSSIBLE]))
    num_labels = draw(st.integers(1, most_labels))
    max_width = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(0, most_tokens), min_size=1, max_size=most_sentences))
    num_tokens = max(lengths) + draw(st.integers(0, 1))  # now and then more padding than any sentence needs
    shape = (len(lengths), num_tokens, max_width, num_labels)
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    local_elements = draw(st.sampled_from([TIES, st.one_of(TIES, PLAIN), EXTREME, IMPOSSIBLE]))
    arrays = [draw(hnp.arrays(np.float64, shape, elements=e)) for e in (elements, local_elements)]
    transition = draw(hnp.arrays(np.float64, (num_labels, num_labels), elements=elements))
    return Instance(*arrays, transition, lengths, dtype, elements is TIES)


def gold_for(draw, lengths: list[int], max_width: int, num_labels: int) -> list[list[Segment]]:
    """Disjoint segments, drawn from left to right."""
    gold: list[list[Segment]] = []
    for length in lengths:
        segments, at = [], 0
        while at < length:
            at += draw(st.integers(0, 2))
            width = draw(st.integers(1, max_width))
            if num_labels > 1 and at + width <= length:
                segments.append(Segment(at, at + width, draw(st.integers(1, num_labels - 1))))
            at += width
        gold.append(segments)
    return gold
