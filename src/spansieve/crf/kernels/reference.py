"""Plain torch: each distribution's recursion, once, for every semiring. The definition that fast kernels must equal.

Axes: W ways (see `semirings`), B sentences, L tokens, K widths, Y labels, N candidates.

A recursion takes scores (W, …) and the transition of each sentence (W, B, Y, Y), and returns ⊕ over all structures,
(W, B). Predecessors are merged in (end, start, label) order, so that the first of equals wins everywhere alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spansieve.crf.kernels import RequiredDepths
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


def filtered(
    semiring: Semiring, scores: Tensor, transition: Tensor, candidates: Candidates, skip: bool | Tensor
) -> Tensor:
    """Algorithm 1 of Zaratiana et al. (Findings of EMNLP 2023), and with max for ⊕ Algorithm 2, by the window theorem:
    candidate by candidate, in (end, start, label) order.

    value[c] = scores[c] + ⊕ over the predecessors c' of value[c'] + transition[label(c'), label(c)]; from the start,
    whose value is 0, where nothing stands before c that cannot be skipped. O(|V| + |E|).
    """
    label = candidates.label.tolist()
    windows = candidates.windows(skip)
    offsets = candidates.offsets.tolist()
    own = scores.unbind(1)  # N gradients of size N would be added up if each were taken by its index
    totals = []
    for b in range(len(offsets) - 1):
        value: dict[int, Tensor] = {}  # (W,) each
        for c in range(offsets[b], offsets[b + 1]):
            before = range(windows.first[c], windows.last[c])
            ways_in = transition[:, b, label[before.start : before.stop], label[c]]  # (W, predecessors)
            value[c] = _merged(semiring, [value[p] for p in before], windows.opens[c], scores, ways_in) + own[c]
        before_end = range(windows.end_first[b], windows.end_last[b])
        totals.append(_merged(semiring, [value[p] for p in before_end], windows.end_opens[b], scores))
    return torch.stack(totals, dim=1) if totals else scores.new_zeros(semiring.ways, 0)


def _merged(
    semiring: Semiring, values: list[Tensor], opens: bool, scores: Tensor, ways_in: Tensor | float = 0.0
) -> Tensor:
    """⊕ of the values, each with its way in, and, where it is one, of the start."""
    into = [(torch.stack(values, dim=-1) + ways_in)] if values else []  # (W, values)
    start = [semiring.one(scores)[:, None]] if opens else []
    return semiring.plus(torch.cat([*start, *into], dim=-1), dim=-1)


def nested(
    semiring: Semiring,
    scores: Tensor,
    transition: Tensor,
    candidates: Candidates,
    required: RequiredDepths | None = None,
) -> Tensor:
    """The inside algorithm over spans: ⊕ over all laminar sets of candidates.

    With p the label of a container that starts at i, or 0 for the sentence, inside[p, i, j] is ⊕ over the laminar sets
    in [i, j), and within[p, i, j] the same without a segment on [i, j) itself:

        value[c]        = scores[c] + within[label(c), i, j]                           c on [i, j)
        into[p, i, j]   = ⊕ over the candidates c on [i, j) of value[c] + transition[p, label(c)]
        within[p, i, j] = inside[p, i, j-1] ⊕ ⊕_{i < m < j} inside[p, i, m] ⊗ into[p, m, j]
        inside[p, i, j] = within[p, i, j] ⊕ into[p, i, j],    inside[p, i, i] = 1

    The last outermost segment of a set decides its case, so each set is counted once. The result is inside[0, 0, L].
    With `required`, the term inside[p, i, j-1] is there only where token j-1 is as deep as the content of p.
    """
    lengths, offsets = candidates.lengths.tolist(), candidates.offsets.tolist()
    start, end, labels = candidates.start.tolist(), candidates.end.tolist(), candidates.label.tolist()
    totals = []
    for b, length in enumerate(lengths):
        nodes = range(offsets[b], offsets[b + 1])
        depth = None if required is None else (required.token[b].tolist(), required.content.tolist())
        spans = _Spans(semiring, scores, transition[:, b], labels, depth)
        for i in sorted({start[c] for c in nodes}, reverse=True):
            spans.start_at(i, [c for c in nodes if start[c] == i], end)
        totals.append(spans.total(length))
    return torch.stack(totals, dim=1) if totals else scores.new_zeros(semiring.ways, 0)


class _Spans:
    """The inside values of one sentence, from its last start to its first."""

    def __init__(
        self,
        semiring: Semiring,
        scores: Tensor,
        transition: Tensor,
        labels: Sequence[int],
        depth: tuple[list[int], list[int]] | None,
    ) -> None:
        self.semiring, self.scores, self.transition, self.labels = semiring, scores, transition, labels
        self.depth = depth  # of each token, and of the content of each label
        self.ending: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)  # the candidates by end and start
        self.value: dict[int, Tensor] = {}  # (W,) each

    def start_at(self, i: int, nodes: Sequence[int], end: Sequence[int]) -> None:
        """Add all candidates that start at i, with everything inside them. `nodes` are sorted by (end, label)."""
        parents = {self.labels[c] for c in nodes}
        inside = {p: {i: self.semiring.one(self.scores)} for p in parents}
        for j in range(i + 1, max(end[c] for c in nodes) + 1):
            terms = {p: self._children(inside[p], p, i, j) for p in parents}
            on_span = [c for c in nodes if end[c] == j]
            for c in on_span:
                self.value[c] = self._plus(terms[self.labels[c]]) + self.scores[:, c]
            if on_span:
                self.ending[j][i] = on_span
            for p in parents:
                first, *others = terms[p]
                own = [self._into(p, i, j)] if on_span else []
                inside[p][j] = self._plus([first, *own, *others])

    def total(self, length: int) -> Tensor:
        inside = {0: self.semiring.one(self.scores)}
        for j in range(1, length + 1):
            inside[j] = self._plus(self._children(inside, 0, -1, j))
        return inside[length]

    def _children(self, inside: dict[int, Tensor], p: int, i: int, j: int) -> list[Tensor]:
        """The terms of within[p, i, j]: nothing ends at j, or what does starts at m, in the order of m."""
        starts = sorted(m for m in self.ending[j] if m > i)
        is_bare = self.depth is None or self.depth[0][j - 1] == self.depth[1][p]
        before = inside[j - 1] if is_bare else torch.full_like(inside[j - 1], -torch.inf)
        return [before, *(self.semiring.times(inside[m], self._into(p, m, j)) for m in starts)]

    def _into(self, p: int, m: int, j: int) -> Tensor:
        return self._plus([self.value[c] + self.transition[:, p, self.labels[c]] for c in self.ending[j][m]])

    def _plus(self, values: list[Tensor]) -> Tensor:
        return values[0] if len(values) == 1 else self.semiring.plus(torch.stack(values, dim=-1), dim=-1)
