"""Gold made ready ahead is gold: the same score, the same loss, the same gradient as from lists."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from spansieve import Segment
from spansieve.crf import FilteredSemiMarkov, Gold, LinearChain, SemiMarkov
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from tests.batches import Batch, random_batch

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
MODELS = ["linear_chain", "semi_markov", "filtered", "filtered_skip"]


def made(model: str, batch: Batch, inputs, gold, kernel=None):
    local_scores, scores, transition = inputs
    if model == "linear_chain":
        return LinearChain(scores[:, :, 0], transition, batch.lengths, kernel=kernel)
    if model == "semi_markov":
        return SemiMarkov(scores, transition, batch.lengths, kernel=kernel)
    skip = model == "filtered_skip"
    return FilteredSemiMarkov.from_scores(local_scores, scores, transition, batch.lengths, gold, skip, kernel=kernel)


def gold_of(model: str, batch: Batch) -> list:
    """As lists: tags, segments that cover the sentence, or entities alone."""
    if model == "linear_chain":
        random = np.random.default_rng(0)
        return [random.integers(0, len(batch.transition), length).tolist() for length in batch.lengths]
    return [covering(g, n) for g, n in zip(batch.gold, batch.lengths)] if model == "semi_markov" else batch.gold


def covering(gold: list[Segment], length: int) -> list[Segment]:
    covered = {token for segment in gold for token in range(segment.start, segment.end)}
    return sorted([*gold, *(Segment(i, i + 1, 0) for i in range(length) if i not in covered)])


def ready(model: str, batch: Batch, lists: list) -> Gold:
    num_sentences, num_tokens, _, num_labels = batch.scores.shape
    if model == "linear_chain":
        return Gold.from_tags(lists, (num_sentences, num_tokens, num_labels))
    return Gold.from_segments(lists, batch.scores.shape, batch.lengths)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
def test_ready_gold_equals_lists(model, kernel):
    for seed in range(10):
        batch = random_batch(seed)
        lists = gold_of(model, batch)
        found = []
        for gold in (lists, ready(model, batch, lists)):
            inputs = batch.tensors(torch.float64, requires_grad=True)
            distribution = made(model, batch, inputs, gold, kernel)
            loss = -distribution.log_prob(gold)
            gradients = torch.autograd.grad(loss.sum(), inputs[1:], allow_unused=True)
            found.append((loss, distribution.score(gold), *gradients))
        for ours, theirs in zip(*found):
            assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
def test_the_loss_in_one_step_is_the_score_less_log_z(model, kernel):
    """Value and gradient, with a weight of its own for each sentence."""
    for seed in range(10):
        batch = random_batch(seed)
        gold = gold_of(model, batch)
        weight = torch.linspace(-1.0, 2.0, len(batch.lengths), dtype=torch.float64)
        found = []
        for in_one in (True, False):
            inputs = batch.tensors(torch.float64, requires_grad=True)
            distribution = made(model, batch, inputs, gold, kernel)
            value = distribution.log_prob(gold) if in_one else distribution.score(gold) - distribution.log_partition
            found.append((value, *torch.autograd.grad((weight * value).sum(), inputs[1:], allow_unused=True)))
        for ours, theirs in zip(*found):
            assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
def test_derivatives_of_the_loss(model, kernel):
    """First and second, against finite differences."""
    batch = random_batch(1, lengths=(3, 0, 2), max_width=2, num_labels=3)
    gold = gold_of(model, batch)
    local_scores, *inputs = batch.tensors(torch.float64, requires_grad=True)

    def loss(scores, transition):
        return -made(model, batch, (local_scores, scores, transition), gold, kernel).log_prob(gold)

    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


@pytest.mark.parametrize("model", MODELS)
def test_ready_gold_travels(model):
    """To another process, as from a data loader's worker, and to a device."""
    batch = random_batch(2, lengths=(5, 0, 3))
    lists = gold_of(model, batch)
    sent = pickle.loads(pickle.dumps(ready(model, batch, lists))).to("cpu")
    assert len(sent) == 3
    inputs = batch.tensors(torch.float64)
    from_sent, from_lists = (made(model, batch, inputs, gold).log_prob(gold) for gold in (sent, lists))
    assert from_sent.equal(from_lists)


def test_gold_for_other_scores():
    batch = random_batch(0, lengths=(4, 2), max_width=2, num_labels=3)
    inputs = batch.tensors(torch.float64)
    of_tags = Gold.from_tags([[0] * 4, [0] * 2], (2, 4, 3))
    of_segments = Gold.from_segments([[], []], (2, 4, 3, 3))
    with pytest.raises(ValueError, match=r"gold must be made for scores of shape \(2, 4, 2, 3\), got \(2, 4, 3\)"):
        made("semi_markov", batch, inputs, None).log_prob(of_tags)
    with pytest.raises(ValueError, match=r"gold must be made for scores of shape \(2, 4, 3\), got \(2, 4, 3, 3\)"):
        made("linear_chain", batch, inputs, None).log_prob(of_segments)
    with pytest.raises(ValueError, match=r"gold must be made of segments for scores of shape \(2, 4, 2, 3\)"):
        made("filtered", batch, inputs, of_tags)
    with pytest.raises(ValueError, match=r"gold must be made of segments for scores of shape \(2, 4, 2, 3\)"):
        made("filtered", batch, inputs, of_segments)
    with pytest.raises(ValueError, match="structures must be one per sentence, 2, got 1"):
        made("linear_chain", batch, inputs, None).log_prob(Gold.from_tags([[0]], (1, 4, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gold.from_tags([[0]], (2, 4, 3)), "gold must be one sequence of tags per sentence, 2, got 1"),
        (lambda: Gold.from_tags([[3]], (1, 4, 3)), "tag 3 at token 0 of sentence 0: the tag must lie between 0 and 2"),
        (lambda: Gold.from_tags([[0] * 5], (1, 4, 3)), "the token must lie between 0 and 3"),
        (
            lambda: Gold.from_segments([[]], (2, 4, 2, 3)),
            "gold must be one sequence of segments per sentence",
        ),
        (lambda: Gold.from_segments([[(3, 5, 1)]], (1, 4, 2, 3)), "must lie within its 4 tokens"),
        (lambda: Gold.from_segments([[(1, 3, 1)]], (1, 4, 2, 3), [2]), "must lie within its 2 tokens"),
        (lambda: Gold.from_segments([[(0, 3, 1)]], (1, 4, 2, 3)), "is 3 wide, but the widest scored is 2"),
    ],
)
def test_gold_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
