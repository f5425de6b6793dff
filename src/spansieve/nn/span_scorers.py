"""Scores of segments from vectors of tokens, one class per feature function.

A scorer has one or more *sets* of scores, such as local and global ones, over one set of features. The global ones are
made for all spans too: the features stand there already for the local ones, and one product more costs less than to
gather those of the candidates.

Axes: B sentences, L tokens, K widths, Y labels, D features of a token, H of a span, S sets.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor, nn

from spansieve.config import Features
from spansieve.nn.span_hidden_layer import SpanHiddenLayer, compiled_for

HALF = (torch.float16, torch.bfloat16)
LONG = 1_024  # tokens
BLOCK = 128  # tokens whose spans are scored at once on the CPU
GPU_BLOCK = 16_384  # and on a GPU
USUAL_WIDTH = 64  # up to which every width is scored, however short the sentences: batches are then of one shape


class SpanScorer(nn.Module):
    """A feature function: `dense(state)[b, i, w, s·Y + y]` scores the segment that starts at i, has width w + 1 and
    label y, in set s.

    `state` is what `forward` makes of the vectors of the tokens; what depends on single tokens is done there, once.
    """

    def __init__(self, max_width: int, num_labels: int) -> None:
        super().__init__()
        self.max_width, self.num_labels = max_width, num_labels

    def forward(self, vectors: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def num_widths(self, num_tokens: int) -> int:
        """K, for sentences of so many tokens; an exported graph has one for all."""
        return self.max_width if torch.compiler.is_compiling() else scored_widths(self.max_width, num_tokens)

    def dense(self, state: tuple[Tensor, ...]) -> Tensor:
        """The scores of all segments, (B, L, K, S·Y)."""
        raise NotImplementedError


class SumScorer(SpanScorer):
    """Linear in the sum of the span's vectors, or in their mean: a difference of two prefix sums of token scores."""

    def __init__(self, size: int, max_width: int, num_labels: int, sets: int, is_mean: bool) -> None:
        super().__init__(max_width, num_labels)
        self.output = nn.Linear(size, sets * num_labels, bias=False)
        self.bias = nn.Parameter(torch.zeros(sets * num_labels))
        self.is_mean = is_mean

    def forward(self, vectors: Tensor) -> tuple[Tensor, ...]:
        return (prefix_sums(self.output(vectors)),)  # (B, L + 1, S·Y)

    def dense(self, state: tuple[Tensor, ...]) -> Tensor:
        sums = span_sums(state[0], self.num_widths(state[0].shape[1] - 1))
        return (sums / widths_of(sums) if self.is_mean else sums) + self.bias


class MaxScorer(SpanScorer):
    """Linear in the maximum of the span's projected vectors, feature by feature."""

    def __init__(self, size: int, hidden_size: int, max_width: int, num_labels: int, sets: int, dropout: float) -> None:
        super().__init__(max_width, num_labels)
        self.project = nn.Linear(size, hidden_size)
        self.output = nn.Linear(hidden_size, sets * num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor) -> tuple[Tensor, ...]:
        return (self.dropout(self.project(vectors)),)  # (B, L, H)

    def dense(self, state: tuple[Tensor, ...]) -> Tensor:
        (single,) = state
        widest, scores = single, []
        for width in range(self.num_widths(single.shape[1])):
            if width:  # a span is the one that is a token shorter, and its last token
                shifted = nn.functional.pad(single[:, width:], (0, 0, 0, min(width, single.shape[1])))
                widest = torch.maximum(widest, shifted)
            scores.append(self.output(widest))
        return torch.stack(scores, dim=2)


