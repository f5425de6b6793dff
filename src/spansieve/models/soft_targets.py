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

    parts: np.ndarray  # (N, 4): start, width - 1, label and P(part)
    pairs: np.ndarray  # (P, 3): a label, the one that follows it, and how often that is expected


NOTHING = SentenceTargets(np.zeros((0, 4), np.float32), np.zeros((0, 3), np.float32))


def sentence_targets(distribution: Distribution) -> list[SentenceTargets]:
    """The soft targets of each sentence, of a distribution's parts and transitions that are not next to impossible."""
    tables = []
    for values in (dense_marginals(distribution), distribution.transition_counts):
        where = (values > LEAST_PROBABILITY).nonzero()
        rows = torch.cat((where[:, 1:].float(), values[tuple(where.T)].float()[:, None]), 1)
        ends = torch.bincount(where[:, 0], minlength=len(values)).cumsum(0)[:-1]
        tables.append(np.split(rows.cpu().numpy(), ends.cpu().numpy()))
    return list(map(SentenceTargets, *tables))


def mixed_with_gold(
    targets: Sequence[SentenceTargets], gold: Gold, mixture: Sequence[float], num_labels: int
) -> SoftTargets:
    """Mix the targets of a batch, each by its part in the mixture, with gold for the rest, for scores shaped as gold
    has it and a transition between so many labels."""
    shape = (*gold.shape[:2], gold.shape[2] if len(gold.shape) == 4 else 1, gold.shape[-1])
    shares, own = torch.tensor(mixture, dtype=torch.float32), gold.parts
    part, probability, sentence = _flat([one.parts for one in targets], shape, shares)
    pair, count, _ = _flat([one.pairs for one in targets], (len(targets), num_labels, num_labels), shares)
    counts = torch.zeros(len(targets), num_labels**2).index_put((own.pair_sentence, own.pair), torch.tensor(1.0), True)
    counts = ((1.0 - shares)[:, None] * counts).flatten().index_add(0, pair, count)
    return SoftTargets(
        torch.cat((part, own.part)),
        torch.cat((probability, 1.0 - shares[own.sentence])),
        torch.cat((sentence, own.sentence)),
        counts.view(-1, num_labels, num_labels),
    )


def _flat(tables: Sequence[np.ndarray], shape: Sequence[int], shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The positions of the rows of all sentences in a flattened tensor, their shares of the values, and sentences."""
    sentence = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    rows, index = np.concatenate(tables), sentence
    for size, column in zip(shape[1:], rows[:, :-1].T.astype(np.int64)):
        index = index * size + column
    at = torch.from_numpy(sentence)
    return torch.from_numpy(index), torch.from_numpy(rows[:, -1].copy()) * shares[at], at
