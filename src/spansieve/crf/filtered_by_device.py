"""The filtered semi-Markov CRF from dense scores: on the CPU by the compiled kernels, on a GPU by those of Triton.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates, candidate_mask, candidates_of_mask, in_place
from spansieve.crf.filtered_semi_markov import DenseInputs, FilteredFromScores
from spansieve.crf.flat_segments import segments_by_index, segments_by_start
from spansieve.crf.gold import Gold
from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.semirings import Semiring
from spansieve.segments import Segment

if TYPE_CHECKING:
    from spansieve.crf.kernels.cpu.filter import Kept


class FilteredOnCpu(FilteredFromScores):
    """The filtered distribution over candidates that the compiled filter lists. `marginals` are dense, (B, L, K, Y).

    Tensors are made of what the filter keeps only on demand: at 3 µs a sentence each of them counts.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        super().__init__(inputs, None, kernel)
        is_tracked = self._is_tracked
        if self.dense_scores.requires_grad and not is_tracked:
            self.dense_scores = self.dense_scores.detach()
        self._filter(find_best=inputs.gold is None and not is_tracked)

    def _filter(self, find_best: bool) -> None:
        """List the candidates and, for prediction, find the best path in the same pass."""
        self._kept = self._listed(find_best)
        self._has_best = find_best

    def _listed(self, find_best: bool) -> Kept:
        inputs = self._inputs
        return self._kernel.segments_from_scores(
            *inputs[:4], inputs.gold_segments, inputs.skip, find_best, inputs.limits
        )

    @cached_property
    def scores(self) -> Tensor:  # type: ignore[override]
        """The global scores of the candidates, (N,)."""
        if not self.dense_scores.requires_grad:
            return torch.from_numpy(self._kept.score)
        with torch.enable_grad():
            return self._gathered(self.dense_scores)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        offsets, start, end, label = (torch.from_numpy(column) for column in self._kept.graph)
        return Candidates(offsets, start, end, label, self.lengths, *self.dense_scores.shape[1:3])

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self._kept.index)

    @cached_property
    def _part_sentence(self) -> Tensor | None:
        return torch.from_numpy(self._kept.sentence)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        # The scores can only be this distribution's own, which the filter looked up.
        kept, lengths = self._kept, self.lengths
        return self._kernel.kept_sums(*kept.graph, kept.score, transition, lengths, self.skip, with_marginals)

    def _input_gradients(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Written straight to the dense scores: to go by the flat ones takes as long as the sweep."""
        if not torch.is_grad_enabled():
            return self._kernel.dense_expectations(gradient, marginals, counts, self._kept, self.dense_scores.shape)
        to_flat, to_transition = super()._input_gradients(gradient, marginals, counts)
        return in_place(to_flat, self._index, self.dense_scores.shape), to_transition

    def score(self, structures: Sequence[Any] | Gold) -> Tensor:
        return self._possible(super().score(structures), structures)

    def log_prob(self, structures: Sequence[Any] | Gold) -> Tensor:
        return self._possible(super().log_prob(structures), structures)

    def _possible(self, result: Tensor, structures: Sequence[Any] | Gold) -> Tensor:
        """Raise where a result is -inf, and name what is impossible, which is not looked for in gold before."""
        if not (result > -torch.inf).all():
            super(FilteredFromScores, self)._checked_parts(structures)
        return result

    def _best(self) -> tuple[Tensor, list[Any]]:
        if not self._has_best:
            return super()._best()
        kept, (_, _, max_width, num_labels) = self._kept, self.dense_scores.shape
        structures = segments_by_index(kept.bounds[1], kept.chosen[1], max_width, num_labels)
        return torch.from_numpy(kept.max_score), structures


class FilteredOnCpuDense(FilteredOnCpu):
    """The filtered distribution by a sweep over every span, for paths that may skip where the filter keeps so much that
    listing it would cost more. The loss, log Z, the marginals and the best path never list the candidates; everything
    else does so first.
    """

    def _filter(self, find_best: bool) -> None:
        inputs = self._inputs
        self._kept_scores = self._kernel.kept_scores(*inputs[:4], inputs.gold_segments, inputs.limits)  # (B, L, K, Y)

    @cached_property
    def _kept(self) -> Kept:  # type: ignore[override]
        return self._listed(find_best=False)

    def _dense_sums(self, with_marginals: bool) -> Sums:
        """Compute the sums, with dense marginals."""
        return self._kernel.dense_skip_sums(self._kept_scores, self.transition, self.lengths, with_marginals)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        sums = self._dense_sums(with_marginals)
        return sums._replace(marginals=self._gathered(sums.marginals)) if with_marginals else sums

    def _sums_to_save(self, scores: Tensor, transition: Tensor) -> Sums:
        return self._dense_sums(with_marginals=True)

    def _input_gradients(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():
            return self._kernel.weighted_expectations(gradient, marginals, counts, None)
        return super()._input_gradients(gradient, marginals, counts)

    @cached_property
    def _plain_log_partition(self) -> Tensor:
        return self._dense_sums(with_marginals=False).log_partition

    @property
    def marginals(self) -> Tensor:
        return super().marginals if self._is_tracked else self._plain_marginals

    @cached_property
    def _plain_marginals(self) -> Tensor:
        return self._dense_sums(with_marginals=True).marginals

    def _best(self) -> tuple[Tensor, list[Any]]:
        max_score, widths, labels = self._kernel.dense_skip_best(self._kept_scores, self.transition, self.lengths)
        return max_score, segments_by_start(widths.numpy(), labels.numpy(), self.dense_scores.shape)


class FilteredOnCuda(FilteredFromScores):
    """The filtered distribution with dense scores throughout and the candidates as a mask: no step of the loss
    synchronises the host with a GPU.

    The candidates are listed only on demand.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        super().__init__(inputs, inputs.global_scores, kernel)

    def _gathered(self, part_scores: Tensor) -> Tensor:
        return part_scores

    @cached_property
    def is_candidate(self) -> Tensor:
        """What the filter keeps, a mask (B, L, K, Y)."""
        local_scores, gold, limits = self._inputs.local_scores, self._inputs.gold, self._inputs.limits
        if limits.budget is None:
            return self._kernel.dense_filter(local_scores, self.lengths, gold, self.skip, limits.labels_per_span)
        return candidate_mask(local_scores, self.lengths, gold, self._inputs.skip, limits)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        return Candidates(*candidates_of_mask(self.is_candidate), self.lengths, *self.scores.shape[1:3])

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return super()._total(semiring, scores.flatten(1)[:, self._index], transition)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        return self._kernel.dense_filtered_sums(
            self.is_candidate, scores, transition, self.lengths, self.skip, with_marginals
        )

    def _best(self) -> tuple[Tensor, list[Any]]:
        return self._kernel.dense_filtered_best(
            self.is_candidate, self.scores.detach(), self.transition.detach(), self.lengths, self.skip
        )

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return super()._structures(is_part.flatten()[self._index])

    @property
    def _part_sentence(self) -> Tensor | None:
        return None
