"""What the two sides of a token add to a linear chain, tag by tag, for questions about runs of tags.

Axes: B sentences, L tokens, Y tags. O(L·Y²) each.
"""

from __future__ import annotations

import torch
from torch import Tensor

LOWEST = -1e300  # stands for the largest number where all are -inf


def from_the_left(scores: Tensor, transition: Tensor) -> Tensor:
    """(B, L, Y): log-sum of the sequences up to token i that have tag y there; its score is in it."""
    sums = scores.clone()
    for i in range(1, scores.shape[1]):
        sums[:, i] += log_product(sums[:, i - 1], transition)
    return sums


def from_the_right(scores: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """(B, L, Y): log-sum of what may follow tag y at token i, to the end of its sentence; 0 at the end itself."""
    follows = torch.zeros_like(scores)
    for i in range(scores.shape[1] - 2, -1, -1):
        following = log_product(scores[:, i + 1] + follows[:, i + 1], transition.T)
        follows[:, i] = following.masked_fill((i >= lengths - 1)[:, None], 0.0)
    return follows


def log_product(vectors: Tensor, matrix: Tensor) -> Tensor:
    """log(exp(vectors) @ exp(matrix)), (B, Y), each row from its largest number on."""
    top, top_of_matrix = vectors.amax(-1, keepdim=True).clamp(min=LOWEST), matrix.amax().clamp(min=LOWEST)
    return ((vectors - top).exp() @ (matrix - top_of_matrix).exp()).log() + top + top_of_matrix
