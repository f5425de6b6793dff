"""The filtered semi-Markov CRF from dense scores on the CPU where the filter keeps so much that listing it would cost
more than a sweep over every span. Paths may skip.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from spansieve.crf.filtered_fused import FilteredFused
from spansieve.crf.flat_segments import offsets_of, segments_by_place
from spansieve.crf.kernels import Sums

if TYPE_CHECKING:
    from spansieve.crf.filtered_from_scores import DenseInputs
    from spansieve.crf.kernels.cpu.filter import Kept


class FilteredDense(FilteredFused):
    """The filtered semi-Markov CRF by a sweep over every span. The loss, log Z, the marginals and the best path never
    list the candidates; everything else does so first."""

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        self._take(inputs, kernel)
        self._inputs, self._has_best, self._sums_found = inputs, False, None
        self._kept_scores = kernel.kept_scores(*inputs[:4], inputs.gold_segments, inputs.limits)  # (B, L, K, Y)
        if inputs.is_tracked:
            self._sums_found = self._swept(with_marginals=True)

    def _swept(self, with_marginals: bool) -> Sums:
        """Compute the sums with dense marginals. Not to be handed out: what is may be written to."""
        if self._sums_found is not None:
            return self._sums_found
        return self._kernel.dense_skip_sums(self._kept_scores, self.transition, self.lengths, with_marginals)

    @cached_property
    def _kept(self) -> Kept:  # type: ignore[override]
        inputs = self._inputs
        return self._kernel.segments_from_scores(*inputs[:4], inputs.gold_segments, True, False, inputs.limits)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        sums = self._swept(with_marginals)
        if not with_marginals:
            return Sums(sums.log_partition.clone(), None, None)
        marginals = sums.marginals.flatten().index_select(0, self._index)
        return Sums(sums.log_partition.clone(), marginals, sums.transition_counts.clone())

    def _sums_to_weight(self) -> Sums:
        sums = self._swept(with_marginals=True)
        return sums._replace(log_partition=sums.log_partition.clone())

    def _weighted(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        return self._kernel.weighted_expectations(gradient, marginals, counts, None)

    @cached_property
    def _plain_log_partition(self) -> Tensor:
        return self._swept(with_marginals=False).log_partition.clone()

    @property
    def marginals(self) -> Tensor:
        return super().marginals if self._is_tracked else self._plain_marginals

    @cached_property
    def _plain_marginals(self) -> Tensor:
        return self._swept(with_marginals=True).marginals.clone()

    def _best(self) -> tuple[Tensor, list[Any]]:
        max_score, *found = self._kernel.dense_skip_best(self._kept_scores, self.transition, self.lengths)
        width, label = (tensor.numpy() for tensor in found)
        sentence, start = place = width.nonzero()
        _, _, max_width, num_labels = self._shape
        index = (start * max_width + width[place] - 1) * num_labels + label[place]
        return max_score, segments_by_place(offsets_of(sentence, self.num_sentences), index, max_width, num_labels)
