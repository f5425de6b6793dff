"""The filtered semi-Markov CRF from dense scores: what is checked, and which class has it.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
from torch import Tensor

from spansieve.crf.candidates import Candidates, candidate_mask, candidates_of_mask, in_place
from spansieve.crf.filtered_cpu import FilteredOnCpu, FilteredOnCpuDense
from spansieve.crf.filtered_cuda import FilteredOnCuda
from spansieve.crf.filtered_semi_markov import DenseInputs, FilteredSemiMarkov
from spansieve.crf.flat_segments import check_disjoint, check_segments, dense_index
from spansieve.crf.gold import Gold, Triples
from spansieve.crf.kernels import FilterLimits
from spansieve.crf.kernels.dispatch import can, kernel_for
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition


def filtered_from_scores(
    local_scores: Tensor,
    global_scores: Tensor,
    transition: Tensor,
    lengths: Tensor | Sequence[int],
    gold: Triples | Gold | None,
    skip: bool,
    limits: FilterLimits,
    kernel: ModuleType | None,
) -> FilteredSemiMarkov:
    """Make the distribution for the device of the scores, by the kernels there are."""
    scores = checked_scores("global_scores", global_scores, 4, look=False)
    kernel = kernel or kernel_for(scores)
    # The compiled filter looks at the local scores that decide something, at the global ones of what it keeps, and at
    # the transition and the lengths.
    is_fused = can(kernel, "segments_from_scores")
    if not is_fused:
        scores = checked_scores("global_scores", scores, 4)
    local_scores = checked_scores("local_scores", local_scores, 4, look=not is_fused)
    if local_scores.shape != scores.shape:
        shapes = f"{tuple(local_scores.shape)} and {tuple(scores.shape)}"
        raise ValueError(f"local_scores and global_scores must have one shape, got {shapes}")
    num_sentences, num_tokens, max_width, num_labels = scores.shape
    if max_width < 1 or num_labels < 1:
        raise ValueError(f"global_scores must have at least one width and one label, got {tuple(scores.shape)}")
    transition = checked_transition(transition, scores, num_labels, look=not is_fused)
    lengths = checked_lengths(lengths, num_sentences, num_tokens, scores, look=not is_fused or gold is not None)
    ready = None if gold is None else ready_gold(gold, scores, lengths)
    if ready is not None and ready.segments is not None:
        check_disjoint(ready.segments)
    local_scores = local_scores.detach() if local_scores.requires_grad else local_scores
    local_scores = local_scores if local_scores.dtype is scores.dtype else local_scores.to(scores.dtype)
    inputs = DenseInputs(local_scores, scores, transition, lengths, gold, ready, skip, limits)
    if is_fused:
        is_dense_cheaper = skip and kernel.is_dense_cheaper(local_scores, lengths, limits)
        return FilteredOnCpuDense(inputs, kernel) if is_dense_cheaper else FilteredOnCpu(inputs, kernel)
    return FilteredOnCuda(inputs, kernel) if can(kernel, "dense_filtered_sums") else _by_index(inputs, kernel)


def ready_gold(gold: Triples | Gold, scores: Tensor, lengths: Tensor) -> Gold:
    """Prepare gold segments for dense scores, none of them null, or check that `Gold` has such."""
    # Elsewhere than on the CPU to look at the lengths would synchronise the host.
    limits = lengths.numpy() if lengths.is_cpu else np.full(len(lengths), scores.shape[1])
    ready = gold if isinstance(gold, Gold) else Gold.from_segments(gold, scores.shape, limits, scores.device)
    if ready.segments is None or ready.shape != tuple(scores.shape):
        raise ValueError(f"gold must be made of segments for scores of shape {tuple(scores.shape)}, got {ready.shape}")
    check_segments(ready.segments, limits, scores.shape[2], scores.shape[3])
    return ready


def _by_index(inputs: DenseInputs, kernel: ModuleType) -> FilteredByIndex:
    mask = candidate_mask(inputs.local_scores, inputs.lengths, inputs.gold_segments, inputs.skip, inputs.limits)
    candidates = Candidates(*candidates_of_mask(mask), inputs.lengths, *inputs.global_scores.shape[1:3])
    return FilteredByIndex(candidates, inputs.global_scores, inputs.transition, inputs.skip, kernel=kernel)


class FilteredByIndex(FilteredSemiMarkov):
    """The filtered distribution, with scores gathered from dense ones. `marginals` are dense again, (B, L, K, Y)."""

    def __init__(
        self,
        candidates: Candidates,
        dense_scores: Tensor,
        transition: Tensor,
        skip: bool | Tensor,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        self.dense_scores: Tensor = dense_scores
        self.lengths = candidates.lengths
        self._index = dense_index(candidates, dense_scores.shape)
        flat = dense_scores.flatten().index_select(0, self._index)
        super().__init__(candidates, flat, transition, skip, kernel=kernel)

    @property
    def marginals(self) -> Tensor:
        return in_place(super().marginals, self._index, self.dense_scores.shape)
