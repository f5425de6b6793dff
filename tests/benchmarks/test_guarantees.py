"""The page on guarantees, on held-out text that is drawn."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from benchmarks import guarantee_scores, guarantees
from benchmarks.guarantee_scores import OURS, SIGMOIDS, HeldOut, Model, SigmoidSpans
from benchmarks.guarantees import Pool, drawn, draws_of
from spansieve.evaluation.calibration import Units
from spansieve.models.heads import HEADS
from tests.benchmarks.terminal import terminal as terminal
from tests.nn.heads import head_of, vectors_of


def held_out(seed: int, sharpness: float, sentences: int = 600) -> HeldOut:
    """Tokens with log-odds that tell gold apart, the better the sharper."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(3, 12, sentences)
    is_gold = chance.random(lengths.sum()) < 0.3
    scores = np.where(is_gold, sharpness, -sharpness) + chance.normal(size=(2, len(is_gold)))
    probability = chance.beta(4, 1, sentences)
    return HeldOut(
        lengths=lengths.astype(np.int32),
        document=np.arange(sentences, dtype=np.int32) // 3,
        is_gold=is_gold,
        scores=scores.astype(np.float16),
        is_predicted=scores[0] > 2,
        sentence=np.arange(sentences, dtype=np.int32),
        probability=probability.astype(np.float32),
        is_correct=chance.random(sentences) < probability,
        num_gold=np.full(sentences, 2, np.int32),
        f1=np.array([0.8]),
        machine=np.array(["a machine"]),
    )


def test_a_page_from_scores_that_are_there(terminal, tmp_path):
    for corpus in ("wnut17", "genia"):
        for head, sharpness in ((OURS, 2.5), (SIGMOIDS, 1.5)):
            held_out(0, sharpness).save(tmp_path / "scores" / Model(corpus, "builtin", head).file)
    options = ("--folder", tmp_path / "scores", "--corpus", "wnut17", "--corpus", "genia", "--draws", "5")
    answer = terminal("guarantees", tmp_path, *options, "--out", tmp_path)
    assert answer.code == 0, answer.err
    page = (tmp_path / "guarantees.md").read_text()
    for title in ("Missed tokens: kept", "what is covered beside them", "At 1 % missed", "Precision", "by document"):
        assert title in page
    with (tmp_path / "guarantees.csv").open() as file:
        rows = list(csv.DictReader(file))
    ours = [row for row in rows if row["model"].startswith(OURS) and row["promise"] == "miss"]
    assert {row["drawn"] for row in ours} == {"split", "naive", "with replacement"}
    assert all(int(row["held"]) + int(row["refused"]) <= int(row["draws"]) == 5 for row in rows)
    kept = [row for row in ours if row["drawn"] == "split" and row["level"] == "0.05" and row["unit"] == "sentence"]
    assert all(int(row["held"]) == 5 - int(row["refused"]) for row in kept)
    assert (tmp_path / "guarantees.png").stat().st_size > 1_000


def test_draws_take_whole_units():
    units = Units(np.arange(6.0), np.array([0, 2, 2, 3, 3, 3]), np.zeros(6, bool))
    found = drawn(units, np.array([3, 2, 3]), 4)
    assert found.unit.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert found.score.tolist() == [3, 4, 5, 1, 2, 3, 4, 5]
    pool = Pool(held_out(1, 2.0), 0, by_document=True)
    assert pool.num_units == 200
    calibration, test = next(draws_of(pool, 1, with_replacement=False))
    assert sorted([*calibration, *test]) == list(range(200))


def test_what_is_missed_and_covered_is_counted_over_all():
    held = held_out(2, 2.0)
    pool = Pool(held, 1, by_document=False)
    threshold = 100.0 + 0.5  # log-odds of 0.5: they are moved by 100
    is_covered = held.is_predicted | (held.scores[1] >= 0.5)
    assert pool.missed(threshold) == pytest.approx((~is_covered & held.is_gold).sum() / held.is_gold.sum())
    assert pool.over_covered(threshold) == pytest.approx((is_covered & ~held.is_gold).sum() / (~held.is_gold).sum())


def test_how_many_draws_may_fail():
    assert guarantees.most_failures(200, 0.95) == 18
    assert guarantees.most_failures(200, 0.9) == 30


def test_the_rival_learns_each_sigmoid_alone(monkeypatch):
    """Its loss is the binary cross-entropy of every label of every span, by hand."""
    import torch

    monkeypatch.setitem(HEADS, SIGMOIDS, SigmoidSpans)
    head, vectors, lengths = head_of(SIGMOIDS, num_names=2, max_width=2), vectors_of([3, 2]), torch.tensor([3, 2])
    gold = head.gold([[(0, 2, 1)], []], [3, 2])
    (loss,) = head.losses(vectors, lengths, gold).values()
    logits = head.scores(vectors)[0]
    expected = torch.zeros(2)
    for b, length in enumerate([3, 2]):
        for start in range(length):
            for width in range(2):
                if start + width + 1 <= length:
                    is_gold = (b, start, width) == (0, 0, 1)
                    for y in (1, 2):
                        p = logits[b, start, width, y].sigmoid()
                        term = -(p.log() if is_gold and y == 1 else (1 - p).log())
                        expected[b] += term * (1.0 if is_gold else head.beta)
    torch.testing.assert_close(loss, expected)


def test_the_models_that_are_missing(tmp_path):
    held_out(0, 2.0, 20).save(tmp_path / Model("genia", "builtin", OURS).file)
    missing = guarantee_scores.missing_models(tmp_path, ["genia"], ["builtin"])
    assert missing == [Model("genia", "builtin", SIGMOIDS)]
    assert Model("genia", "x/minilm", OURS).file == "genia_minilm_fsemicrf.npz"
    assert Model("genia", "builtin", SIGMOIDS).config().model.head == SIGMOIDS
