"""The filtered semi-Markov CRF from dense scores on the CPU: all that can be done in the filter's pass is.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.distribution import Expectations, check_possible
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import Sums
from spansieve.crf.structures import segments_by_place
from spansieve.segments import Segment

if TYPE_CHECKING:
    from spansieve.crf.filtered_from_scores import DenseInputs


class FilteredFused(FilteredSemiMarkov):
    """The flat distribution, with scores looked up in the dense ones. `marginals` are dense again, (B, L, K, Y).

    The filter runs at once, and out of the same call comes what will be asked for: in training the sums, otherwise the
    best path. Tensors are made of what it found only on demand: at 3 µs a sentence each of them counts.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        # No super().__init__: its `scores` are made on demand.
        global_scores, transition = inputs.global_scores, inputs.transition
        self.transition, self.lengths, self.skip = transition, inputs.lengths, inputs.skip
        self.num_sentences, self._kernel = len(global_scores), kernel
        self._shape = global_scores.shape
        is_tracked = (global_scores.requires_grad or transition.requires_grad) and torch.is_grad_enabled()
        self._dense = global_scores.detach() if global_scores.requires_grad and not is_tracked else global_scores
        self._has_best = inputs.gold is None and not is_tracked
        self._sums_found: Sums | None = None  # arrays: a tensor would join the graph that holds this
        self._gold, self._given_gold = inputs.gold, inputs.given_gold
        self._filter(inputs, is_tracked)

    def _filter(self, inputs: DenseInputs, is_tracked: bool) -> None:
        kernel, gold = self._kernel, inputs.gold_segments
        if is_tracked:
            self._kept, self._sums_found = kernel.sums_from_scores(*inputs[:4], gold, inputs.skip, inputs.limits)
        else:
            self._kept = kernel.segments_from_scores(*inputs[:4], gold, inputs.skip, self._has_best, inputs.limits)

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
        """What belongs to the candidates, (N,), where they stand, and 0 elsewhere: (B, L, K, Y)."""
        return flat.new_zeros(self._shape.numel()).index_put((self._index,), flat).view(self._shape)

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
        """As `_weighted` takes them."""
        return self._sums(self._dense, self.transition, True)

    def _weighted(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """To the dense scores and to the transition, from what reaches log Z."""
        return self._kernel.dense_expectations(gradient, marginals, counts, self._kept, self._shape)

    @cached_property
    def _tracked_log_partition(self) -> Tensor:
        return self._new_log_partition()

    def _new_log_partition(self) -> Tensor:
        return _LogPartitionOfDense.apply(self._without_caches(), self._dense, self.transition)

    def log_prob(self, structures: Sequence[Any] | Gold) -> Tensor:
        score = self._score_of(self._dense_parts(structures), self._dense, self.transition)
        if (score == -torch.inf).any():
            self._checked_parts(structures)  # raises, and names what is impossible
        # A node of the graph of its own, so that each loss can be gone back through.
        is_new = self._is_tracked and "_tracked_log_partition" not in self.__dict__
        return score - (self._new_log_partition() if is_new else self.log_partition)

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
    """No two of its segments, which are in order, share a token."""
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
        dense, transition, marginals, counts = ctx.saved_tensors
        distribution = ctx.distribution
        if not torch.is_grad_enabled():
            return None, *distribution._weighted(gradient, marginals, counts)
        marginals, counts = Expectations.apply(distribution, distribution._looked_up(dense), transition)
        to_transition = (gradient @ counts.flatten(1)).view(transition.shape)
        return None, distribution._in_place(distribution._spread(gradient) * marginals), to_transition
