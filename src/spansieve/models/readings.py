"""The k-best sets of entities of each sentence, each with its probability: all of its entities and no others.

For a filtered model that is the probability given the candidates: a segment that the filter left out is in no set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from spansieve.crf import Distribution, SemiMarkov
from spansieve.models.head import Head
from spansieve.segments import Segment

Entities = tuple[Segment, ...]
OVERSAMPLED = 8  # where many structures have the same entities, so many times as many are looked at


def readings_of(head: Head, distribution: Distribution, k: int) -> list[list[tuple[Entities, float]]]:
    """The k-best sets of entities of each sentence, best first. A semi-CRF whose null segments may be wide cuts what is
    no entity in many ways, which count as one set; it may then have fewer than k to show."""
    if isinstance(distribution, SemiMarkov) and _has_wide_null(distribution):
        return _merged(head, distribution, k)
    if k == 1:
        found = [[(mode, score)] for mode, score in zip(distribution.mode, distribution.max_score.tolist())]
    else:
        found = distribution.top_k(k)
    totals = distribution.log_partition.tolist()
    return [
        [(head.entities(structure), _probability(score - total)) for structure, score in structures]
        for structures, total in zip(found, totals)
    ]


def _probability(log_probability: float) -> float:
    return min(1.0, math.exp(log_probability))


def _has_wide_null(distribution: SemiMarkov) -> bool:
    wide = distribution.scores[:, :, 1:, 0]
    return bool((wide > -torch.inf).any())


def _merged(head: Head, distribution: SemiMarkov, k: int) -> list[list[tuple[Entities, float]]]:
    structures = [[s for s, _ in found] for found in distribution.top_k(OVERSAMPLED * k)]
    distinct = [list(dict.fromkeys(map(head.entities, found))) for found in structures]
    ranks = max(map(len, distinct), default=0)
    columns = [[found[min(rank, len(found) - 1)] for found in distinct] for rank in range(ranks)]
    shares = [_log_shares(distribution, column).exp().clamp(max=1.0).tolist() for column in columns]
    merged = [[(sets[rank], shares[rank][b]) for rank in range(len(sets))] for b, sets in enumerate(distinct)]
    return [sorted(found, key=lambda reading: -reading[1])[:k] for found in merged]


def _log_shares(distribution: SemiMarkov, entities: Sequence[Entities]) -> Tensor:
    """log P(exactly these entities), (B,): the share of Z that is left when nothing else but null is allowed."""
    scores = distribution.scores
    is_allowed = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    is_allowed[..., 0] = True
    for b, found in enumerate(entities):
        for start, end, label in found:
            for width in range(1, scores.shape[2] + 1):  # the spans of this width that share a token with the entity
                is_allowed[b, max(0, start - width + 1) : end, width - 1] = False
            is_allowed[b, start, end - start - 1, label] = True
    # Entities do not overlap, so that what one of them forbids is never another.
    allowed = scores.masked_fill(~is_allowed, -torch.inf)
    return SemiMarkov(allowed, distribution.transition, distribution.lengths).log_partition - distribution.log_partition
