"""The suite that every distribution on every kernel passes: `check(distribution, oracle)`."""

from __future__ import annotations

import numpy as np
import torch

from spansieve.crf import Distribution
from tests.oracle import Oracle

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}


def check(distribution: Distribution, oracle: Oracle, is_exact: bool) -> None:
    """`is_exact`: the scores are small whole numbers, so that sums have no rounding and ties are ties."""
    check_sums(distribution, oracle)
    check_best(distribution, oracle, is_exact)
    check_scores(distribution, oracle)


def close(actual: torch.Tensor, expected: np.ndarray, scale: float) -> None:
    """Within a tolerance relative to the size of what was added up; infinities must be the same."""
    actual = actual.detach().cpu()
    tolerance = TOLERANCE[actual.dtype] * max(1.0, scale)
    np.testing.assert_allclose(actual.numpy().astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def size_of(oracle: Oracle) -> float:
    """The largest finite score: float32 keeps seven digits of it."""
    finite = [x[np.isfinite(x)] for x in (oracle.scores, oracle.transition)]
    return max(float(np.abs(x).max(initial=0.0)) for x in finite)


def check_sums(distribution: Distribution, oracle: Oracle) -> None:
    size = size_of(oracle)
    close(distribution.log_partition, oracle.log_partition, size)
    close(distribution.marginals, oracle.marginals, size)
    close(distribution.transition_counts, oracle.transition_counts, size)
    close(distribution.entropy(), oracle.entropy(), size)


def check_best(distribution: Distribution, oracle: Oracle, is_exact: bool) -> None:
    close(distribution.max_score, oracle.max_score, size_of(oracle))
    if np.isinf(oracle.max_score).any():
        return
    mode, first = distribution.mode, [ranked[0][0] for ranked in distribution.top_k(1)]
    tolerance = TOLERANCE[distribution.scores.dtype] * max(1.0, size_of(oracle))
    for b in range(len(mode)):
        for best in (mode[b], first[b]):  # which may round otherwise where two are level
            (score,) = [score for score, one in oracle.scored[b] if one.structure == best]
            assert abs(score - oracle.max_score[b]) <= tolerance
        if is_exact:
            assert mode[b] == first[b] == oracle.mode(b)


def check_scores(distribution: Distribution, oracle: Oracle) -> None:
    size = size_of(oracle)
    for rank in range(3):
        possible = [oracle.possible(b) for b in range(len(oracle.scored))]
        if not all(possible):
            return
        chosen = [sentence[rank * 7919 % len(sentence)] for sentence in possible]
        structures = [one.structure for _, one in chosen]
        expected = np.array([score for score, _ in chosen])
        close(distribution.score(structures), expected, size)
        close(distribution.log_prob(structures), expected - oracle.log_partition, size)
        assert (distribution.log_prob(structures) <= TOLERANCE[distribution.scores.dtype] * max(1.0, size)).all()


def check_top_k(distribution: Distribution, oracle: Oracle, k: int) -> None:
    size = size_of(oracle)
    for b, ranked in enumerate(distribution.top_k(k)):
        best = np.array(oracle.top_scores(b, k))
        structures = [structure for structure, _ in ranked]
        close(torch.tensor([score for _, score in ranked], dtype=distribution.scores.dtype), best, size)
        assert len({str(s) for s in structures}) == len(structures)
        known = {str(one.structure): score for score, one in oracle.scored[b]}
        close(torch.tensor([known[str(s)] for s in structures], dtype=distribution.scores.dtype), best, size)


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
