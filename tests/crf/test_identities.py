"""What must be equal, between models and within one, whatever the scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.testing import assert_close

from spansieve.crf import Candidates, FilteredSemiMarkov, LinearChain, NestedSegments, SemiMarkov
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from tests.batches import Batch, random_batch
from tests.contract import EPSILON, ROOM
from tests.distributions import MODELS, pair, some_instance
from tests.instances import instances

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
TRAINING_BATCHES = 300


def near(actual: torch.Tensor, expected: torch.Tensor, size: float = 1.0) -> None:
    """Equal to some roundings of the size of what was added up: to 4e-14 of it in float64, to 6e-6 in float32."""
    assert_close(actual, expected, rtol=0.0, atol=4 * ROOM[actual.dtype] * EPSILON[actual.dtype] * max(1.0, size))


# ---- Width 1 makes the semi-Markov model a linear chain --------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@given(drawn=instances())
@settings(max_examples=40, deadline=None)
def test_width_one_makes_the_semi_markov_model_a_linear_chain(kernel, drawn):
    scores, transition = drawn.tensor(drawn.scores[:, :, 0]), drawn.tensor(drawn.transition)
    chain = LinearChain(scores, transition, drawn.lengths, kernel=kernel)
    semi = SemiMarkov(scores[:, :, None], transition, drawn.lengths, kernel=kernel)
    finite = [array[np.isfinite(array)] for array in (drawn.scores, drawn.transition)]
    size = max(float(np.abs(array).max(initial=1.0)) for array in finite)
    near(semi.log_partition, chain.log_partition, size)
    near(semi.marginals[:, :, 0], chain.marginals, size)
    near(semi.transition_counts, chain.transition_counts, size)
    near(semi.entropy(), chain.entropy(), size * size)  # marginals that are so near, times the scores
    assert semi.max_score.equal(chain.max_score)
    if (chain.max_score > -torch.inf).all():
        assert [[s.label for s in segments] for segments in semi.mode] == chain.mode
        assert all(s.width == 1 for segments in semi.mode for s in segments)
    for ours, theirs in zip(semi.top_k(4), chain.top_k(4)):
        assert [score for _, score in ours] == [score for _, score in theirs]


# ---- Keeping every span makes the filtered model semi-Markov ---------------------------------------------------------


def everything_kept(batch: Batch) -> tuple[FilteredSemiMarkov, SemiMarkov]:
    """The filtered model of all segments that are not null, and the semi-Markov model that has no null ones.

    One token is always a candidate, so nothing maximal leaves a token free: the paths are the covers.
    """
    _, scores, transition = batch.tensors(torch.float64)
    max_width, num_labels = scores.shape[2:]
    spans = [[(i, j) for i in range(n) for j in range(i + 1, min(i + max_width, n) + 1)] for n in batch.lengths]
    lists = [[(i, j, y) for i, j in sentence for y in range(1, num_labels)] for sentence in spans]
    candidates = Candidates.from_lists(lists, batch.lengths)
    flat = scores[candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label]
    without_null = scores.clone()
    without_null[..., 0] = -torch.inf
    return FilteredSemiMarkov(candidates, flat, transition), SemiMarkov(without_null, transition, batch.lengths)


@pytest.mark.parametrize("seed", range(40))
def test_keeping_every_span_makes_the_filtered_model_semi_markov(seed):
    filtered, semi = everything_kept(random_batch(seed))
    near(filtered.log_partition, semi.log_partition, 10.0)
    near(filtered.transition_counts, semi.transition_counts, 10.0)
    near(filtered.entropy(), semi.entropy(), 10.0)
    c = filtered.candidates
    near(filtered.marginals, semi.marginals[c.sentence, c.start, c.end - c.start - 1, c.label], 10.0)
    near(filtered.max_score, semi.max_score)
    assert filtered.mode == semi.mode


@pytest.mark.parametrize("seed", range(40))
def test_keeping_every_span_breaks_ties_alike(seed):
    filtered, semi = everything_kept(random_batch(seed, whole_numbers=True))
    assert filtered.max_score.equal(semi.max_score)
    assert filtered.mode == semi.mode


# ---- A padded batch equals each sentence alone -----------------------------------------------------------------------


def one_of(name: str, local_scores, scores, transition, lengths, kernel):
    if name == "linear_chain":
        return LinearChain(scores[:, :, 0], transition, lengths, kernel=kernel)
    if name in ("semi_markov", "unit_null"):
        return SemiMarkov(scores, transition, lengths, name == "unit_null", kernel=kernel)
    if name == "nested":
        return NestedSegments.from_scores(local_scores, scores, transition, lengths, kernel=kernel)
    skip = name == "filtered_skip"
    return FilteredSemiMarkov.from_scores(local_scores, scores, transition, lengths, skip=skip, kernel=kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(5))
def test_a_padded_batch_equals_each_sentence_alone(model, kernel, seed):
    local_scores, scores, transition = random_batch(seed, lengths=(5, 0, 7, 1, 3)).tensors(torch.float64)
    lengths = [5, 0, 7, 1, 3]
    together = one_of(model, local_scores, scores, transition, lengths, kernel)
    for b, n in enumerate(lengths):
        alone = one_of(model, local_scores[b : b + 1, :n], scores[b : b + 1, :n], transition, [n], kernel)
        assert together.mode[b] == alone.mode[0]
        assert together.max_score[b] == alone.max_score[0]
        near(together.log_partition[b], alone.log_partition[0], 10.0)
        near(together.marginals[b, :n], alone.marginals[0])
        near(together.transition_counts[b], alone.transition_counts[0])
        assert not together.marginals[b, n:].any()


@pytest.mark.parametrize("model", MODELS)
def test_what_the_padding_holds_does_not_count(model):
    local_scores, scores, transition = random_batch(3, lengths=(6, 2)).tensors(torch.float64)
    clean = one_of(model, local_scores, scores, transition, [6, 2], None)
    for tensor in (local_scores, scores):
        tensor[1, 2:] = 1e3
        tensor[1, 1, 1:] = 1e3  # begins in the sentence, ends beyond it
    soiled = one_of(model, local_scores, scores, transition, [6, 2], None)
    assert soiled.mode == clean.mode
    assert soiled.max_score.equal(clean.max_score)
    assert soiled.log_partition.equal(clean.log_partition)
    assert soiled.marginals.equal(clean.marginals)


# ---- Within one distribution -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("model", MODELS)
def test_the_best_of_the_k_best_is_the_mode(model, dtype):
    for seed in range(8):
        distribution, _ = pair(model, some_instance(seed, dtype), None)
        best = [ranked[0] for ranked in distribution.top_k(1)]
        assert [structure for structure, _ in best] == distribution.mode
        near(torch.tensor([score for _, score in best], dtype=dtype), distribution.max_score)
        near(distribution.score(distribution.mode), distribution.max_score, 10.0)


@pytest.mark.parametrize("model", MODELS)
def test_the_probabilities_of_all_structures_sum_to_one(model):
    """Each one listed by the oracle; `log_prob` is asked for all sentences at once, each at its own."""
    distribution, oracle = pair(model, some_instance(5), None)
    listed = [[one.structure for _, one in oracle.possible(b)] for b in range(distribution.num_sentences)]
    total = torch.zeros(distribution.num_sentences, dtype=torch.float64)
    for rank in range(max(map(len, listed))):
        chosen = [structures[rank % len(structures)] for structures in listed]
        is_new = torch.tensor([rank < len(structures) for structures in listed])
        total += torch.where(is_new, distribution.log_prob(chosen).exp(), 0.0)
    near(total, torch.ones_like(total), 10.0)


def coverage(marginals: torch.Tensor) -> torch.Tensor:
    """P(token i is in a segment), (B, L), from the marginals (B, L, K, Y)."""
    _, num_tokens, max_width, _ = marginals.shape
    result = marginals.new_zeros(marginals.shape[:2])
    for width in range(1, max_width + 1):
        for ahead in range(min(width, num_tokens)):
            result[:, ahead:] += marginals[:, : num_tokens - ahead, width - 1].sum(-1)
    return result


@pytest.mark.parametrize("seed", range(10))
def test_marginals_of_a_token_sum_to_one(seed):
    batch = random_batch(seed)
    _, scores, transition = batch.tensors(torch.float64)
    is_token = torch.arange(scores.shape[1]) < torch.tensor(batch.lengths)[:, None]
    near(LinearChain(scores[:, :, 0], transition, batch.lengths).marginals.sum(-1), is_token.double(), 10.0)
    near(coverage(SemiMarkov(scores, transition, batch.lengths).marginals), is_token.double(), 10.0)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_at_most_one_of_the_candidates_that_overlap_pairwise(seed, skip):
    """Spans that overlap pairwise share a token, so it is enough to look at each token."""
    batch = random_batch(seed)
    filtered = FilteredSemiMarkov.from_scores(*batch.tensors(torch.float64), batch.lengths, skip=skip)
    assert (coverage(filtered.marginals) <= 1 + 1e-12).all()
    assert (filtered.marginals >= 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_there_is_one_transition_fewer_than_segments(seed, skip, kernel):
    """E[segments] - E[transitions] = P(there is a segment): certain where there is a candidate, unless skipped."""
    batch = random_batch(seed)
    filtered = FilteredSemiMarkov.from_scores(*batch.tensors(torch.float64), batch.lengths, skip=skip, kernel=kernel)
    fewer = filtered.marginals.flatten(1).sum(1) - filtered.transition_counts.flatten(1).sum(1)
    is_certain = (filtered.candidates.num_nodes > 0).double()
    near(fewer, 1 - (-filtered.log_partition).exp() if skip else is_certain, 10.0)


# ---- The loss --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_the_loss_is_never_negative(spread, skip, dtype):
    """log Z >= score(gold), to rounding, and its gradient is finite, over hundreds of training batches."""
    for seed in range(TRAINING_BATCHES):
        batch = random_batch(seed)
        local_scores, scores, transition = batch.tensors(dtype, requires_grad=True)
        arguments = (local_scores, spread * scores, spread * transition, batch.lengths, batch.gold, skip)
        filtered = FilteredSemiMarkov.from_scores(*arguments)
        loss = -filtered.log_prob(batch.gold)
        rounding = (1e-12 if dtype is torch.float64 else 1e-5) * (1.0 + filtered.log_partition.abs())
        assert (loss >= -rounding).all()
        loss.sum().backward()
        assert scores.grad.isfinite().all()
        assert transition.grad.isfinite().all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_gold_segments_the_loss_is_zero(kernel):
    for seed in range(20):
        batch = random_batch(seed)
        local_scores, scores, transition = batch.tensors(torch.float64)
        none = [[] for _ in batch.lengths]
        filtered = FilteredSemiMarkov.from_scores(local_scores, scores, transition, batch.lengths, none, kernel=kernel)
        assert not filtered.log_prob(none).any()
        mixed = [golden if b % 2 else [] for b, golden in enumerate(batch.gold)]
        filtered = FilteredSemiMarkov.from_scores(local_scores, scores, transition, batch.lengths, mixed, kernel=kernel)
        assert not filtered.log_prob(mixed)[::2].any()


# ---- Ways to the same distribution -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_from_scores_is_to_filter_and_then_to_score(dtype, skip, requires_grad, kernel):
    for seed in range(15):
        batch = random_batch(seed, whole_numbers=seed % 2 == 1)
        local_scores, scores, transition = batch.tensors(dtype, requires_grad)
        dense = FilteredSemiMarkov.from_scores(local_scores, scores, transition, batch.lengths, None, skip)
        c = Candidates.from_local_scores(local_scores, batch.lengths)
        flat = scores[c.sentence, c.start, c.end - c.start - 1, c.label]
        two_steps = FilteredSemiMarkov(c, flat, transition, skip, kernel=kernel)
        assert dense.candidates.segments() == c.segments()
        assert dense.mode == two_steps.mode
        assert dense.max_score.equal(two_steps.max_score)
        near(dense.log_partition, two_steps.log_partition, 10.0)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("model", MODELS)
def test_half_precision_is_computed_in_float32(model, half):
    batch = random_batch(11, lengths=(5, 0, 3), max_width=3)
    rounded = batch.tensors(half)
    ours = one_of(model, *rounded, batch.lengths, None)
    expected = one_of(model, *(x.float() for x in rounded), batch.lengths, None)
    assert ours.log_partition.dtype is torch.float32
    assert ours.log_partition.equal(expected.log_partition)
    assert ours.marginals.equal(expected.marginals)
    assert ours.entropy().equal(expected.entropy())
    assert ours.max_score.equal(expected.max_score)
    assert ours.mode == expected.mode


def test_a_transition_may_come_in_another_precision():
    batch = random_batch(4)
    _, scores, transition = batch.tensors(torch.float32)
    ours = SemiMarkov(scores, transition.double(), batch.lengths)
    assert ours.log_partition.equal(SemiMarkov(scores, transition, batch.lengths).log_partition)
