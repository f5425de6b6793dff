"""Plain torch: each distribution's recursion, once, for every semiring. The definition that fast kernels must equal.

Axes: W ways (see `semirings`), B sentences, L tokens, K widths, Y labels, N candidates.

A recursion takes scores (W, …) and the transition of each sentence (W, B, Y, Y), and returns ⊕ over all structures,
(W, B). Predecessors are merged in (end, start, label) order, so that the first of equals wins everywhere alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spansieve.crf.kernels.semirings import Semiring

if TYPE_CHECKING:
    from spansieve.crf.candidates import Candidates


def linear_chain(semiring: Semiring, scores: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """The forward algorithm. alpha[i, y] = ⊕_{y'} alpha[i-1, y'] + transition[y', y], plus scores[i, y]. O(L·Y²)."""
    num_tokens = scores.shape[2]
    one = semiring.one(scores)
    if num_tokens == 0:
        return one[:, None].expand(-1, scores.shape[1])
    alpha = one[:, None, None] + scores[:, :, 0]  # (W, B, Y)
    for i in range(1, num_tokens):
        step = semiring.plus(alpha[..., None] + transition, dim=-2) + scores[:, :, i]
        alpha = torch.where((i < lengths)[:, None], step, alpha)
    return torch.where(lengths > 0, semiring.plus(alpha, dim=-1), one[:, None])


def semi_markov(semiring: Semiring, scores: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """The segmental forward algorithm, one choice per preceding segment: O(L·K·Y²).

    before[m, y] = ⊕ over the segments (m-w, m, y') of before[m-w, y'] + scores[m-w, w-1, y'] + transition[y', y].
    """
    ways, num_sentences, num_tokens, max_width, num_labels = scores.shape
    one = semiring.one(scores)
    before = [one[:, None, None].expand(ways, num_sentences, num_labels)]
    totals = [one[:, None].expand(ways, num_sentences)]
    for m in range(1, num_tokens + 1):
        starts = range(max(0, m - max_width), m)
        segments = torch.stack([before[i] + scores[:, :, i, m - i - 1] for i in starts], dim=2)  # (W, B, starts, Y)
        followed = segments[..., None] + transition[:, :, None]  # (W, B, starts, Y, Y)
        before.append(semiring.plus(followed.flatten(2, 3), dim=-2))
        totals.append(semiring.plus(segments.flatten(2), dim=-1))
    return torch.stack(totals)[lengths, :, torch.arange(num_sentences, device=lengths.device)].T


def filtered(semiring: Semiring, scores: Tensor, transition: Tensor, candidates: Candidates, skip: bool) -> Tensor:
    """Algorithm 1 of the paper by the window theorem, candidate by candidate, in (end, start, label) order.

    value[c] = scores[c] + ⊕ over the predecessors c' of value[c'] + transition[label(c'), label(c)]; from the start,
    whose value is 0, where nothing can precede c, and with `skip` always. O(|V| + |E|).
    """
    label = candidates.label.tolist()
    windows = candidates.windows(skip)
    offsets = candidates.offsets.tolist()
    totals = []
    for b in range(len(offsets) - 1):
        value: dict[int, Tensor] = {}  # (W,) each
        for c in range(offsets[b], offsets[b + 1]):
            before = range(windows.first[c], windows.last[c])
            into = [value[p] + transition[:, b, label[p], label[c]] for p in before]
            value[c] = _merged(semiring, into, skip, scores) + scores[:, c]
        before_end = range(windows.end_first[b], windows.end_last[b])
        totals.append(_merged(semiring, [value[p] for p in before_end], skip, scores))
    return torch.stack(totals, dim=1) if totals else scores.new_zeros(semiring.ways, 0)


def _merged(semiring: Semiring, values: list[Tensor], skip: bool, scores: Tensor) -> Tensor:
    """⊕ of the values and, where it is a way in, of the start."""
    if skip or not values:
        values = [semiring.one(scores), *values]
    return semiring.plus(torch.stack(values, dim=-1), dim=-1)
