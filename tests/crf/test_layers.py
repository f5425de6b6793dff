"""The layers: their loss is -log P(gold) by enumeration, however gold and the ends of sentences are given."""

from __future__ import annotations

import copy
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from spansieve.crf import (
    FilteredSemiMarkovLayer,
    Gold,
    LinearChainLayer,
    NestedLayer,
    SemiMarkovLayer,
    TagConstraints,
    filtering_loss,
)
from spansieve.crf.losses import IGNORED
from tests import oracle
from tests.crf.small import raises
from tests.instances import PLAIN, TIES, gold_for, instances

LAYERS = ["linear_chain", "semi_markov", "wide_null", "filtered", "filtered_skip", "filtered_wide", "nested"]
FILTERED = LAYERS[3:]
OPTIONS = {
    "filtered_skip": {"skip": True, "beta": 0.5},
    "filtered_wide": {"skip": True, "margin": 1.0, "labels_per_span": 2},
}


def layer_of(name: str, num_labels: int) -> nn.Module:
    if name == "linear_chain":
        return LinearChainLayer(num_labels)
    if name in ("semi_markov", "wide_null"):
        return SemiMarkovLayer(num_labels, unit_null=name == "semi_markov")
    return NestedLayer(num_labels) if name == "nested" else FilteredSemiMarkovLayer(num_labels, **OPTIONS.get(name, {}))


class Case:
    """A layer with weights that say something, its scores, gold in plain tuples, and the oracle of its training."""

    def __init__(self, name: str, data: st.DataObject) -> None:
        drawn = data.draw(instances(most_labels=3).filter(lambda one: np.isfinite(one.scores).all()))
        self.name, self.lengths = name, drawn.lengths
        self.dense, self.local = np.clip(drawn.scores, -9, 9), np.clip(drawn.local_scores, -9, 9)
        _, self.num_tokens, self.max_width, self.num_labels = self.dense.shape
        self.layer = layer_of(name, self.num_labels).double()
        for parameter in self.layer.parameters():
            values = data.draw(st.lists(PLAIN | TIES, min_size=parameter.numel(), max_size=parameter.numel()))
            parameter.data = torch.tensor(values, dtype=torch.float64).view(parameter.shape)
        self.transition = self.layer.transition.detach().numpy()
        if name == "linear_chain":
            tag = st.integers(0, self.num_labels - 1)
            self.gold = [data.draw(st.lists(tag, min_size=length, max_size=length)) for length in self.lengths]
        else:
            drawn_gold = gold_for(data.draw, self.lengths, self.max_width, self.num_labels)
            self.gold = [[tuple(segment) for segment in segments] for segments in drawn_gold]

    @property
    def scores(self) -> list[Tensor]:
        if self.name == "linear_chain":
            return [torch.tensor(self.dense[:, :, 0])]
        return [torch.tensor(x) for x in ((self.local, self.dense) if self.name in FILTERED else (self.dense,))]

    def oracle(self, training: bool) -> oracle.Oracle:
        if self.name == "linear_chain":
            scores = self.dense[:, :, 0].copy()
            for b, length in enumerate(self.lengths):
                if length:
                    scores[b, 0] += self.layer.start.detach().numpy()
                    scores[b, length - 1] += self.layer.end.detach().numpy()
            return oracle.linear_chain(scores, self.transition, self.lengths)
        if self.name not in FILTERED:
            return oracle.semi_markov(self.dense, self.transition, self.lengths, self.name == "semi_markov")
        local = self.local.copy()
        local[..., 0] -= self.layer.margin
        limits = {"labels_per_span": self.layer.labels_per_span}
        if training:
            segments = [[oracle.Segment(*triple) for triple in sentence] for sentence in self.gold]
            kept = oracle.kept_for_training(local, self.lengths, segments, self.layer.skip, **limits)
        else:
            kept = oracle.kept_by_filter(local, self.lengths, **limits)
        in_order = [sorted(nodes, key=lambda s: (s.end, s.start, s.label)) for nodes in kept]
        flat = np.array([self.dense[b, s.start, s.width - 1, s.label] for b, some in enumerate(in_order) for s in some])
        if self.name == "nested":
            return oracle.nested(kept, flat, self.transition)
        return oracle.filtered(kept, flat, self.transition, self.layer.skip)

    def is_gold(self, b: int, structure: Any) -> bool:
        if self.name == "linear_chain":
            return structure == self.gold[b]
        if self.name == "wide_null" and any(s.label == 0 and s.width > 1 for s in structure):
            return False  # gold has null segments of one token
        return sorted(tuple(s) for s in structure if s.label) == sorted(self.gold[b])


