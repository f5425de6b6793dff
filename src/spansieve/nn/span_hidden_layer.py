"""The hidden layer over all spans: one compiled pass each way instead of a dozen over (B, L, K, H) numbers.

The definition in tensor operations is `EndpointScorer.by_tensors`. Here is the pass for the CPU; `nn/cuda` has that for
a GPU.

Axes: B sentences, L tokens, K widths, H features of a span, P parts of a token's projection.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spansieve.crf.kernels import has_triton
from spansieve.crf.kernels.cpu.jit import over_sentences, vectorised


def compiled_for(projected: Tensor, width: Tensor) -> ModuleType | None:
    """The module with the compiled pass for these tensors, where there is one; what is traced must be in tensor
    operations."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return None
    if projected.is_cpu:
        is_known = projected.dtype in (torch.float32, torch.float64) and width.dtype is projected.dtype
        return sys.modules[__name__] if is_known else None
    if projected.is_cuda and has_triton():
        return import_module("spansieve.nn.cuda.span_hidden_kernels")
    return None


class SpanHiddenLayer(torch.autograd.Function):
    """relu(first + last + width + mean of the content), (B, L, K, H), 0 for spans that end beyond L.

    `projected` holds, token by token, what it adds as a span's first, as its last and, with P = 3, as its content:
    (B, L, P·H). `width` is (K, H). `compiled` is the module with the pass for where they are.
    """

    @staticmethod
    def forward(ctx, projected: Tensor, width: Tensor, compiled: ModuleType) -> Tensor:
        num_sentences, num_tokens, size = projected.shape
        hidden = projected.new_empty(num_sentences, num_tokens, *width.shape)
        compiled.fill_hidden(projected, width, hidden.flatten(0, 1), 0)
        ctx.save_for_backward(hidden)
        ctx.size, ctx.width_type, ctx.compiled = size, width.dtype, compiled
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (hidden,) = ctx.saved_tensors
        num_sentences, num_tokens, max_width, size = hidden.shape
        to_projected = hidden.new_empty(num_sentences, num_tokens, ctx.size)
        to_width = hidden.new_empty(max_width, size, dtype=ctx.width_type)
        ctx.compiled.spread_gradient(gradient.contiguous(), hidden, to_projected, to_width)
        return to_projected, to_width, None


def fill_hidden(projected: Tensor, width: Tensor, out: Tensor, first_row: int) -> None:
    """Fill in the spans that start at tokens `first_row …` of the flattened (B, L), as many as fit `out`, (N, K, H)."""
    arrays = (x.detach().contiguous().numpy() for x in (projected, width))
    over_sentences(_fill, len(out), torch.get_num_threads(), out.numel(), first_row, *arrays, out.numpy())


def spread_gradient(gradient: Tensor, hidden: Tensor, to_projected: Tensor, to_width: Tensor) -> None:
    """The gradients of `projected` and `width`, from that of the hidden layer."""
    num_sentences, _, max_width, size = hidden.shape
    to_width_each = hidden.new_zeros(num_sentences, max_width, size)  # by sentence, since threads must not share it
    buffers = hidden.new_empty(num_sentences, 2, size)
    arrays = (x.numpy() for x in (gradient, hidden, to_projected.zero_(), to_width_each, buffers))
    over_sentences(_spread_gradient, num_sentences, torch.get_num_threads(), hidden.numel(), *arrays)
    torch.sum(to_width_each, 0, out=to_width)


@vectorised
def _fill(low, high, first_row, projected, width, out):
    """O(N·K·H): the sum of the content grows by one token with each width."""
    num_tokens, (max_width, size) = projected.shape[1], width.shape
    has_content = projected.shape[2] == 3 * size
    for row in range(low, high):
        b, start = divmod(first_row + row, num_tokens)
        widest = min(max_width, num_tokens - start)
        out[row] = 0
        for w in range(widest if has_content else 0):
            if w:
                _add(out[row, w], out[row, w - 1], 1)
            _add(out[row, w], projected[b, start + w, 2 * size :], 1)
        for w in range(widest):
            last = projected[b, start + w, size : 2 * size]
            _sum_above_zero(projected[b, start, :size], last, width[w], 1 / (w + 1), out[row, w])


@vectorised
def _sum_above_zero(first, last, width, weight, out):
    scale = out.dtype.type(weight)
    for h in range(out.size):
        score = first[h] + last[h] + width[h] + out[h] * scale
        out[h] = 0 if score < 0 else score  # NaN stays, to be seen


@vectorised
def _spread_gradient(low, high, gradient, hidden, to_projected, to_width, buffers):
    """Go from the widest span down, so that the gradient of a token's content is a sum that grows by one span."""
    num_tokens, max_width, size = hidden.shape[1:]
    has_content = to_projected.shape[2] == 3 * size
    for b in range(low, high):
        through, content = buffers[b, 0], buffers[b, 1]
        for start in range(num_tokens):
            content[:] = 0
            for w in range(min(max_width, num_tokens - start) - 1, -1, -1):
                _mask(gradient[b, start, w], hidden[b, start, w], through)
                _add(to_projected[b, start, :size], through, 1)
                _add(to_projected[b, start + w, size : 2 * size], through, 1)
                _add(to_width[b, w], through, 1)
                if has_content:
                    _add(content, through, 1 / (w + 1))
                    _add(to_projected[b, start + w, 2 * size :], content, 1)


# Loops of one purpose each: with more arrays in one, the compiler cannot prove that they do not overlap.


@vectorised
def _mask(gradient, hidden, out):
    for h in range(out.size):
        out[h] = gradient[h] if hidden[h] > 0 else 0


@vectorised
def _add(out, values, weight):
    scale = out.dtype.type(weight)
    for h in range(out.size):
        out[h] += values[h] * scale
