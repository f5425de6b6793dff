"""The filtered semi-Markov CRF from dense scores on the CPU: all that can be done in the filter's pass is.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates, in_place
from spansieve.crf.distribution import Expectations, check_possible
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import segments_by_place
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import Sums
from spansieve.segments import Segment

if TYPE_CHECKING:
    from spansieve.crf.filtered_from_scores import DenseInputs
    from spansieve.crf.kernels.cpu.filter import Kept


class Found(NamedTuple):
    kept: Kept
    sums: Sums | None  # arrays: a tensor would join the graph that holds the distribution
    has_best: bool


def filtered_at_once(inputs: DenseInputs, kernel: ModuleType) -> Found | None:
    """Filter, and in the same call compute what will be needed: in training the sums, otherwise the best path. None
    where a sweep over every span is cheaper."""
    gold, skip, limits = inputs.gold_segments, inputs.skip, inputs.limits
    if inputs.is_tracked:
        found = kernel.sums_from_scores(*inputs[:4], gold, skip, limits, unless_dense=True)
        return None if found is None else Found(found[0], found[1], False)
    kept = kernel.segments_from_scores(*inputs[:4], gold, skip, gold is None, limits, unless_dense=True)
    return None if kept is None else Found(kept, None, gold is None)


class FilteredFused(FilteredSemiMarkov):
    """The filtered distribution, with scores gathered from dense ones. `marginals` are dense again, (B, L, K, Y).

    Tensors are made of what the filter found only on demand: at 3 µs a sentence each of them counts.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType, found: Found) -> None:
        self._take(inputs, kernel)
        self._kept, self._sums_found, self._has_best = found

    def _take(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        # Instead of super().__init__: its `scores` are made on demand.
        global_scores, self.transition, self.lengths = inputs[1:4]
        self.skip, self.num_sentences, self._kernel = inputs.skip, len(global_scores), kernel
        self._shape = global_scores.shape
        is_cut_off = global_scores.requires_grad and not inputs.is_tracked
        self._dense = global_scores.detach() if is_cut_off else global_scores
        self._gold, self._given_gold = inputs.gold, inputs.given_gold

    @property
    def dense_scores(self) -> Tensor:  # type: ignore[override]
        return self._dense

    @cached_property
    def scores(self) -> Tensor:  # type: ignore[override]
        """The global scores of the candidates, (N,)."""
        if not self._dense.requires_grad:
            return torch.from_numpy(self._kept.score)
        with torch.enable_grad():
            return self._looked_up(self._dense)

    def _looked_up(self, dense: Tensor) -> Tensor:
        return dense.flatten().index_select(0, self._index)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        _, num_tokens, max_width, _ = self._shape
        offsets, start, end, label = (torch.from_numpy(column) for column in self._kept.graph)
        return Candidates(offsets, start, end, label, self.lengths, num_tokens, max_width)

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self._kept.index)

    @cached_property
    def _part_sentence(self) -> Tensor | None:
        return torch.from_numpy(self._kept.sentence)

    @property
    def marginals(self) -> Tensor:
        return self._in_place(super().marginals)

    def _in_place(self, flat: Tensor) -> Tensor:
        return in_place(flat, self._index, self._shape)

    @property
    def _is_tracked(self) -> bool:
        return torch.is_grad_enabled() and (self._dense.requires_grad or self.transition.requires_grad)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        # The scores can only be this distribution's own, which the filter looked up. What is handed out may be written
        # to, hence the copies.
        if self._sums_found is not None:
            return Sums._make(torch.from_numpy(array.copy()) for array in self._sums_found)
        return self._kernel.kept_sums(self._kept, transition, self.lengths, self.skip, with_marginals)

    def _sums_to_weight(self) -> Sums:
        """The sums as `_weighted` takes them."""
        return self._sums(self._dense, self.transition, True)

    def _weighted(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the dense scores and of the transition, from that of log Z."""
        return self._kernel.dense_expectations(gradient, marginals, counts, self._kept, self._shape)

    @cached_property
    def _tracked_log_partition(self) -> Tensor:
        return _LogPartitionOfDense.apply(self._without_caches(), self._dense, self.transition)

    def log_prob(self, structures: Sequence[Any] | Gold) -> Tensor:
        parts = self._dense_parts(structures)
        if self._is_tracked and "_tracked_log_partition" not in self.__dict__:
            result = _LogProbOfDense.apply(self._without_caches(), parts, self._dense, self.transition)
        else:
            result = self._score_of(parts, self._dense, self.transition) - self.log_partition
        if not (result > -torch.inf).all():
            self._checked_parts(structures)  # raises, and names what is impossible
        return result

    def _dense_parts(self, structures: Sequence[Any] | Gold) -> Parts:
        # The gold that the candidates were made for is a path by construction, unless it overlaps itself.
        gold = self._gold
        if gold is not None and structures is self._given_gold and _are_disjoint(gold):
            return gold.parts
        parts = self._checked_parts(structures)
        return replace(parts, part=self._index.index_select(0, parts.part))

    def _best(self) -> tuple[Tensor, list[Any]]:
        if not self._has_best:
            return super()._best()
        return torch.from_numpy(self._kept.max_score), self._best_paths

    @property
    def mode(self) -> list[Any]:
        if not self._has_best:
            return super().mode
        check_possible(self._kept.max_score.tolist())
        return self._best_paths

    @cached_property
    def _best_paths(self) -> list[tuple[Segment, ...]]:
        kept, (_, _, max_width, num_labels) = self._kept, self._shape
        return segments_by_place(kept.bounds[1], kept.chosen[1], max_width, num_labels)


def _are_disjoint(gold: Gold) -> bool:
    """Whether no two of its segments, which are in order, share a token."""
    segments = gold.segments
    assert segments is not None
    sentence = segments.sentence
    return not ((segments.start[1:] < segments.end[:-1]) & (sentence[1:] == sentence[:-1])).any()


class _LogPartitionOfDense(torch.autograd.Function):
    """log Z with its gradient straight to the dense scores: to go by the flat ones takes as long as the sweep."""

    @staticmethod
    def forward(ctx, distribution, dense, transition):
        sums = distribution._sums_to_weight()
        ctx.distribution = distribution
        ctx.save_for_backward(dense, transition, sums.marginals, sums.transition_counts)
        return sums.log_partition

    @staticmethod
    def backward(ctx, gradient):
        return None, *_to_inputs(ctx, gradient)


class _LogProbOfDense(torch.autograd.Function):
    """score - log Z in one, for training: there is one dense gradient to write."""

    @staticmethod
    def forward(ctx, distribution, parts, dense, transition):
        sums = distribution._sums_to_weight()
        ctx.distribution, ctx.parts = distribution, parts
        ctx.save_for_backward(dense, transition, sums.marginals, sums.transition_counts)
        return distribution._score_of(parts, dense, transition) - sums.log_partition

    @staticmethod
    def backward(ctx, gradient):
        to_dense, to_transition = _to_inputs(ctx, -gradient)
        parts = ctx.parts
        to_dense.view(-1).index_add_(0, parts.part, gradient.index_select(0, parts.sentence))
        to_transition.view(-1).index_add_(0, parts.pair, gradient.index_select(0, parts.pair_sentence))
        return None, None, to_dense, to_transition


def _to_inputs(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the dense scores and of the transition, from that of log Z."""
    dense, transition, marginals, counts = ctx.saved_tensors
    distribution = ctx.distribution
    if not torch.is_grad_enabled():
        return distribution._weighted(gradient, marginals, counts)
    marginals, counts = Expectations.apply(distribution, distribution._looked_up(dense), transition)
    to_transition = (gradient @ counts.flatten(1)).view(transition.shape)
    return distribution._in_place(distribution._spread(gradient) * marginals), to_transition
