"""The filtering loss against a sum over spans, both losses in one call, and what a filter does not learn without."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from spansieve.crf import FilteredSemiMarkov, Gold, filtered_losses, filtering_loss
from spansieve.crf.losses import IGNORED
from tests import oracle
from tests.batches import Batch, random_batch
from tests.crf.small import raises, span_scores


def by_definition(batch: Batch, beta: float) -> list[float]:
    """Span by span: -log P(gold label) by a softmax over the labels, times β where that is null."""
    totals = []
    for b, (length, gold) in enumerate(zip(batch.lengths, batch.gold)):
        label_of = {(s.start, s.end): s.label for s in gold}
        total = 0.0
        for start, end in itertools.combinations(range(length + 1), 2):
            if end - start <= batch.local_scores.shape[2]:
                scores = batch.local_scores[b, start, end - start - 1].tolist()
                label = label_of.get((start, end), 0)
                total += (1.0 if label else beta) * (oracle.log_sum(scores) - scores[label])
        totals.append(total)
    return totals


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_the_filtering_loss_equals_its_definition(beta):
    for seed in range(20):
        batch = random_batch(seed)
        local_scores = torch.tensor(batch.local_scores)
        ready = Gold.from_segments(batch.gold, local_scores.shape, batch.lengths)
        for gold in (batch.gold, [[tuple(s) for s in segments] for segments in batch.gold], ready):
            found = filtering_loss(local_scores, gold, batch.lengths, beta)
            torch.testing.assert_close(found, torch.tensor(by_definition(batch, beta), dtype=torch.float64))


@pytest.mark.parametrize("skip", [False, True])
def test_both_losses_are_those_of_their_definitions(skip):
    for seed in range(20):
        batch = random_batch(seed)
        inputs = batch.tensors(torch.float64)
        losses = filtered_losses(*inputs, batch.lengths, batch.gold, skip=skip, beta=0.5)
        expected = torch.tensor(by_definition(batch, 0.5), dtype=torch.float64)
        torch.testing.assert_close(losses.filtering, expected)
        torch.testing.assert_close(losses.segmentation, torch.tensor(surprise(batch, skip), dtype=torch.float64))
        torch.testing.assert_close(sum(losses), losses.filtering + losses.segmentation)


def surprise(batch: Batch, skip: bool) -> list[float]:
    """-log P(gold) by enumeration of all paths through what both training rules keep."""
    kept = oracle.kept_for_training(batch.local_scores, batch.lengths, batch.gold, skip)
    flat = [
        batch.scores[b, s.start, s.width - 1, s.label]
        for b, nodes in enumerate(kept)
        for s in sorted(nodes, key=lambda s: (s.end, s.start, s.label))
    ]
    listed = oracle.filtered(kept, torch.tensor(flat).numpy(), batch.transition, skip)
    return [
        -math.log(sum(p for p, one in listed.probabilities(b) if one.structure == tuple(sorted(gold))))
        for b, gold in enumerate(batch.gold)
    ]


def test_the_local_scores_learn_by_the_filtering_loss_alone():
    """Without it nothing reaches them: a network learned 0.1 F1."""
    torch.manual_seed(0)
    local_scores, global_scores = torch.randn(2, 2, 6, 3, 4).requires_grad_().unbind()
    transition, gold, lengths = torch.zeros(4, 4), [[(0, 2, 1), (4, 6, 2)], [(1, 2, 3)]], [6, 4]
    losses = filtered_losses(local_scores, global_scores, transition, lengths, gold)
    to_local, to_global = torch.autograd.grad(sum(losses).sum(), (local_scores, global_scores))
    end = torch.arange(6)[:, None] + torch.arange(1, 4)
    is_span = end <= torch.tensor(lengths)[:, None, None]
    assert (to_local[is_span] != 0).all()
    assert (to_local[~is_span] == 0).all()
    assert to_global.any()
    paths = FilteredSemiMarkov.from_scores(local_scores, global_scores, transition, lengths, gold)
    assert torch.autograd.grad(paths.log_prob(gold).sum(), local_scores, allow_unused=True) == (None,)


def test_half_precision_is_computed_in_single():
    scores = torch.randn(2, 4, 2, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    losses = filtered_losses(scores, scores, torch.zeros(3, 3), [4, 2], [[(0, 1, 1)], []])
    assert [loss.dtype for loss in losses] == [torch.float32, torch.float32]


@pytest.mark.parametrize(
    ("gold", "lengths", "message"),
    [
        ([[(0, 3, 1)], []], [4, 2], "segment (0, 3, 1) of sentence 0 is 3 wide, but the widest scored is 2"),
        ([[], [(1, 3, 1)]], [4, 2], "segment (1, 3, 1) of sentence 1 must lie within its 2 tokens and not be empty"),
        ([[(0, 1, 0)], []], [4, 2], "as 0 is null"),
        ([[]], [4, 2], "gold must be one sequence of segments per sentence, 2, got 1"),
        (
            Gold.from_tags([[0], [0]], (2, 4, 3)),
            [4, 2],
            "gold must be made of segments for scores of shape (2, 4, 2, 3)",
        ),
        ([[], []], [5, 2], "lengths must lie between 0 and 4, the number of tokens, got 5"),
    ],
)
def test_what_cannot_be_learned_is_said(gold, lengths, message):
    scores = span_scores()
    with raises(message):
        filtering_loss(scores, gold, lengths)
    with raises(message):
        filtered_losses(scores, scores, torch.zeros(3, 3), lengths, gold)


# ---- The pass for a GPU: there where there is one, else in Triton's interpreter -------------------------------------

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (3, 40, 4, 5), (1, 1, 1, 1), (0, 3, 2, 4)])
def test_cross_entropy_on_a_gpu_and_its_gradient(beta, shape):
    kernel = pytest.importorskip(
        "spansieve.crf.kernels.cuda.cross_entropy", reason="needs Triton", exc_type=ImportError
    )
    torch.manual_seed(0)
    scores = torch.randn(shape, device=DEVICE, requires_grad=True)
    labels = torch.randint(-1, shape[-1], shape[:3], device=DEVICE)
    labels[labels < 0] = IGNORED
    weight = torch.tensor([beta] + [1.0] * (shape[-1] - 1), device=DEVICE)
    right = nn.functional.cross_entropy(
        scores.flatten(0, 2), labels.flatten(), weight, ignore_index=IGNORED, reduction="none"
    )
    right = right.view(labels.shape).sum((1, 2))
    found = kernel.SpanCrossEntropy.apply(scores, labels, beta)
    torch.testing.assert_close(found, right)
    upstream = torch.linspace(-1, 2, shape[0], device=DEVICE)
    for one, other in zip(*(torch.autograd.grad(x, scores, upstream) for x in (found, right))):
        torch.testing.assert_close(one, other)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_a_gpu_gives_what_the_cpu_gives():
    for seed in range(5):
        batch = random_batch(seed)
        on_cpu = filtered_losses(*batch.tensors(torch.float32), batch.lengths, batch.gold, beta=0.5)
        inputs = [tensor.to(DEVICE) for tensor in batch.tensors(torch.float32)]
        ready = Gold.from_segments(batch.gold, inputs[0].shape, batch.lengths, DEVICE)
        for gold in (batch.gold, ready):
            for found, right in zip(filtered_losses(*inputs, batch.lengths, gold, beta=0.5), on_cpu):
                torch.testing.assert_close(found.cpu(), right, rtol=1e-4, atol=1e-4)
