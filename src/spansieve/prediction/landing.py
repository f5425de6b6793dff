"""What a filtered model decides, brought from an accelerator to the host: the candidates alone, and without waiting.

The scores of all spans stay where they were made. Of what the filter keeps, one span in a hundred, place and score are
packed there and copied; the best path and the probabilities follow on the host in less time than it takes to start a
kernel. The number of candidates is not asked for, since the answer would have to be waited for: there is room for as
many as there are tokens, and where that is too little, which only a model that knows nothing needs, they come again.

Axes: B sentences, L tokens, K widths, Y labels, N candidates, R room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import candidate_mask
from spansieve.crf.kernels import PLAIN_FILTER, FilterLimits, cpu


class Decided(NamedTuple):
    """The segments of a batch, in order; one array each."""

    sentence: np.ndarray  # in the batch
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray
    probability: np.ndarray | None


class Packed(NamedTuple):
    """What the filter kept: the first `number` of what there is room for."""

    number: Tensor  # (1,)
    place: Tensor  # (R + 1,): in the flattened (B, L, K, Y)
    score: Tensor  # (R + 1,): global


class _Kept(NamedTuple):
    """By a filter, of what it may keep: the labels of all spans, or one of each."""

    is_kept: Tensor  # (M,)
    place: Tensor  # (M,): in the flattened (B, L, K, Y)
    score: Tensor  # (M,): global


def pack(
    local_scores: Tensor, global_scores: Tensor, lengths: Tensor, room: int, limits: FilterLimits = PLAIN_FILTER
) -> Packed:
    """The filter, in tensor operations of fixed shapes; its definition is `crf.candidates.candidate_mask`."""
    keep = _keep_best_label if limits == PLAIN_FILTER else _keep
    is_kept, place, score = keep(local_scores, global_scores, lengths, limits)
    rank = is_kept.cumsum(0)
    # All that is not kept, or that there is no room for, goes to the last place, which nobody reads.
    slot = torch.where(is_kept & (rank <= room), rank - 1, room)
    return Packed(
        rank[-1:],
        place.new_zeros(room + 1).scatter_(0, slot, place),
        score.new_zeros(room + 1).scatter_(0, slot, score),
    )


def _keep_best_label(local_scores: Tensor, global_scores: Tensor, lengths: Tensor, limits: FilterLimits) -> _Kept:
    """The paper's filter, without looking at every label again."""
    _, num_tokens, max_width, num_labels = local_scores.shape
    device = local_scores.device
    end = torch.arange(num_tokens, device=device)[:, None] + torch.arange(1, max_width + 1, device=device)  # (L, K)
    label = local_scores.argmax(-1, keepdim=True)  # (B, L, K, 1)
    is_kept = ((label[..., 0] > 0) & (end <= lengths[:, None, None])).flatten()
    place = torch.arange(len(is_kept), device=device) * num_labels + label.flatten()
    return _Kept(is_kept, place, global_scores.gather(-1, label).flatten())


def _keep(local_scores: Tensor, global_scores: Tensor, lengths: Tensor, limits: FilterLimits) -> _Kept:
    is_kept = candidate_mask(local_scores, lengths, None, False, limits).flatten()
    return _Kept(is_kept, torch.arange(len(is_kept), device=is_kept.device), global_scores.flatten())


class Landing:
    """The candidates of a batch on their way to the host. `decide` waits for them, and for nothing after them."""

    def __init__(
        self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, limits: FilterLimits = PLAIN_FILTER
    ) -> None:
        self._scores, self._limits = (local_scores, global_scores, lengths), limits
        self._start(room=lengths.numel() * local_scores.shape[1])

    @torch.inference_mode()
    def _start(self, room: int) -> None:
        self._room = room
        packed = pack(*self._scores, room, self._limits)
        self._arrived = None
        if packed.number.is_cuda:
            packed = Packed._make(_to_pinned(tensor) for tensor in packed)
            self._arrived = torch.cuda.Event()
            self._arrived.record()
        self._packed = packed

    def decide(self, lengths: np.ndarray, transition: np.ndarray, skip: bool, with_probabilities: bool) -> Decided:
        if self._arrived is not None:
            self._arrived.synchronize()
        number = int(self._packed.number)
        if number > self._room:
            self._start(room=number)
            return self.decide(lengths, transition, skip, with_probabilities)
        place, score = (tensor[:number].numpy() for tensor in self._packed[1:])
        return decide(place, score, self._scores[0].shape, lengths, transition, skip, with_probabilities)


def _to_pinned(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def decide(
    place: np.ndarray,
    score: np.ndarray,
    shape: tuple[int, ...],
    lengths: np.ndarray,
    transition: np.ndarray,
    skip: bool,
    with_probabilities: bool,
) -> Decided:
    """The best path through candidates given by where they stand in (B, L, K, Y)."""
    if not (score < np.inf).all():
        raise ValueError("the model's scores must be numbers, got NaN or +inf: was it trained to the end?")
    num_sentences, num_tokens, max_width, num_labels = shape
    span, label = np.divmod(place, num_labels)
    first, width = np.divmod(span, max_width)
    sentence, start = np.divmod(first, num_tokens)
    end = start + width + 1
    order = np.argsort(((sentence * (num_tokens + 1) + end) * (num_tokens + 1) + start), kind="stable")
    sentence, start, end, label, score = (x[order] for x in (sentence, start, end, label, score))
    offsets = np.searchsorted(sentence, np.arange(num_sentences + 1))
    graph = (offsets, start, end, label, score, transition, lengths)
    _, is_chosen = cpu.filtered_best(*graph, skip=skip)
    probability = None
    if with_probabilities:
        probability = cpu.filtered_sums(*graph, skip=skip).marginals[is_chosen].clip(0, 1)
    return Decided(sentence[is_chosen], start[is_chosen], end[is_chosen], label[is_chosen], probability)
