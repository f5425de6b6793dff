"""The filtered semi-Markov CRF from dense scores on a GPU, by the Triton kernels.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import Any

from torch import Tensor

from spansieve.crf.candidates import Candidates, candidate_mask, candidates_of_mask
from spansieve.crf.filtered_semi_markov import DenseInputs, FilteredFromScores
from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.semirings import Semiring
from spansieve.segments import Segment


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
