"""The device-to-host transfer of a filtered model's candidates: those alone, and without synchronisation.

The scores of all spans stay where they were made. Of what the filter keeps, one span in a hundred, flat index and score
are packed there and copied; the best path and the probabilities follow on the host in less time than it takes to start
a kernel. The number of candidates is not read, since the host would have to wait for it: there is room for as many as
there are tokens, and where that is too little, which only an untrained model needs, they are copied again.

Axes: B sentences, L tokens, K widths, Y labels, N candidates, R room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.kernels import cpu


class Decided(NamedTuple):
    """The segments of a batch, in order; one array each."""

    sentence: np.ndarray  # in the batch
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray
    probability: np.ndarray | None


class Packed(NamedTuple):
    """The candidates that the filter kept, packed: the first `number` of what there is room for."""

    number: Tensor  # (1,)
    place: Tensor  # (R + 1,): in the flattened (B, L, K, Y)
    score: Tensor  # (R + 1,): global


def pack(is_candidate: Tensor, global_scores: Tensor, room: int) -> Packed:
    """Pack what is kept of (B, L, K, Y), in tensor operations of fixed shapes."""
    is_kept = is_candidate.flatten()
    rank = is_kept.cumsum(0)
    # All that is not kept, or that there is no room for, goes to the last slot, which is never read.
    slot = torch.where(is_kept & (rank <= room), rank - 1, room)
    place = torch.arange(len(is_kept), device=is_kept.device)
    score = global_scores.flatten()
    return Packed(
        rank[-1:],
        place.new_zeros(room + 1).scatter_(0, slot, place),
        score.new_zeros(room + 1).scatter_(0, slot, score),
    )


class Landing:
    """A device-to-host transfer of the candidates of a batch. `decide` waits for it, and for nothing after it."""

    def __init__(self, is_candidate: Tensor, global_scores: Tensor) -> None:
        """Start the transfer, from a dense mask and dense scores, (B, L, K, Y) each."""
        self._kept, self._shape = (is_candidate, global_scores), tuple(is_candidate.shape)
        self._start(room=self._shape[0] * self._shape[1])

    @torch.inference_mode()
    def _start(self, room: int) -> None:
        self._room = room
        packed = pack(*self._kept, room)
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
        return decide(place, score, self._shape, lengths, transition, skip, with_probabilities)


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
    """Find the best path through candidates given by their flat index in (B, L, K, Y)."""
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
