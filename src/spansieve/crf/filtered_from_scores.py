"""The filtered semi-Markov CRF from dense scores: what is checked, and which class has it.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from torch import Tensor

from spansieve.crf.candidates import Candidates, candidate_mask, candidates_of_mask
from spansieve.crf.filtered_cpu import FilteredOnCpu, FilteredOnCpuDense
from spansieve.crf.filtered_cuda import FilteredOnCuda
from spansieve.crf.filtered_semi_markov import DenseInputs, FilteredSemiMarkov
from spansieve.crf.gold import Gold, entity_gold
from spansieve.crf.kernels import FilterLimits
from spansieve.crf.kernels.dispatch import can, kernel_for
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment


def filtered_from_scores(
    local_scores: Tensor,
    global_scores: Tensor,
    transition: Tensor,
    lengths: Tensor | Sequence[int],
    gold: Sequence[Sequence[Segment]] | Gold | None,
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
    ready_gold = None if gold is None else entity_gold(gold, scores, lengths)
    local_scores = local_scores.detach() if local_scores.requires_grad else local_scores
    local_scores = local_scores if local_scores.dtype is scores.dtype else local_scores.to(scores.dtype)
    inputs = DenseInputs(local_scores, scores, transition, lengths, gold, ready_gold, skip, limits)
    if is_fused:
        is_dense_cheaper = skip and kernel.is_dense_cheaper(local_scores, lengths, limits)
        return FilteredOnCpuDense(inputs, kernel) if is_dense_cheaper else FilteredOnCpu(inputs, kernel)
    if can(kernel, "dense_filtered_sums"):
        return FilteredOnCuda(inputs, kernel)
    mask = candidate_mask(local_scores, lengths, ready_gold, skip, limits)
    candidates = Candidates(*candidates_of_mask(mask), lengths, num_tokens, max_width)
    return FilteredSemiMarkov(candidates, scores, transition, skip, kernel=kernel)
