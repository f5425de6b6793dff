"""The suite that every distribution on every kernel passes: `check(distribution, oracle)`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from spansieve.crf import Distribution
from spansieve.crf.kernels import reference
from tests.oracle import Oracle

EPSILON = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}
# How many times what was measured rounding may take: drawn instances and other processors bring worse ones.
ROOM = {torch.float32: 12, torch.float64: 48}


def check(distribution: Distribution, oracle: Oracle, is_exact: bool) -> None:
    """`is_exact`: the scores are small whole numbers, so that sums have no rounding and ties are ties."""
    check_sums(distribution, oracle)
    check_best(distribution, oracle, is_exact)
    check_scores(distribution, oracle)


class Rounding(NamedTuple):
    """How far rounding may take the answers of a distribution, in absolute terms."""

    sums: float  # log Z, scores, log-probabilities
    shares: float  # marginals, expected counts
    entropy: float


def rounding(distribution: Distribution, oracle: Oracle) -> Rounding:
    """By the analysis of errors, with ROOM for how many are added up.

    A sum of floats is off by about ε times what was added up, and so is log Z. A probability is exp of a difference of
    such sums: its relative error is their absolute one, ε times the size, and it is at most 1. The compiled kernels add
    up in float64 whatever the scores are in, and round once. The entropy is log Z less marginals times scores.
    """
    dtype, size = distribution.scores.dtype, oracle.size
    epsilon, share = ROOM[dtype] * EPSILON[dtype], 2 * ROOM[torch.float64] * EPSILON[torch.float64]
    if distribution._kernel is reference:
        share = epsilon
    entropy = epsilon * size + ROOM[dtype] * EPSILON[torch.float64] * size**2
    return Rounding(2 * epsilon * size, epsilon + share * size, 2 * entropy)


def close(actual: torch.Tensor, expected: np.ndarray, tolerance: float) -> None:
    """Within an absolute tolerance; infinities must be the same."""
    found = actual.detach().cpu().numpy().astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance)


def check_sums(distribution: Distribution, oracle: Oracle) -> None:
    within = rounding(distribution, oracle)
    close(distribution.log_partition, oracle.log_partition, within.sums)
    close(distribution.marginals, oracle.marginals, within.shares)
    close(distribution.transition_counts, oracle.transition_counts, within.shares)
    close(distribution.entropy(), oracle.entropy(), within.entropy)


def check_best(distribution: Distribution, oracle: Oracle, is_exact: bool) -> None:
    tolerance = rounding(distribution, oracle).sums
    close(distribution.max_score, oracle.max_score, tolerance)
    if np.isinf(oracle.max_score).any():
        return
    mode, first = distribution.mode, [ranked[0][0] for ranked in distribution.top_k(1)]
    for b in range(len(mode)):
        for best in (mode[b], first[b]):  # which may round otherwise where two are level
            (score,) = [score for score, one in oracle.scored[b] if one.structure == best]
            assert abs(score - oracle.max_score[b]) <= 2 * tolerance  # it and its rival
        if is_exact:
            assert mode[b] == first[b] == oracle.mode(b)


def check_scores(distribution: Distribution, oracle: Oracle) -> None:
    tolerance = rounding(distribution, oracle).sums
    for rank in range(3):
        possible = [oracle.possible(b) for b in range(len(oracle.scored))]
        if not all(possible):
            return
        chosen = [sentence[rank * 7919 % len(sentence)] for sentence in possible]
        structures = [one.structure for _, one in chosen]
        expected = np.array([score for score, _ in chosen])
        close(distribution.score(structures), expected, tolerance)
        close(distribution.log_prob(structures), expected - oracle.log_partition, tolerance)
        assert (distribution.log_prob(structures) <= tolerance).all()


def check_top_k(distribution: Distribution, oracle: Oracle, k: int) -> None:
    tolerance = rounding(distribution, oracle).sums
    for b, ranked in enumerate(distribution.top_k(k)):
        best = np.array(oracle.top_scores(b, k))
        structures = [structure for structure, _ in ranked]
        close(torch.tensor([score for _, score in ranked], dtype=distribution.scores.dtype), best, tolerance)
        assert len({str(s) for s in structures}) == len(structures)
        known = {str(one.structure): score for score, one in oracle.scored[b]}
        close(torch.tensor([known[str(s)] for s in structures], dtype=torch.float64), best, 2 * tolerance)


def check_samples(distribution: Distribution, oracle: Oracle, n: int = 2000) -> None:
    """Frequencies within five standard errors of the exact probabilities, and nothing impossible."""
    generator = torch.Generator().manual_seed(7)
    for b, drawn in enumerate(distribution.sample(n, generator)):
        assert len(drawn) == n
        seen = [str(structure) for structure in drawn]
        probability = {str(one.structure): p for p, one in oracle.probabilities(b)}
        assert set(seen) <= set(probability)
        for structure, p in probability.items():
            assert abs(seen.count(structure) / n - p) <= 5 * (p * (1 - p) / n) ** 0.5 + 1e-3


def check_gradients(distribution: Distribution) -> None:
    """The gradient of log Z is the marginals, and nothing is NaN, for log Z and for the entropy."""
    inputs = (distribution.scores, distribution.transition)
    to_scores, to_transition = torch.autograd.grad(distribution.log_partition.sum(), inputs, retain_graph=True)
    torch.testing.assert_close(to_scores, distribution.marginals.detach())
    torch.testing.assert_close(to_transition, distribution.transition_counts.detach().sum(0))
    if distribution.num_sentences:
        for gradient in torch.autograd.grad(distribution.entropy().sum(), inputs):
            assert gradient.isfinite().all()