class EndpointScorer(SpanScorer):
    """A layer over the two ends of the span, its width and, with `content`, the mean of what it holds.

    The ends are projected once per token and added per span.
    """

    def __init__(
        self, size: int, hidden_size: int, max_width: int, num_labels: int, sets: int, dropout: float, content: bool
    ) -> None:
        super().__init__(max_width, num_labels)
        self.parts = 3 if content else 2
        self.project = nn.Linear(size, self.parts * hidden_size)
        self.width = nn.Embedding(max_width, hidden_size)
        self.output = nn.Linear(hidden_size, sets * num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor) -> tuple[Tensor, ...]:
        # Dropped here and not in the layer over them, which has K times as many features.
        return (self.dropout(self.project(vectors)),)  # (B, L, P·H)

    def dense(self, state: tuple[Tensor, ...]) -> Tensor:
        (projected,) = state
        width = self._width(projected)
        compiled = compiled_for(projected, width)
        if compiled is None:
            return self.by_tensors(state)
        if torch.is_grad_enabled():
            return self.output(SpanHiddenLayer.apply(projected, width, compiled))
        return self._by_blocks(projected, width, compiled)

    def by_tensors(self, state: tuple[Tensor, ...]) -> Tensor:
        """The same scores as `dense`, in tensor operations."""
        first, last, *content = state[0].chunk(self.parts, dim=-1)  # (B, L, H) each
        width = self._width(first)
        hidden = first[:, :, None] + spread(last, len(width)) + width  # (B, L, K, H)
        for part in content:
            sums = span_sums(prefix_sums(part), len(width))
            hidden = hidden + (sums / widths_of(sums)).to(hidden.dtype)
        return self.output(hidden.relu())

    def _width(self, projected: Tensor) -> Tensor:
        """The embeddings of the widths that are scored, (K, H)."""
        num_widths = self.num_widths(projected.shape[1])
        return self.width.weight if num_widths == self.max_width else self.width.weight[:num_widths]

    def _by_blocks(self, projected: Tensor, width: Tensor, compiled: ModuleType) -> Tensor:
        """Score some tokens at a time: a text of any length takes no more memory than that for the hidden layer, and on
        the CPU it stays in the cache."""
        num_sentences, num_tokens, _ = projected.shape
        num_rows = num_sentences * num_tokens
        size = BLOCK if projected.is_cpu else GPU_BLOCK
        scores = projected.new_empty(num_rows, len(width), self.output.out_features)
        hidden = projected.new_empty(min(size, num_rows), *width.shape)
        for low in range(0, num_rows, size):
            block = hidden[: num_rows - low]
            compiled.fill_hidden(projected, width, block, low)
            scores[low : low + size] = self.output(block)
        return scores.view(num_sentences, num_tokens, *scores.shape[1:])


def span_scorer(
    kind: Features, size: int, hidden_size: int, max_width: int, num_labels: int, sets: int, dropout: float
) -> SpanScorer:
    if kind in ("sum", "mean"):
        return SumScorer(size, max_width, num_labels, sets, kind == "mean")
    if kind == "max":
        return MaxScorer(size, hidden_size, max_width, num_labels, sets, dropout)
    return EndpointScorer(size, hidden_size, max_width, num_labels, sets, dropout, kind == "endpoints-content")


def scored_widths(max_width: int, num_tokens: int) -> int:
    """Return how many widths are scored: no span is wider than the sentence, so that a large `max_width` takes no more
    memory than that.

    >>> scored_widths(12, 5), scored_widths(10_000, 5), scored_widths(10_000, 300)
    (12, 64, 300)
    """
    return max_width if max_width <= USUAL_WIDTH else min(max_width, max(num_tokens, USUAL_WIDTH))


# ---- Spans of tokens -------------------------------------------------------------------------------------------------


def spread(vectors: Tensor, max_width: int) -> Tensor:
    """The vector at the last token of each span, (B, L, K, D), zero beyond the end: a view, not a copy."""
    padded = nn.functional.pad(vectors, (0, 0, 0, max_width))
    return padded.unfold(1, max_width, 1).transpose(2, 3)[:, : vectors.shape[1]]


def prefix_sums(vectors: Tensor) -> Tensor:
    """The sums over the first tokens, (B, L + 1, D), in single precision at least.

    In double precision where there are many: of a sum of thousands single precision keeps too little of the last few.
    """
    is_long = vectors.shape[1] > LONG
    wide = vectors.double() if is_long else vectors.float() if vectors.dtype in HALF else vectors
    return nn.functional.pad(wide.cumsum(1), (0, 0, 1, 0))


def span_sums(prefix: Tensor, max_width: int) -> Tensor:
    """The sum over each span, (B, L, K, D), from prefix sums."""
    return spread(prefix[:, 1:], max_width) - prefix[:, :-1, None]


def widths_of(spans: Tensor) -> Tensor:
    """The widths 1 … K, to divide (B, L, K, D) by."""
    return torch.arange(1, spans.shape[2] + 1, device=spans.device, dtype=spans.dtype)[:, None]
