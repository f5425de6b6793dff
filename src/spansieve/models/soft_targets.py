"""Soft targets: the parts of structures with their probabilities, which a model learns from in the place of gold.

Axes: B sentences, L tokens, K widths, Y labels, T labels of the transition, N parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import Distribution, Gold
from spansieve.crf.divergence import dense_marginals

LEAST_PROBABILITY = 1e-4  # of a part, and count of a transition, that is kept


@dataclass(frozen=True, eq=False)
class SoftTargets:
    """What a batch is to be, in expectation: P(part) and how often one label follows another. As the loss is linear in
    them, gold and a teacher's distribution mix by their sums."""

    part: Tensor  # (N,): positions in the flattened scores; one may come twice
    probability: Tensor  # (N,)
    sentence: Tensor  # (N,): the sentence of each part
    counts: Tensor  # (B, T, T)

    def to(self, device: torch.device | str) -> SoftTargets:
        columns = (self.part, self.probability, self.sentence, self.counts)
        return SoftTargets(*(column.to(device, non_blocking=True) for column in columns))

    def expected_score(self, scores: Tensor, transition: Tensor) -> Tensor:
        """The expected score of a structure, (B,)."""
        of_parts = scores.flatten().index_select(0, self.part) * self.probability
        return (self.counts * transition).flatten(1).sum(1).index_add(0, self.sentence, of_parts)


class SentenceTargets(NamedTuple):
    """The soft targets of one sentence, as they are stored: those of a linear chain have tags for labels."""

    segments: np.ndarray  # (N, 3): start, end, label
    probability: np.ndarray  # (N,)
    pairs: np.ndarray  # (P, 2): labels that follow one another
    pair_count: np.ndarray  # (P,)


def sentence_targets(distribution: Distribution) -> list[SentenceTargets]:
    """The soft targets of each sentence, of a distribution's parts and transitions that are not next to impossible."""
    columns = []
    for values in (dense_marginals(distribution), distribution.transition_counts):
        where = (values > LEAST_PROBABILITY).nonzero()
        at = where.T.unbind()
        bounds = torch.bincount(at[0], minlength=len(values)).cumsum(0).tolist()[:-1]
        columns += [np.split(x.cpu().numpy(), bounds) for x in (where[:, 1:].int(), values[at].float())]
    widen = np.array(
        [[1, 1, 0], [0, 1, 0], [0, 0, 1]], np.int32
    )  # (start, width - 1, label) to (start, end - 1, label)
    segments = [index @ widen + np.array([0, 1, 0], np.int32) for index in columns[0]]
    return list(map(SentenceTargets, segments, *columns[1:]))


def mixed_with_gold(
    targets: Sequence[SentenceTargets], gold: Gold, mixture: Sequence[float], num_labels: int
) -> SoftTargets:
    """Mix the targets of a batch, each by its part in the mixture, with gold for the rest, for scores shaped as gold
    has it and a transition between so many labels."""
    num_tokens, max_width = gold.shape[1], gold.shape[2] if len(gold.shape) == 4 else 1
    shares = torch.tensor(mixture, dtype=torch.float32)
    sizes = [len(one.probability) for one in targets]
    start, end, label = np.concatenate([one.segments for one in targets]).astype(np.int64).T
    sentence = np.repeat(np.arange(len(targets)), sizes)
    flat = torch.from_numpy(((sentence * num_tokens + start) * max_width + end - start - 1) * gold.shape[-1] + label)
    part_sentence = torch.cat((torch.from_numpy(sentence), gold.parts.sentence))
    ones = torch.ones(len(gold.parts.part))
    probability = torch.cat((torch.from_numpy(np.concatenate([one.probability for one in targets])), ones))
    weight = torch.cat((shares[sentence], 1.0 - shares[gold.parts.sentence]))
    counts = torch.zeros(len(targets), num_labels, num_labels)
    for b, one in enumerate(targets):
        counts[b, one.pairs[:, 0], one.pairs[:, 1]] = shares[b] * torch.from_numpy(one.pair_count)
    at = gold.parts.pair_sentence * num_labels**2 + gold.parts.pair
    counts.view(-1).index_add_(0, at, 1.0 - shares[gold.parts.pair_sentence])
    return SoftTargets(torch.cat((flat, gold.parts.part)), probability * weight, part_sentence, counts)
