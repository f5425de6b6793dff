"""Learning from gold that is known in part: every head's loss against enumeration of all that agrees with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spansieve import Segment
from spansieve.crf.losses import IGNORED
from spansieve.data.example import Example, joined_ranges
from spansieve.models.semi_crf import SemiCRF
from tests import oracle
from tests.models.test_heads import CASES, LENGTHS, drawn
from tests.nn.heads import entities_by_definition, head_of, oracle_of
from tests.prediction.trained import trained

SUMMED = [case for case in CASES if not case[0].endswith("filter-only")]
UNFILTERED = ("crf", "semicrf", "semicrf-unit-null")
every_case = pytest.mark.parametrize(
    ("name", "settings"), SUMMED, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1]
)
ALL_UNKNOWN = [((0, length),) if length else () for length in LENGTHS]


def some_unknown(seed: int) -> list[tuple[tuple[int, int], ...]]:
    random = np.random.default_rng(seed)
    tokens = [[i for i in range(length) if random.random() < 0.6] for length in LENGTHS]
    return [joined_ranges([(i, i + 1) for i in some], length) for some, length in zip(tokens, LENGTHS)]


def agrees(head, structure, golden: list[Segment], ranges) -> bool:
    """Every known segment, and no other but where nothing is known. Of segmentations that mean the same, that which
    gold has: null one token wide."""
    found = entities_by_definition(head, structure)
    if isinstance(head, SemiCRF) and any(s.width > 1 and not s.label for s in structure):
        return False
    return set(golden) <= set(found) and all(s in golden or oracle.is_unknown(s, ranges) for s in found)


def loss_of(head, vectors, lengths, gold, unknown):
    losses = head.losses(vectors, lengths, head.gold(gold, LENGTHS, unknown))
    return losses.get("segmentation", losses.get("sequence"))


@every_case
@pytest.mark.parametrize("seed", range(6))
def test_the_loss_sums_over_all_that_agrees(name, settings, seed):
    head, vectors, lengths, gold = drawn(name, settings, seed)
    unknown = ALL_UNKNOWN if seed == 5 else some_unknown(seed)
    loss = loss_of(head, vectors, lengths, gold, unknown).detach()
    listed = oracle_of(head, vectors, LENGTHS, gold, unknown)
    for b, (golden, ranges) in enumerate(zip(gold, unknown)):
        agreeing = [score for score, one in listed.possible(b) if agrees(head, one.structure, golden, ranges)]
        assert agreeing
        expected = listed.log_partition[b] - oracle.log_sum(agreeing)
        assert math.isclose(float(loss[b]), expected, rel_tol=1e-4, abs_tol=2e-4)


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_where_all_is_known_it_is_the_ordinary_loss(name, settings, seed):
    head, vectors, lengths, gold = drawn(name, settings, seed)
    ordinary = loss_of(head, vectors, lengths, gold, None)
    torch.testing.assert_close(
        loss_of(head, vectors, lengths, gold, [()] * len(LENGTHS)), ordinary, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("name", "settings"), [case for case in SUMMED if "skip" in case[1] or case[0] in UNFILTERED])
def test_the_more_is_known_the_less_probable_it_is(name, settings):
    """Not of paths that are maximal: what the filter leaves in their graph depends on what is known."""
    head, vectors, lengths, gold = drawn(name, settings, 2)
    losses = [loss_of(head, vectors, lengths, gold, unknown) for unknown in (ALL_UNKNOWN, some_unknown(1), None)]
    assert (losses[0] <= losses[1] + 1e-4).all()
    assert (losses[1] <= losses[2] + 1e-4).all()
    assert (losses[0] < losses[2] - 1e-3).any()


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_of_what_is_all_unknown_nothing_is_learned(scheme):
    head, vectors, lengths, _ = drawn("crf", {"scheme": scheme}, 1)
    loss = loss_of(head, vectors, lengths, [[] for _ in LENGTHS], ALL_UNKNOWN)
    torch.testing.assert_close(loss, torch.zeros(len(LENGTHS)), rtol=0, atol=1e-5)


@every_case
def test_gradients_are_finite_and_reach_every_weight(name, settings):
    head, vectors, lengths, gold = drawn(name, settings, 3)
    losses = head.losses(vectors.requires_grad_(), lengths, head.gold(gold, LENGTHS, some_unknown(3)))
    sum(loss.sum() for loss in losses.values()).backward()
    for parameter in (vectors, *head.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


# ---- The filter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fsemicrf", "filter-only", "global-selection"])
def test_the_filter_learns_from_spans_of_which_something_is_known(name):
    head = head_of(name)
    labels = head.gold([[Segment(1, 2, 2)]], [5], [((0, 4),)]).labels()[0]
    free = {(0, 1), (2, 3), (2, 4), (3, 4)}
    for start in range(5):
        for width in range(1, min(3, 5 - start) + 1):
            span = start, start + width
            expected = 2 if span == (1, 2) else IGNORED if span in free else 0
            assert labels[start, width - 1] == expected, span


def test_of_nested_gold_what_lies_around_it_is_unknown_too():
    labels = head_of("nested-filter-only").gold([[Segment(1, 2, 2)]], [4], [((0, 3),)]).labels()[0]
    assert labels[1, 0] == 2
    assert labels[0, 2] == labels[0, 1] == labels[0, 0] == IGNORED
    assert labels[1, 2] == labels[3, 0] == 0


# ---- A whole model ---------------------------------------------------------------------------------------------------


def test_a_batch_takes_what_examples_say():
    tagger = trained("semicrf", steps=1).tagger.eval()
    whole = Example.of("we went to Paris yesterday", [(3, 4, "LOC")])
    part = Example.of("we went to Paris yesterday", unknown=[(3, 4)])
    losses = []
    for example in (whole, part):
        batch = tagger.batch([example.tokens], [tagger.training_segments(example)[0]], [example.unknown])
        losses.append(tagger.losses(batch)["segmentation"].item())
    assert losses[1] < losses[0]
