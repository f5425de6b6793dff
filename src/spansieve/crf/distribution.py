"""The interface of distributions over structures: partition function, marginals, entropy, Viterbi, k-best, samples.

A new distribution defines how its structures are summed (`_total`: one recursion, for any semiring), how one is taken
apart (`_parts`) and how it is put together (`_structures`). Everything else follows. A compiled kernel may compute
`_sums` (forward-backward) and `_best` (Viterbi) faster; it must give the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import Sums, can, reference
from spansieve.crf.kernels.semirings import KBest, LogSum, Max, Sample, Semiring

MAX_BATCHED = 1 << 24  # numbers in the gradients that are computed at once


class Distribution(ABC):
    """P(structure) = exp(score(structure) - log_partition), for each of B sentences by itself.

    Numbers are tensors with a leading B, never reduced; structures are Python values, one per sentence. Gradients reach
    the scores and the transition, which half precision enters as float32.
    """

    lengths: Tensor  # (B,)

    def __init__(
        self, scores: Tensor | None, transition: Tensor, num_sentences: int, kernel: ModuleType = reference
    ) -> None:
        """`scores` is None where a subclass makes them on demand, as a property."""
        if scores is not None:
            self.scores = scores
        self.transition = transition
        self.num_sentences = num_sentences
        self._kernel = kernel

    # ---- What a distribution must define

    @abstractmethod
    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        """⊕ over all structures, (W, B), from scores (W, …) and transition (W, B, Y, Y)."""

    @abstractmethod
    def _parts(self, structures: Sequence[Any]) -> Parts:
        """Take structures apart. Raises ValueError, naming the part, where one is outside the support."""

    @abstractmethod
    def _structures(self, is_part: Tensor) -> list[Any]:
        """Put structures together from a mask like the scores, one per sentence."""

    @property
    def _part_scores(self) -> Tensor:
        """The scores that `Parts` index and that gradients go to: `scores`, or what those were gathered from."""
        return self.scores

    def _gathered(self, part_scores: Tensor) -> Tensor:
        """Gather `scores` from `_part_scores`."""
        return part_scores

    @property
    def _part_sentence(self) -> Tensor | None:
        """The sentence of each score, where those are flat; None where their first axis is the sentence."""
        return None

    def _spread(self, values: Tensor) -> Tensor:
        """One number per sentence, (B,), shaped to multiply the scores."""
        if self._part_sentence is not None:
            return values.index_select(0, self._part_sentence)
        return values.view(-1, *(1,) * (self.scores.ndim - 1))

    def _part_sums(self, values: Tensor) -> Tensor:
        """Numbers shaped like the scores, added up by sentence: (B,)."""
        if self._part_sentence is None:
            return values.flatten(1).sum(1)
        return values.new_zeros(self.num_sentences).index_add(0, self._part_sentence, values)

    # ---- What a kernel may compute faster

    def _sums_to_save(self, scores: Tensor, transition: Tensor) -> Sums:
        """Compute the sums that a backward pass takes, as `_input_gradients` takes them."""
        return self._sums(scores, transition, True)

    def _input_gradients(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of `_part_scores` and of the transition, from that of log Z, (B,)."""
        if can(self._kernel, "weighted_expectations") and not torch.is_grad_enabled():
            return self._kernel.weighted_expectations(gradient, marginals, counts, self._part_sentence)
        return self._spread(gradient) * marginals, (gradient @ counts.flatten(1)).view(self.transition.shape)

    def _compiled(self, verb: str, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        """Call the kernel's recursion for this distribution: its "sums", forward-backward, or its "best", Viterbi."""
        raise NotImplementedError

    def _found(self, is_part: Tensor) -> list[Any]:
        """Put structures together from what the kernel's "best" returns beside the score."""
        return self._structures(is_part)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        if self._kernel is not reference:
            return self._compiled("sums", scores, transition, with_marginals)
        if not with_marginals:
            with torch.no_grad():
                return Sums(self._total(LogSum(), *self._leaves(LogSum(), scores, transition))[0], None, None)
        total, marginals, counts = self._swept(LogSum(), scores, transition)
        return Sums(total[0], marginals[0], counts[0])

    def _best(self) -> tuple[Tensor, list[Any]]:
        """The highest score, (B,), and the structures that have it."""
        if self._kernel is not reference:
            max_score, *found = self._compiled("best", self.scores.detach(), self.transition.detach())
            return max_score, self._found(*found)
        total, is_part, _ = self._swept(Max(), self.scores, self.transition)
        return total[0], self._structures(is_part[0] > 0)

    @torch.enable_grad()
    def _swept(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """⊕ over all structures, (W, B), with its gradients: of the scores, (W, …), and of the transition of each
        sentence, (W, B, Y, Y)."""
        leaves = self._leaves(semiring, scores, transition)
        total = self._total(semiring, *leaves)
        marginals, counts = _gradients(total.sum(), leaves)
        return total.detach(), marginals, counts

    def _leaves(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> tuple[Tensor, Tensor]:
        """Copies for a recursion, one per way, and of the transition one per sentence, to take gradients by."""
        scores = scores.detach().expand(semiring.ways, *scores.shape).clone()
        transition = transition.detach().expand(semiring.ways, self.num_sentences, *transition.shape).clone()
        return scores.requires_grad_(), transition.requires_grad_()

    # ---- The public interface

    @property
    def log_partition(self) -> Tensor:
        """The log partition function, log Z of each sentence, (B,)."""
        return self._tracked_log_partition if self._is_tracked else self._plain_log_partition

    @property
    def marginals(self) -> Tensor:
        """The marginals, shaped like the scores: P(this part is in the structure). Differentiable."""
        return self._expectations[0]

    @property
    def transition_counts(self) -> Tensor:
        """The expected number of times that label y' is followed by y, (B, Y, Y). Differentiable."""
        return self._expectations[1]

    def entropy(self) -> Tensor:
        """The entropy in nats, (B,): log Z less the expected score. Differentiable. 0 where nothing is possible."""
        marginals, counts = self._expectations
        expected = self._part_sums(_product(marginals, self.scores))
        expected = expected + _product(counts, self.transition).flatten(1).sum(1)
        is_possible = self.log_partition > -torch.inf
        return torch.where(is_possible, self.log_partition, torch.zeros_like(expected)) - expected

    def score(self, structures: Sequence[Any] | Gold) -> Tensor:
        """The unnormalised log-probability of one structure per sentence, (B,); structures as such, or as `Gold`."""
        return self._score_of(self._checked_parts(structures), self._part_scores, self.transition)

    def log_prob(self, structures: Sequence[Any] | Gold) -> Tensor:
        """log P(structure) of one structure per sentence, (B,): at most 0, but for rounding.

        Raises for one outside the support; on a GPU, where that would synchronise the host, an impossible one has -inf.
        """
        parts = self._checked_parts(structures)
        if self._is_tracked and "_tracked_log_partition" not in self.__dict__:
            return _LogProb.apply(self._copy_for_graph(), parts, self._part_scores, self.transition)
        return self._score_of(parts, self._part_scores, self.transition) - self.log_partition

    @property
    def max_score(self) -> Tensor:
        """The score of the mode, (B,); no gradient: `score(mode)` has one."""
        return self._best_structures[0]

    @property
    def mode(self) -> list[Any]:
        """The most probable structure of each sentence. Of equals, that which comes first in the order of `_total`."""
        max_score, structures = self._best_structures
        check_possible(max_score.tolist())
        return structures

    def top_k(self, k: int) -> list[list[tuple[Any, float]]]:
        """The k-best structures of each sentence with their scores, best first; fewer where there are fewer."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        with torch.enable_grad():
            scores, transition = self._leaves(KBest(k), self.scores, self.transition)
            total = self._total(KBest(k), scores, transition)
            by_rank = []
            # Several at a time: the recursion is walked back once for all of them.
            at_once = max(1, min(k, MAX_BATCHED // max(scores.numel(), 1)))
            for rows in torch.eye(k, dtype=total.dtype, device=total.device).split(at_once):
                weights = rows[:, :, None].expand(-1, -1, self.num_sentences)
                (is_part,) = _gradients(
                    total, (scores,), len(rows), grad_outputs=weights, is_grads_batched=True, retain_graph=True
                )
                by_rank += [self._structures(one.sum(0) > 0) for one in is_part]
        values = total.detach().T.tolist()
        return [
            [(by_rank[rank][b], value) for rank, value in enumerate(values[b]) if value > -torch.inf]
            for b in range(self.num_sentences)
        ]

    def sample(self, n: int, generator: torch.Generator | None = None) -> list[list[Any]]:
        """Draw n independent structures of each sentence, with their probabilities."""
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        _, is_part, _ = self._swept(Sample(n, generator), self.scores, self.transition)
        draws = [self._structures(is_part[way] > 0) for way in range(n)]
        return [list(drawn) for drawn in zip(*draws)]

    # ---- How

    @property
    def _is_tracked(self) -> bool:
        return torch.is_grad_enabled() and (self._part_scores.requires_grad or self.transition.requires_grad)

    # What is in the graph and what is not are kept apart: computed first without gradients, log Z must not come back
    # without them when the loss is made of it.

    @cached_property
    def _tracked_log_partition(self) -> Tensor:
        return _LogPartition.apply(self._copy_for_graph(), self._part_scores, self.transition)

    @cached_property
    def _plain_log_partition(self) -> Tensor:
        return self._sums(self.scores, self.transition, False).log_partition.to(self.scores.dtype)

    @property
    def _expectations(self) -> tuple[Tensor, Tensor]:
        """Marginals and transition counts."""
        return self._tracked_expectations if self._is_tracked else self._plain_expectations

    @cached_property
    def _tracked_expectations(self) -> tuple[Tensor, Tensor]:
        return Expectations.apply(self._copy_for_graph(), self.scores, self.transition)

    @cached_property
    def _plain_expectations(self) -> tuple[Tensor, Tensor]:
        sums = self._sums(self.scores, self.transition, True)
        return sums.marginals, sums.transition_counts

    def _copy_for_graph(self) -> Distribution:
        """Copy what the graph is to hold: it would otherwise hold the distribution that caches the graph."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    @cached_property
    def _best_structures(self) -> tuple[Tensor, list[Any]]:
        return self._best()

    def _checked_parts(self, structures: Sequence[Any] | Gold) -> Parts:
        if len(structures) != self.num_sentences:
            raise ValueError(f"structures must be one per sentence, {self.num_sentences}, got {len(structures)}")
        parts = self._parts_of_gold(structures) if isinstance(structures, Gold) else self._parts(structures)
        if self._part_scores.is_cpu:
            for index, sentence, scores, name in (
                (parts.part, parts.sentence, self._part_scores, "part"),
                (parts.pair, parts.pair_sentence, self.transition, "transition"),
            ):
                is_impossible = scores.detach().flatten().index_select(0, index) == -torch.inf
                if is_impossible.any():
                    b = int(sentence[is_impossible][0])
                    raise ValueError(f"structure {b} is outside the support: a {name} of it has a score of -inf")
        return parts

    def _parts_of_gold(self, gold: Gold) -> Parts:
        if gold.shape != tuple(self.scores.shape):
            raise ValueError(f"gold must be made for scores of shape {tuple(self.scores.shape)}, got {gold.shape}")
        return gold.parts

    def _score_of(self, parts: Parts, scores: Tensor, transition: Tensor) -> Tensor:
        total = scores.new_zeros(self.num_sentences)
        total = total.index_add(0, parts.sentence, scores.flatten().index_select(0, parts.part))
        return total.index_add(0, parts.pair_sentence, transition.flatten().index_select(0, parts.pair))


def check_possible(max_score: list[float]) -> None:
    if -math.inf in max_score:
        b = max_score.index(-math.inf)
        raise ValueError(f"sentence {b} has no possible structure: all have a score of -inf")


class _LogPartition(torch.autograd.Function):
    """log Z; its gradient is the marginals, which come out of the same sweep."""

    @staticmethod
    def forward(ctx, distribution, scores, transition):
        sums = distribution._sums_to_save(scores, transition)
        ctx.distribution = distribution
        ctx.save_for_backward(scores, transition, sums.marginals, sums.transition_counts)
        return sums.log_partition.to(scores.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return None, *ctx.distribution._input_gradients(gradient, *_differentiable(ctx))


class _LogProb(torch.autograd.Function):
    """score - log Z in one, for training: the gradient is what the structure has less what was expected."""

    @staticmethod
    def forward(ctx, distribution, parts, scores, transition):
        sums = distribution._sums_to_save(scores, transition)
        ctx.distribution, ctx.parts = distribution, parts
        ctx.save_for_backward(scores, transition, sums.marginals, sums.transition_counts)
        ctx.is_surplus = scores.ndim > 1 and can(distribution._kernel, "log_prob")
        if ctx.is_surplus:
            return distribution._kernel.log_prob(parts, scores, transition, sums)
        return distribution._score_of(parts, scores, transition) - sums.log_partition

    @staticmethod
    def backward(ctx, gradient):
        distribution, parts = ctx.distribution, ctx.parts
        marginals, counts = _differentiable(ctx)
        if ctx.is_surplus and not torch.is_grad_enabled():  # the kernel has taken what the structure has off already
            return None, None, *distribution._kernel.weighted_expectations(gradient, marginals, counts, None, -1.0)
        to_scores, to_transition = distribution._input_gradients(-gradient, marginals, counts)
        to_scores = to_scores.contiguous()
        to_scores.view(-1).index_add_(0, parts.part, gradient.index_select(0, parts.sentence))
        to_transition.view(-1).index_add_(0, parts.pair, gradient.index_select(0, parts.pair_sentence))
        return None, None, to_scores, to_transition


def _differentiable(ctx) -> tuple[Tensor, Tensor]:
    """Marginals and counts as they were saved or, for the gradient of the gradient, in the graph."""
    scores, transition, marginals, counts = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return marginals, counts
    return Expectations.apply(ctx.distribution, ctx.distribution._gathered(scores), transition)


class Expectations(torch.autograd.Function):
    """Marginals and transition counts; their gradient goes by the reference recursion."""

    @staticmethod
    def forward(ctx, distribution, scores, transition):
        ctx.distribution = distribution
        ctx.save_for_backward(scores, transition)
        sums = distribution._sums(scores, transition, True)
        return sums.marginals, sums.transition_counts

    @staticmethod
    def backward(ctx, to_marginals, to_counts):
        scores, transition = ctx.saved_tensors
        return None, *_second_order(ctx.distribution, scores, transition, to_marginals, to_counts)


@torch.enable_grad()
def _second_order(distribution, scores, transition, to_marginals, to_counts):
    """The product of the Hessian of log Z with a vector."""
    leaves = distribution._leaves(LogSum(), scores, transition)
    total = distribution._total(LogSum(), *leaves).sum()
    first = _gradients(total, leaves, create_graph=True)
    dot = (first[0][0] * to_marginals).sum() + (first[1][0] * to_counts).sum()
    to_scores, to_transition = _gradients(dot, leaves)
    return to_scores[0], to_transition[0].sum(0)


def _gradients(value: Tensor, leaves: Sequence[Tensor], *batched: int, **options) -> tuple[Tensor, ...]:
    """torch.autograd.grad, with zeros for what the value does not depend on; `batched` many at once, if it is given."""
    zeros = tuple(leaf.new_zeros(*batched, *leaf.shape) for leaf in leaves)
    if not value.requires_grad:
        return zeros
    gradients = torch.autograd.grad(value, leaves, allow_unused=True, **options)
    return tuple(zero if g is None else g for g, zero in zip(gradients, zeros))


def _product(probability: Tensor, score: Tensor) -> Tensor:
    """probability · score, and 0 for what is impossible."""
    is_possible = score > -torch.inf
    return probability * torch.where(is_possible, score, torch.zeros_like(score))
