"""The hidden layer over all spans on a GPU: one launch each way, where a dozen tensor operations would do.

The definition in tensor operations is `EndpointScorer.by_tensors`. `projected` is (B, L, P·H) and `width` (K, H), as in
`nn/span_hidden_layer.py`. Added up in single precision at least; the result has the type of `projected`.

Axes: B sentences, L tokens, K widths, H features of a span, P parts of a token's projection.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from spansieve.crf.kernels.cuda.launch import launch

_FEATURES = 128  # that a program takes at once
_ROWS = 32  # tokens that a program of the gradient to the widths takes at once


def fill_hidden(projected: Tensor, width: Tensor, out: Tensor, first_row: int) -> None:
    """Fill in the spans that start at tokens `first_row …` of the flattened (B, L), as many as fit `out`, (N, K, H)."""
    max_width, size = width.shape
    if not out.numel():
        return
    with torch.cuda.device_of(out):
        launch(
            _fill, (len(out), -(-size // _FEATURES)),
            projected.detach().contiguous(), width.detach().contiguous(), out, projected.shape[1], first_row,
            K=max_width, H=size, HAS_CONTENT=projected.shape[2] == 3 * size, FEATURES=_FEATURES,
        )  # fmt: skip


def spread_gradient(gradient: Tensor, hidden: Tensor, to_projected: Tensor, to_width: Tensor) -> None:
    """The gradients of `projected` and `width`, from that of the hidden layer."""
    num_sentences, num_tokens, max_width, size = hidden.shape
    num_rows = num_sentences * num_tokens
    with torch.cuda.device_of(hidden):
        launch(
            _spread_gradient, (num_rows + max_width, -(-size // _FEATURES)),
            gradient, hidden, to_projected, to_width, num_tokens, num_rows,
            K=max_width, H=size, HAS_CONTENT=to_projected.shape[2] == 3 * size, FEATURES=_FEATURES, ROWS=_ROWS,
        )  # fmt: skip


@triton.jit(do_not_specialize=["L", "first_row"])
def _fill(
    projected, width, out, L, first_row,
    K: tl.constexpr, H: tl.constexpr, HAS_CONTENT: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """The spans that start at one token, from the narrowest on: the sum of the content grows by one token."""
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    SUMMED: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    STEP: tl.constexpr = 3 * H if HAS_CONTENT else 2 * H  # from token to token
    projected += (first_row + row) * STEP + feature
    width += feature
    out += row * K * H + feature
    start = (first_row + row) % L
    first = tl.load(projected, mask=feature < H, other=0.0).to(SUMMED)
    content = tl.zeros([FEATURES], SUMMED)
    for w in range(K):
        # The interpreter cannot join a scalar comparison to a mask with &.
        is_inside = feature < tl.where(start + w < L, H, 0)
        last = tl.load(projected + w * STEP + H, mask=is_inside, other=0.0).to(SUMMED)
        total = first + last + tl.load(width + w * H, mask=is_inside, other=0.0).to(SUMMED)
        if HAS_CONTENT:
            content += tl.load(projected + w * STEP + 2 * H, mask=is_inside, other=0.0).to(SUMMED)
            total += content / (w + 1)
        total = tl.where(is_inside, total, 0.0)
        total = tl.where(total < 0, 0.0, total)  # NaN stays, to be seen
        tl.store(out + w * H, total.to(out.dtype.element_ty), mask=feature < H)


@triton.jit
def _through(gradient, hidden, offset, mask, SUMMED: tl.constexpr):
    """What of the gradient passes the relu."""
    value = tl.load(gradient + offset, mask=mask, other=0.0).to(SUMMED)
    return tl.where(tl.load(hidden + offset, mask=mask, other=0.0) > 0, value, 0.0)


@triton.jit(do_not_specialize=["L", "num_rows"])
def _spread_gradient(
    gradient, hidden, to_projected, to_width, L, num_rows,
    K: tl.constexpr, H: tl.constexpr, HAS_CONTENT: tl.constexpr, FEATURES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A program for each token, which gathers from the spans that it begins, ends or is in, and one for each width."""
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    SUMMED: tl.constexpr = tl.float64 if hidden.dtype.element_ty == tl.float64 else tl.float32
    if row < num_rows:
        STEP: tl.constexpr = 3 * H if HAS_CONTENT else 2 * H
        token = row % L
        first = tl.zeros([FEATURES], SUMMED)
        last = tl.zeros([FEATURES], SUMMED)
        for w in range(K):
            begins = feature < tl.where(token + w < L, H, 0)
            first += _through(gradient, hidden, (row * K + w) * H + feature, begins, SUMMED)
            ends = feature < tl.where(token >= w, H, 0)
            last += _through(gradient, hidden, ((row - w) * K + w) * H + feature, ends, SUMMED)
        parts = to_projected + row * STEP + feature
        tl.store(parts, first.to(to_projected.dtype.element_ty), mask=feature < H)
        tl.store(parts + H, last.to(to_projected.dtype.element_ty), mask=feature < H)
        if HAS_CONTENT:
            content = tl.zeros([FEATURES], SUMMED)
            for before in range(K):  # tokens of the span before this one
                for w in range(before, K):
                    start = token - before
                    is_in = feature < tl.where((start >= 0) & (start + w < L), H, 0)
                    offset = ((row - before) * K + w) * H + feature
                    content += _through(gradient, hidden, offset, is_in, SUMMED) / (w + 1)
            tl.store(parts + 2 * H, content.to(to_projected.dtype.element_ty), mask=feature < H)
    else:
        width = row - num_rows  # less one
        total = tl.zeros([FEATURES], SUMMED)
        for first_row in range(0, num_rows, ROWS):
            rows = first_row + tl.arange(0, ROWS)
            is_inside = (rows < num_rows) & (rows % L + width < L)
            offset = (rows[:, None] * K + width) * H + feature[None, :]
            mask = is_inside[:, None] & (feature < H)[None, :]
            total += tl.sum(_through(gradient, hidden, offset, mask, SUMMED), 0)
        tl.store(to_width + width * H + feature, total.to(to_width.dtype.element_ty), mask=feature < H)
