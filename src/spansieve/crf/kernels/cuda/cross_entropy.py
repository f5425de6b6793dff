"""The filtering loss on a GPU: one launch for the loss and its gradient together.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from spansieve.crf.kernels.cuda.launch import launch

_ROWS = 32  # spans that a program takes at once
_PROGRAMS = 16  # for each sentence


class SpanCrossEntropy(torch.autograd.Function):
    """Cross-entropy of every span against its label, null spans weighted by β, summed over a sentence: (B,).

    `scores` (B, L, K, Y), `labels` (B, L, K), below 0 where there is no span.
    """

    @staticmethod
    def forward(ctx, scores: Tensor, labels: Tensor, beta: float) -> Tensor:
        scores = scores.contiguous()
        num_sentences, num_labels = len(scores), scores.shape[-1]
        each = labels[0].numel() if num_sentences else 0
        gradient, losses = torch.empty_like(scores), scores.new_empty(num_sentences, _PROGRAMS)
        if num_sentences:
            with torch.cuda.device_of(scores):
                launch(
                    _cross_entropy, (num_sentences, _PROGRAMS),
                    scores, labels.contiguous(), losses, gradient, each, beta,
                    Y=num_labels, COLUMNS=1 << (num_labels - 1).bit_length(), ROWS=_ROWS, PROGRAMS=_PROGRAMS,
                )  # fmt: skip
        ctx.save_for_backward(gradient)
        return losses.sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, weight: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * weight.view(-1, 1, 1, 1), None, None


@triton.jit(do_not_specialize=["each", "beta"])
def _cross_entropy(
    scores, labels, losses, gradient, each, beta,
    Y: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    sentence, program = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, COLUMNS)[None, :]
    scores += sentence * each * Y
    gradient += sentence * each * Y
    loss = tl.zeros([ROWS], scores.dtype.element_ty)
    for first in range(program * ROWS, each, PROGRAMS * ROWS):
        row = first + tl.arange(0, ROWS)
        label = tl.load(labels + sentence * each + row, mask=row < each, other=-1)
        is_stored = (row < each)[:, None] & (column < Y)
        offset = row[:, None] * Y + column
        score = tl.load(scores + offset, mask=is_stored, other=float("-inf"))
        score = tl.where((row < each)[:, None], score, 0.0)  # no row is without a number
        peak = tl.max(score, 1)
        exponential = tl.exp(score - peak[:, None])
        total = tl.sum(exponential, 1)
        is_gold = column == label[:, None]
        weight = tl.where(label > 0, 1.0, tl.where(label == 0, beta, 0.0))
        at_gold = tl.sum(tl.where(is_gold, score, 0.0), 1)
        loss += tl.where(label < 0, 0.0, weight * (peak + tl.log(total) - at_gold))
        surplus = weight[:, None] * (exponential / total[:, None] - tl.where(is_gold, 1.0, 0.0))
        tl.store(gradient + offset, surplus.to(gradient.dtype.element_ty), mask=is_stored)
    tl.store(losses + sentence * PROGRAMS + program, tl.sum(loss, 0))
