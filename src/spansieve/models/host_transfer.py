"""The device-to-host transfer of what the host decodes: the candidates of a filter alone, or whole scores, and without
synchronisation.

The scores of all spans stay where they were made. Of what the filter keeps, one span in a hundred, flat index and score
are packed there and copied; the best path and the probabilities follow on the host in less time than it takes to start
a kernel. The number of candidates is not read, since the host would have to wait for it: there is a slot for as many as
there are tokens, and where that is too little, which only an untrained model needs, they are copied again.

Axes: B sentences, L tokens, K widths, Y labels, N candidates, R slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.flat_segments import FlatSegments


def to_host(tensors: Sequence[Tensor]) -> Callable[[], list[np.ndarray]]:
    """Start to copy tensors to pinned memory; what is returned waits for them, and for nothing after them."""
    if not tensors[0].is_cuda:
        arrays = [tensor.numpy() for tensor in tensors]
        return lambda: arrays
    pinned = [
        torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        for tensor in tensors
    ]
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> list[np.ndarray]:
        copied.synchronize()
        return [tensor.numpy() for tensor in pinned]

    return wait


def candidates_to_host(is_candidate: Tensor, global_scores: Tensor) -> Callable[[], tuple[FlatSegments, np.ndarray]]:
    """Start the transfer of the candidates of a batch, from a dense mask and dense scores, (B, L, K, Y) each. What is
    returned waits for them: segments sorted by (sentence, end, start, label), and their scores (N,)."""
    num_slots = is_candidate.shape[0] * is_candidate.shape[1]
    wait = to_host(pack(is_candidate, global_scores, num_slots))

    def candidates() -> tuple[FlatSegments, np.ndarray]:
        number, index, scores = wait()
        if number[0] > num_slots:
            number, index, scores = to_host(pack(is_candidate, global_scores, int(number[0])))()
        return sorted_candidates(index[: number[0]], scores[: number[0]], tuple(is_candidate.shape))

    return candidates


@torch.inference_mode()
def pack(is_candidate: Tensor, global_scores: Tensor, num_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pack what is kept of (B, L, K, Y), in tensor operations of fixed shapes: the number of candidates (1,), and of
    the first R of them flat index and score, (R + 1,)."""
    is_kept = is_candidate.flatten()
    rank = is_kept.cumsum(0)
    # All that is not kept, or that there is no slot for, goes to the last slot, which is never read.
    slot = torch.where(is_kept & (rank <= num_slots), rank - 1, num_slots)
    index = torch.arange(len(is_kept), device=is_kept.device)
    score = global_scores.flatten()
    return (
        rank[-1:],
        index.new_zeros(num_slots + 1).scatter_(0, slot, index),
        score.new_zeros(num_slots + 1).scatter_(0, slot, score),
    )


def sorted_candidates(index: np.ndarray, scores: np.ndarray, shape: tuple[int, ...]) -> tuple[FlatSegments, np.ndarray]:
    """Return candidates, given by their flat index in (B, L, K, Y) in ascending order, as the kernels take them."""
    if not (scores < np.inf).all():
        raise ValueError("the model's scores must be numbers, got NaN or +inf: was it trained to the end?")
    num_sentences, num_tokens, max_width, num_labels = shape
    span, label = np.divmod(index, num_labels)
    first, width = np.divmod(span, max_width)
    sentence, start = np.divmod(first, num_tokens)
    end = start + width + 1
    order = np.argsort((sentence * (num_tokens + 1) + end) * (num_tokens + 1) + start, kind="stable")
    offsets = np.searchsorted(sentence, np.arange(num_sentences + 1))
    return FlatSegments(offsets, start[order], end[order], label[order]), scores[order]