@pytest.mark.parametrize("name", LAYERS)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_the_loss_is_that_of_enumeration(name, data):
    case = Case(name, data)
    losses = case.layer(*case.scores, case.gold, case.lengths)
    listed = case.oracle(training=True)
    expected = [
        -math.log(sum(p for p, one in listed.probabilities(b) if case.is_gold(b, one.structure)))
        for b in range(len(case.lengths))
    ]
    found = losses["segmentation"] if name in FILTERED else losses
    torch.testing.assert_close(found.detach(), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    if name in FILTERED:
        right = filtering_loss(case.scores[0], case.gold, case.lengths, case.layer.beta)
        torch.testing.assert_close(losses["filtering"], right)
        assert losses.keys() == {"filtering", "segmentation"}


@pytest.mark.parametrize("name", LAYERS)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_what_is_predicted_has_the_highest_score(name, data):
    case = Case(name, data)
    predicted = case.layer.predict(*case.scores, case.lengths)
    distribution = case.layer.distribution(*case.scores, case.lengths)
    listed = case.oracle(training=False)
    torch.testing.assert_close(
        distribution.log_partition.detach(), torch.tensor(listed.log_partition), rtol=1e-6, atol=1e-6
    )
    for b, structure in enumerate(predicted):
        scores = [
            score
            for score, one in listed.scored[b]
            if list(structure) == [s for s in one.structure if name == "linear_chain" or s.label]
        ]
        assert math.isclose(max(scores), listed.max_score[b], rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_masks_and_lengths_are_the_same(name, data):
    case = Case(name, data)
    position, lengths = torch.arange(case.num_tokens), torch.tensor(case.lengths)
    mask = position < lengths[:, None]
    right = _losses(case.layer(*case.scores, case.gold, case.lengths))
    ways = [(case.gold, form) for form in (lengths, lengths.int(), mask, mask.long())]
    if name == "linear_chain":
        padded = torch.full(mask.shape, IGNORED)
        for row, tags in zip(padded, case.gold):
            row[: len(tags)] = torch.tensor(tags)
        ways += [(case.gold, None), (padded, None), (padded, mask), (padded.clamp(min=0), mask)]
        ways += [(Gold.from_tags(case.gold, case.scores[0].shape), mask)]
    elif name in FILTERED:
        ways += [(Gold.from_segments(case.gold, case.scores[0].shape, case.lengths), mask)]
    for gold, form in ways:
        torch.testing.assert_close(_losses(case.layer(*case.scores, gold, form)), right)
    assert case.layer.predict(*case.scores, mask) == case.layer.predict(*case.scores, case.lengths)


def _losses(losses: Tensor | dict[str, Tensor]) -> list[Tensor]:
    return list(losses.values()) if isinstance(losses, dict) else [losses]


@pytest.mark.parametrize("name", LAYERS)
def test_every_scorer_and_every_weight_gets_a_gradient(name):
    """A network whose local scores get none learns nothing: it had 0.1 F1."""
    torch.manual_seed(0)
    layer, vectors = layer_of(name, 3), torch.randn(2, 4, 5)
    widths = () if name == "linear_chain" else (2,)
    scorers = [nn.Linear(5, math.prod((*widths, 3))) for _ in range(2 if name in FILTERED else 1)]
    scores = [scorer(vectors).unflatten(-1, (*widths, 3)) for scorer in scorers]
    gold = [[0, 1, 2, 0], [1, 1]] if name == "linear_chain" else [[(0, 2, 1), (2, 4, 2)], [(0, 1, 1)]]
    sum(_losses(layer(*scores, gold, [4, 2]))).sum().backward()
    for parameter in (*layer.parameters(), *(scorer.weight for scorer in scorers)):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()


def test_the_weights_are_stored_and_loaded():
    layer = LinearChainLayer(3)
    assert {name: tuple(x.shape) for name, x in layer.state_dict().items()} == {
        "transition": (3, 3), "start": (3,), "end": (3,),
    }  # fmt: skip
    for make in (SemiMarkovLayer, FilteredSemiMarkovLayer, NestedLayer):
        other = copy.deepcopy(make(3))
        other.load_state_dict({"transition": torch.ones(3, 3)})
        assert other.transition.sum() == 9


def test_constraints_hold_in_what_is_learned_and_predicted():
    tags = ["O", "B-PER", "I-PER"]
    layer = LinearChainLayer(3, TagConstraints.from_tags(tags))
    scores = torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])
    assert layer.predict(scores) == [[1, 2]]
    with raises("structure 0 is outside the support"):
        layer(scores, [[0, 2]])


def test_nested_gold_is_for_the_nested_layer():
    local_scores, global_scores = torch.zeros(2, 1, 4, 3, 3)
    gold = [[(0, 3, 1), (1, 2, 2)]]
    assert NestedLayer(3)(local_scores, global_scores, gold)["segmentation"] > 0
    with raises("gold of sentence 0 must not overlap, got segment (0, 3, 1) and segment (1, 2, 2); NestedLayer takes"):
        FilteredSemiMarkovLayer(3)(local_scores, global_scores, gold)


def test_prepared_gold_of_a_semi_markov_layer_covers_the_sentence():
    scores = torch.randn(1, 3, 2, 3, generator=torch.Generator().manual_seed(0))
    covered = Gold.from_segments([[(0, 1, 0), (1, 3, 2)]], scores.shape)
    torch.testing.assert_close(SemiMarkovLayer(3)(scores, covered), SemiMarkovLayer(3)(scores, [[(1, 3, 2)]]))


