"""The filtered semi-Markov CRF from dense scores: filter and graph in one.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spansieve.crf.candidates import (
    Candidates,
    candidate_mask,
    candidates_of_mask,
    in_place,
    kept_mask,
    masked_for_training,
)
from spansieve.crf.distribution import Distribution
from spansieve.crf.filtered_dense import FilteredDense
from spansieve.crf.filtered_fused import FilteredFused, filtered_at_once
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import FlatSegments, check_segments, dense_index, named
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import FilterLimits, Sums
from spansieve.crf.kernels.dispatch import can, kernel_for
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment


class DenseInputs(NamedTuple):
    """What `FilteredSemiMarkov.from_scores` takes, checked."""

    local_scores: Tensor  # (B, L, K, Y)
    global_scores: Tensor  # (B, L, K, Y)
    transition: Tensor  # (Y, Y)
    lengths: Tensor  # (B,)
    given_gold: Sequence[Sequence[Segment]] | Gold | None
    gold: Gold | None
    skip: bool
    limits: FilterLimits

    @property
    def is_tracked(self) -> bool:
        return (self.global_scores.requires_grad or self.transition.requires_grad) and torch.is_grad_enabled()

    @property
    def gold_segments(self) -> FlatSegments | None:
        return None if self.gold is None else self.gold.segments


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
    ready_gold = None if gold is None else _ready(gold, scores, lengths)
    local_scores = local_scores.detach() if local_scores.requires_grad else local_scores
    local_scores = local_scores if local_scores.dtype is scores.dtype else local_scores.to(scores.dtype)
    inputs = DenseInputs(local_scores, scores, transition, lengths, gold, ready_gold, skip, limits)
    if is_fused:
        found = filtered_at_once(inputs, kernel)
        return FilteredDense(inputs, kernel) if found is None else FilteredFused(inputs, kernel, found)
    return FilteredByMask(inputs, kernel) if can(kernel, "dense_filtered_sums") else _by_index(inputs, kernel)


def _ready(gold: Sequence[Sequence[Segment]] | Gold, scores: Tensor, lengths: Tensor) -> Gold:
    limits = lengths.numpy() if lengths.is_cpu else None  # elsewhere to look would synchronise the host
    if not isinstance(gold, Gold):
        gold = Gold.from_segments(gold, scores.shape, limits, scores.device)
    elif gold.segments is not None and limits is not None and gold.shape == tuple(scores.shape):
        check_segments(gold.segments, limits, scores.shape[2], scores.shape[3])
    if gold.segments is None or gold.shape != tuple(scores.shape):
        raise ValueError(f"gold must be made of segments for scores of shape {tuple(scores.shape)}, got {gold.shape}")
    if len(gold.segments.label) and gold.segments.label.min() < 1:
        at = int(gold.segments.label.argmin())
        segment = named((gold.segments.start[at], gold.segments.end[at], 0))
        raise ValueError(f"{segment} of sentence {gold.segments.sentence[at]} must have a label above 0, as 0 is null")
    return gold


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


class FilteredByMask(FilteredSemiMarkov):
    """The filtered distribution with dense scores throughout and the candidates as a mask: no step of the loss
    synchronises the host with a GPU.

    The candidates are listed only on demand.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        self._inputs = inputs
        self.lengths, self.skip = inputs.lengths, inputs.skip
        Distribution.__init__(self, inputs.global_scores, inputs.transition, len(inputs.lengths), kernel)

    @property
    def dense_scores(self) -> Tensor:  # type: ignore[override]
        return self.scores

    @cached_property
    def is_candidate(self) -> Tensor:
        """What the filter keeps, a mask (B, L, K, Y)."""
        local_scores, gold, limits = self._inputs.local_scores, self._inputs.gold, self._inputs.limits
        if limits.budget is None:
            return self._kernel.dense_filter(local_scores, self.lengths, gold, self.skip, limits.labels_per_span)
        mask = kept_mask(local_scores, self.lengths, limits)
        if gold is None:
            return mask
        return masked_for_training(mask, None if self.skip else gold.covered, gold.parts.part)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        _, num_tokens, max_width, _ = self.scores.shape
        return Candidates(*candidates_of_mask(self.is_candidate), self.lengths, num_tokens, max_width)

    @cached_property
    def _index(self) -> Tensor:
        return dense_index(self.candidates, self.scores.shape)

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

    def _checked_parts(self, structures: Sequence[Any] | Gold) -> Parts:
        # The gold that the candidates were made for is a path by construction; to look would synchronise the host.
        if self._inputs.gold is not None and structures is self._inputs.given_gold:
            return self._inputs.gold.parts
        return super()._checked_parts(structures)

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        return self._parts_of_gold(Gold.from_segments(structures, self.scores.shape, None, self.scores.device))

    def _parts_of_gold(self, gold: Gold) -> Parts:
        super()._parts_of_gold(gold)  # raises unless it is a path
        return gold.parts
