"""The experiment on labelling order, with work of no size."""

from __future__ import annotations

import csv

import pytest

from benchmarks import active_learning
from spansieve.data.example import Example
from tests.benchmarks.small_corpus import FAST, FLAGS, SPLITS
from tests.benchmarks.small_corpus import files as files
from tests.benchmarks.terminal import terminal as terminal
from tests.prediction.trained import trained


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(active_learning, "LEAST_STEPS", 1)


def test_all_orders_begin_alike_and_grow(tmp_path):
    seen: list[active_learning.Round] = []
    rounds = active_learning.run_active_learning(
        SPLITS, tmp_path, sizes=(3, 6), seeds=(0,), settings=FAST, seen=seen.append
    )
    assert rounds == seen
    assert [(one.order, one.sentences) for one in rounds] == [(o, n) for o in active_learning.ORDERS for n in (3, 6)]
    assert len({(one.f1, one.tokens) for one in rounds if one.sentences == 3}) == 1
    assert list(tmp_path.iterdir()) == []
    rows = active_learning.curve_rows(rounds)
    assert [row["sentences"] for row in rows] == [3, 6] * 3


def test_the_least_sure_come_first_and_nobody_twice():
    predictor = trained("fsemicrf", steps=30)
    pool = [
        Example.of(text) for text in ("we went to Paris yesterday", "Paris Ada", "word", "Ada Lovelace Ada Rome York")
    ]
    unsure = active_learning.uncertainties(predictor.tagger, [example.tokens for example in pool])
    by_sum = active_learning.ordered(predictor.tagger, pool, [0, 2, 3], "uncertainty")
    assert by_sum == sorted([0, 2, 3], key=lambda i: -unsure[i])
    by_token = active_learning.ordered(predictor.tagger, pool, [0, 1, 2, 3], "uncertainty per token")
    assert by_token == sorted(range(4), key=lambda i: -unsure[i] / len(pool[i]))
    assert active_learning.ordered(predictor.tagger, pool, [3, 0], "random") == [3, 0]


def test_models_without_a_filter_are_unsure_of_readings():
    predictor = trained("crf", steps=5)
    (unsure,) = active_learning.uncertainties(predictor.tagger, [["Ada", "Paris"]])
    (sentence,) = predictor.analyse("Ada Paris")
    assert unsure == pytest.approx(sentence.entropy, rel=1e-4)


def test_f1_for_as_many_tokens_as_chance_reads():
    def curve(order, seed, points):
        return [active_learning.Round(order, seed, 0, tokens, 0, f1, 0.0) for tokens, f1 in points]

    rounds = [
        *curve("random", 0, [(100, 0.2), (400, 0.4)]),
        *curve("uncertainty", 0, [(100, 0.2), (1600, 0.6)]),
        *curve("uncertainty per token", 0, [(100, 0.2), (200, 0.9)]),
        *curve("random", 1, [(100, 0.4), (1600, 0.5)]),
        *curve("uncertainty", 1, [(100, 0.4), (1600, 0.8)]),
        *curve("uncertainty per token", 1, [(100, 0.2), (2000, 0.9)]),
    ]
    assert active_learning.rows_by_tokens(rounds) == [
        {"tokens": 100, "random": "30.00", "uncertainty": "30.00", "uncertainty per token": "20.00"},
        # In seed 0 halfway from 100 to 1600 tokens by their logarithm, in seed 1 at the end.
        {"tokens": 1000, "random": "45.00", "uncertainty": "60.00", "uncertainty per token": ""},
    ]


@pytest.mark.parametrize("sizes", [(6, 3), (0, 3), (3, 3), (3, 100)])
def test_sizes_must_rise_within_the_pool(tmp_path, sizes):
    with pytest.raises(ValueError, match="sizes must rise, from 1 to the 18 sentences"):
        active_learning.run_active_learning(SPLITS, tmp_path, sizes=sizes)


def test_the_command_writes_a_table_a_csv_and_a_picture(terminal, tmp_path, files):
    places = ["--folder", tmp_path / "r", "--out", tmp_path / "o"]
    answer = terminal("active-learning", *files, *places, "--size", 3, "--size", 5, "--seed", 1, *FLAGS)
    assert answer.code == 0, answer.err
    with (tmp_path / "o" / "active_learning_cpu.csv").open() as file:
        assert [row["sentences"] for row in csv.DictReader(file)] == ["3", "5"] * 3
    assert (tmp_path / "o" / "active_learning_cpu.png").stat().st_size > 5_000
    page = (tmp_path / "o" / "active_learning_cpu.md").read_text()
    assert "--size 3 --size 5 --seed 1" in page
    assert str(tmp_path) not in page
