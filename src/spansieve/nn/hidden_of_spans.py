"""The hidden layer over all spans on the CPU: one compiled pass each way instead of a dozen over (B, L, K, H) numbers.

The definition in tensor operations is `EndpointScorer.by_tensors`, which other devices use.

Axes: B sentences, L tokens, K widths, H features of a span, P parts of a token's projection.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spansieve.crf.kernels.cpu.compiled import over_sentences, vectorised


def is_for(projected: Tensor) -> bool:
    """True where the compiled pass can be taken; what is traced must be seen in tensor operations."""
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return projected.is_cpu and projected.dtype in (torch.float32, torch.float64) and not is_traced


class HiddenOfSpans(torch.autograd.Function):
    """relu(first + last + width + mean of the content), (B, L, K, H), 0 for spans that end beyond L.

    `projected` holds, token by token, what it adds as a span's first, as its last and, with P = 3, as its content:
    (B, L, P·H). `width` is (K, H).
    """

    @staticmethod
    def forward(ctx, projected: Tensor, width: Tensor) -> Tensor:
        num_sentences, num_tokens, _ = projected.shape
        hidden = projected.new_empty(num_sentences, num_tokens, *width.shape)
        fill_hidden(projected, width, hidden.flatten(0, 1), 0)
        ctx.save_for_backward(hidden)
        ctx.size = projected.shape[2]
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (hidden,) = ctx.saved_tensors
        num_sentences, num_tokens, max_width, size = hidden.shape
        to_projected = hidden.new_zeros(num_sentences, num_tokens, ctx.size)
        to_width = hidden.new_zeros(num_sentences, max_width, size)
        content = hidden.new_empty(num_sentences, size)
        arrays = (x.numpy() for x in (gradient.contiguous(), hidden, to_projected, to_width, content))
        over_sentences(_spread_gradient, num_sentences, torch.get_num_threads(), hidden.numel(), *arrays)
        return to_projected, to_width.sum(0)


def fill_hidden(projected: Tensor, width: Tensor, out: Tensor, first_row: int) -> None:
    """The spans that start at tokens `first_row …` of the flattened (B, L), as many as `out` (N, K, H) has room for."""
    arrays = (x.detach().contiguous().numpy() for x in (projected, width))
    over_sentences(_fill, len(out), torch.get_num_threads(), out.numel(), first_row, *arrays, out.numpy())


@vectorised
def _fill(low, high, first_row, projected, width, out):
    """O(N·K·H): the sum of the content grows by one token with each width."""
    num_tokens, parts = projected.shape[1], projected.shape[2] // width.shape[1]
    for row in range(low, high):
        b, start = divmod(first_row + row, num_tokens)
        widest = min(width.shape[0], num_tokens - start)
        if parts == 3:
            _fill_means(projected, b, start, widest, row, out)
        else:
            out[row] = 0
        _fill_rest(projected, width, b, start, widest, row, out)
        out[row, widest:] = 0


@vectorised
def _fill_means(projected, b, start, widest, row, out):
    size = out.shape[2]
    for h in range(size):
        out[row, 0, h] = projected[b, start, 2 * size + h]
    for w in range(1, widest):
        for h in range(size):
            out[row, w, h] = out[row, w - 1, h] + projected[b, start + w, 2 * size + h]
    for w in range(1, widest):
        scale = out.dtype.type(1 / (w + 1))
        for h in range(size):
            out[row, w, h] *= scale


@vectorised
def _fill_rest(projected, width, b, start, widest, row, out):
    size = out.shape[2]
    for w in range(widest):
        for h in range(size):
            score = out[row, w, h] + projected[b, start, h] + projected[b, start + w, size + h] + width[w, h]
            out[row, w, h] = 0 if score < 0 else score  # NaN stays, to be seen


@vectorised
def _spread_gradient(low, high, gradient, hidden, to_projected, to_width, content):
    """From the widest span down, so that what reaches a token's content is a sum that grows by one span."""
    num_tokens, max_width, size = hidden.shape[1:]
    has_content = to_projected.shape[2] == 3 * size
    for b in range(low, high):
        for start in range(num_tokens):
            content[b] = 0
            for w in range(min(max_width, num_tokens - start) - 1, -1, -1):
                scale = content.dtype.type(1 / (w + 1))
                for h in range(size):
                    value = gradient[b, start, w, h] if hidden[b, start, w, h] > 0 else 0
                    to_projected[b, start, h] += value
                    to_projected[b, start + w, size + h] += value
                    to_width[b, w, h] += value
                    content[b, h] += value * scale
                if has_content:
                    for h in range(size):
                        to_projected[b, start + w, 2 * size + h] += content[b, h]
