"""What ⊕ means: the one thing that a recursion leaves open.

A recursion adds scores along a path with `+` and merges paths with `semiring.plus`; where it joins two parts that were
merged apart, as in a tree, it uses `semiring.times`. From the same recursion follow log Z (`LogSum`), the best path
(`Max`), the k-best (`KBest`) and samples (`Sample`); the gradient of the result with respect to the scores is, in that
order, the marginals, the best path as 0 and 1, each of the k-best, and each sample.

Every value has a leading axis of W *ways*: 1 for LogSum and Max, k for KBest (the k best so far, best first), n for
Sample (n independent draws).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Semiring(ABC):
    ways = 1

    def one(self, like: Tensor) -> Tensor:
        """The value of the empty path, (W,)."""
        return like.new_zeros(self.ways)

    @abstractmethod
    def plus(self, values: Tensor, dim: int) -> Tensor:
        """Merge by ⊕ along one axis, counted from the end: (W, …, C, …) to (W, …, …). The first of equals wins."""

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        """Join two merged values by ⊗: every way of the one with every way of the other, (W, …) each."""
        return left + right


class LogSum(Semiring):
    def plus(self, values: Tensor, dim: int) -> Tensor:
        """log Σ exp, with 0 for the gradient of what is impossible, where torch.logsumexp gives NaN."""
        top = values.detach().amax(dim, keepdim=True)
        top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
        total = (values - top).exp().sum(dim)
        is_possible = total > 0
        log_total = torch.where(is_possible, total, torch.ones_like(total)).log() + top.squeeze(dim)
        return torch.where(is_possible, log_total, torch.full_like(total, -torch.inf))


class Max(Semiring):
    def plus(self, values: Tensor, dim: int) -> Tensor:
        return values.max(dim).values


class KBest(Semiring):
    def __init__(self, k: int) -> None:
        self.ways = k

    def one(self, like: Tensor) -> Tensor:
        one = like.new_full((self.ways,), -torch.inf)
        one[0] = 0.0
        return one

    def plus(self, values: Tensor, dim: int) -> Tensor:
        by_choice = values.movedim((dim, 0), (-2, -1)).flatten(-2)  # (…, C·W): a choice's ways side by side
        best = by_choice.sort(dim=-1, descending=True, stable=True).values[..., : self.ways]
        return best.movedim(-1, 0)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        pairs = (left[:, None] + right).flatten(0, 1)  # (W·W, …)
        return pairs.sort(dim=0, descending=True, stable=True).values[: self.ways]


class Sample(Semiring):
    """Independent draws, which `times` joins draw by draw."""

    def __init__(self, n: int, generator: torch.Generator | None = None) -> None:
        self.ways = n
        self.generator = generator

    def plus(self, values: Tensor, dim: int) -> Tensor:
        return _SampledSum.apply(values, dim, self.generator)


class _SampledSum(torch.autograd.Function):
    """log Σ exp forwards; backwards the gradient goes to one drawn term: P(term) = exp(value - log Σ exp)."""

    @staticmethod
    def forward(ctx, values, dim, generator):
        ctx.save_for_backward(values)
        ctx.dim, ctx.generator = dim, generator
        return LogSum().plus(values, dim)

    @staticmethod
    def backward(ctx, gradient):
        (values,) = ctx.saved_tensors
        # The argmax of log-weights plus Gumbel noise is a draw in proportion to the weights.
        noise = -torch.empty_like(values).exponential_(generator=ctx.generator).log()
        drawn = (values + noise).argmax(ctx.dim, keepdim=True)
        return torch.zeros_like(values).scatter(ctx.dim, drawn, gradient.unsqueeze(ctx.dim)), None, None
