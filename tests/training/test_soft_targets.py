"""The losses with soft targets, against enumeration and against those with gold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spansieve.models.filtered import FilteredHead
from spansieve.models.head import SoftTargets
from spansieve.training import teacher
from spansieve.training.teacher import SentenceTargets, mixed_with_gold, sentence_targets
from tests.batches import random_gold
from tests.crf.test_divergence import enumerated
from tests.nn.heads import head_of, keep_half, oracle_of, vectors_of

LENGTHS = [4, 0, 1, 3]
LEARNING = [
    ("crf", {"scheme": "BIO"}),
    ("semicrf", {}),
    ("semicrf-unit-null", {}),
    ("fsemicrf", {"skip": True, "labels_per_span": 2, "margin": 0.5}),
    ("fsemicrf", {"skip": True, "global_loss": "unfiltered", "score_null": True}),
    ("filter-only", {}),
]
every_head = pytest.mark.parametrize(("name", "settings"), LEARNING, ids=lambda v: v if isinstance(v, str) else "")


@pytest.fixture(autouse=True)
def all_of_it(monkeypatch):
    monkeypatch.setattr(teacher, "LEAST_PROBABILITY", 0.0)


def drawn(name, settings, seed=0):
    head, vectors = head_of(name, seed=seed, **settings), vectors_of(LENGTHS, seed)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    return head, vectors


def targets_of(head, vectors) -> list[SentenceTargets]:
    with torch.no_grad():
        return sentence_targets(head.distribution(vectors, torch.tensor(LENGTHS)))


def mixed(head, targets, gold, share) -> SoftTargets:
    structures = head.gold(gold, LENGTHS).structures
    return mixed_with_gold(targets, structures, [share] * len(LENGTHS), len(head.transition))


@every_head
def test_soft_targets_of_gold_alone_are_gold(name, settings):
    head, vectors = drawn(name, settings)
    teacher, other = drawn(name, settings, seed=1)
    random, lengths = np.random.default_rng(0), torch.tensor(LENGTHS)
    gold = [random_gold(random, length, 3, 3) for length in LENGTHS]
    found = head.distillation_losses(vectors, lengths, mixed(head, targets_of(teacher, other), gold, 0.0))
    if not getattr(head, "is_loss_filtered", False) or name == "filter-only":
        expected = head.losses(vectors, lengths, head.gold(gold, LENGTHS))
        for ours, theirs in zip(found.values(), expected.values()):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    else:  # the graph has what the teacher's targets have, too, however little they weigh
        expected = head.losses(vectors, lengths, head.gold(gold, LENGTHS))
        torch.testing.assert_close(found["filtering"], expected["filtering"], rtol=1e-5, atol=1e-5)
        assert (found["segmentation"] >= expected["segmentation"] - 1e-4).all()


@every_head
@pytest.mark.parametrize("seed", range(2))
def test_the_loss_is_the_cross_entropy_by_enumeration(name, settings, seed):
    head, vectors = drawn(name, settings, seed)
    teacher, other = drawn(name, settings, seed + 5)
    targets, lengths = targets_of(teacher, other), torch.tensor(LENGTHS)
    losses = head.distillation_losses(vectors, lengths, mixed(head, targets, [[]] * 4, 1.0))
    if name != "filter-only":
        taken = None
        if isinstance(head, FilteredHead):  # in training there is what the teacher has
            taken = [[*x] for x in teacher.distribution(other, lengths).candidates.segments()]
        student = oracle_of(head, vectors, LENGTHS, taken)
        expected = enumerated(oracle_of(teacher, other, LENGTHS), student)
        name = "segmentation"
        np.testing.assert_allclose(losses[name].detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    if isinstance(head, FilteredHead):
        np.testing.assert_allclose(
            losses["filtering"].detach().numpy(), span_by_span(head, vectors, targets), rtol=1e-4, atol=1e-4
        )


def span_by_span(head, vectors, targets) -> list[float]:
    with torch.no_grad():
        local = head.scorer.dense(head.scorer(vectors))[..., :3].log_softmax(-1).numpy()
    result = []
    for b, (length, one) in enumerate(zip(LENGTHS, targets)):
        known = {(int(i), int(i + w + 1), int(y)): p for i, w, y, p in one.parts}
        total = 0.0
        for start in range(length):
            for end in range(start + 1, min(length, start + 3) + 1):
                q = [known.get((start, end, label), 0.0) for label in (1, 2)]
                weights = [head.beta * (1 - sum(q)), *q]
                total -= sum(w * p for w, p in zip(weights, local[b, start, end - start - 1]))
        result.append(head.filtering_weight * total)
    return result


def test_a_mixture_is_linear():
    head, vectors = drawn("fsemicrf", {"skip": True, "global_loss": "unfiltered"})
    teacher, other = drawn("fsemicrf", {"skip": True}, seed=1)
    random, lengths = np.random.default_rng(0), torch.tensor(LENGTHS)
    gold, targets = [random_gold(random, length, 3, 3) for length in LENGTHS], targets_of(teacher, other)
    by_share = [head.distillation_losses(vectors, lengths, mixed(head, targets, gold, a)) for a in (0.0, 0.3, 1.0)]
    for name in ("filtering", "segmentation"):
        hard, both, soft = (losses[name] for losses in by_share)
        torch.testing.assert_close(both, 0.7 * hard + 0.3 * soft, rtol=1e-5, atol=1e-5)


def test_a_device_takes_all_of_it():
    head, vectors = drawn("crf", {})
    made = mixed(head, targets_of(head, vectors), [[]] * 4, 1.0).to("meta")
    assert {made.part.device.type, made.probability.device.type, made.counts.device.type} == {"meta"}


@pytest.mark.parametrize(
    ("student", "teacher", "message"),
    [
        (("crf", {"scheme": "BIO"}), ("crf", {"scheme": "BIOES"}), "model.scheme must be BIOES, that of the teacher"),
        (("semicrf-unit-null", {}), ("semicrf", {}), "teacher must have null segments of width 1"),
        (("crf", {}), ("nested", {}), "teacher must be a flat model, got nested"),
        (("nested", {}), ("fsemicrf", {}), "teacher must be nested"),
        (("global-selection", {"skip": True}), ("fsemicrf", {}), "model.head must be one that can be distilled"),
    ],
)
def test_heads_that_cannot_learn_from_each_other(student, teacher, message):
    (name, settings), (other, more) = student, teacher
    with pytest.raises(ValueError, match=message):
        head_of(name, **settings).check_teacher(head_of(other, **more))
    assert head_of("semicrf").check_teacher(head_of("semicrf-unit-null")) is None