# ---- What is wrong is said ------------------------------------------------------------------------------------------

HOLE = torch.tensor([[True, True, False, True], [True, True, False, False]])
PLAIN_TAGS = torch.tensor([[0, 1, 2, 0], [1, 2, IGNORED, IGNORED]])


def chain(tags: Any = PLAIN_TAGS, mask: Any = None) -> Tensor:
    return LinearChainLayer(3)(torch.zeros(2, 4, 3), tags, mask)


def semi(gold: Any = ((), ()), mask: Any = None) -> Tensor:
    return SemiMarkovLayer(3)(torch.zeros(2, 4, 2, 3), gold, mask)


def filtered(gold: Any = ((), ()), mask: Any = None) -> dict[str, Tensor]:
    return FilteredSemiMarkovLayer(3)(torch.zeros(2, 4, 2, 3), torch.zeros(2, 4, 2, 3), gold, mask)


@pytest.mark.parametrize("make", [semi, filtered])
@pytest.mark.parametrize(
    ("gold", "kind", "message"),
    [
        ([[(0, 2, "PER")], []], TypeError, "got 'PER' in (0, 2, 'PER'); give a label by its number: 0 is null"),
        ([[(0, 2, 1), (1, 2, 2)], []], ValueError, "gold of sentence 0 must not overlap, got segment (0, 2, 1) and"),
        ([[(0, 3, 1)], []], ValueError, "segment (0, 3, 1) of sentence 0 is 3 wide, but the widest scored is 2"),
        ([[(0, 1, 3)], []], ValueError, "label of segment (0, 1, 3) of sentence 0 must lie between"),
        ([[(0, 1, 0)], []], ValueError, "as 0 is null"),
        ([[], [(3, 5, 1)]], ValueError, "segment (3, 5, 1) of sentence 1 must lie within its 4 tokens"),
        ([[]], ValueError, "gold must be one sequence of segments per sentence, 2, got 1"),
        ([(0, 1, 1), (2, 3, 1)], TypeError, "segments must be one list per sentence, got (0, 1, 1) for one"),
    ],
)
def test_wrong_gold(make, gold, kind, message):
    with raises(message, kind):
        make(gold)


@pytest.mark.parametrize("make", [semi, filtered, chain])
@pytest.mark.parametrize(
    ("mask", "kind", "message"),
    [
        (torch.tensor([True, False]), TypeError, "lengths must be integers, got torch.bool; mask.sum(1) has the"),
        (HOLE, ValueError, "mask must have the tokens of a sentence first, then padding, got padding at token 2 of"),
        (~HOLE, ValueError, "invert a mask that is true for padding"),
        (HOLE[:, :3], ValueError, "mask must have a boolean or integer per token, (2, 4), got (2, 3)"),
        (HOLE.float(), ValueError, "mask must have a boolean or integer per token, (2, 4), got torch.float32"),
        ([5, 2], ValueError, "lengths must lie between 0 and 4, the number of tokens, got 5"),
        ([4], ValueError, "lengths must have shape (2,), one per sentence, got (1,)"),
    ],
)
def test_wrong_masks(make, mask, kind, message):
    with raises(message, kind):
        make(mask=mask)


@pytest.mark.parametrize(
    ("tags", "mask", "kind", "message"),
    [
        (PLAIN_TAGS + 2, [4, 2], ValueError, "tag 3 at token 1 of sentence 0: the tag must lie between 0 and 2"),
        (PLAIN_TAGS, [4, 3], ValueError, "tag -100 at token 2 of sentence 1: the tag must lie between 0 and 2"),
        (PLAIN_TAGS.flip(1), None, ValueError, "tags must have the tokens of a sentence first, then padding, got padd"),
        (PLAIN_TAGS[:, :3], None, ValueError, "tags must have a boolean or integer per token, (2, 4), got (2, 3)"),
        ([["O", "B-PER"], ["O"]], None, TypeError, "a tag must be an integer, got 'O' in ['O', 'B-PER']; give a label"),
        ([[0, 1], [0]], [4, 1], ValueError, "tags of sentence 0 must be 4, one per token, got 2"),
        ([[0, 1]], [2, 1], ValueError, "structures must be one per sentence, 2, got 1"),
    ],
)
def test_wrong_tags(tags, mask, kind, message):
    with raises(message, kind):
        chain(tags, mask)


def test_wrong_scores():
    with raises("local_scores must have shape (B, L, K, Y), got (2, 4, 3)"):
        FilteredSemiMarkovLayer(3).predict(torch.zeros(2, 4, 3), torch.zeros(2, 4, 3))
    with raises("transition must be (4, 4), as scores has 4 labels, got (3, 3)"):
        SemiMarkovLayer(3).predict(torch.zeros(2, 4, 2, 4))
