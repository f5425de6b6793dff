"""The experiments on labelling order, on hidden annotation and on chunks, with work of no size."""

from __future__ import annotations

import csv
import random

import pytest
from typer.testing import CliRunner

from benchmarks import active_learning, chunking, fitting, partial
from benchmarks.cli import app
from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.segments import NamedSegment
from tests.prediction.trained import trained
from tests.training.runs import DEV, SMALL, TRAIN

SPLITS = fitting.Splits(tuple(TRAIN), tuple(DEV), tuple(DEV))
FAST = SMALL | {"training.epochs": 1}
FLAGS = [part for name, value in FAST.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(active_learning, "LEAST_STEPS", 1)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{name}.jsonl" for name in ("train", "dev", "test")]
    for path, examples in zip(paths, SPLITS):
        write_examples(examples, path)
    return [str(path) for path in paths]


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


# ---- Labelling order -------------------------------------------------------------------------------------------------


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


def test_the_command_writes_a_table_a_csv_and_a_picture(tmp_path, files):
    invoke("active-learning", *files, "--folder", tmp_path / "r", "--out", tmp_path / "o", "--size", 3, "--size", 5,
           "--seed", 1, *FLAGS)  # fmt: skip
    with (tmp_path / "o" / "active_learning_cpu.csv").open() as file:
        assert [row["sentences"] for row in csv.DictReader(file)] == ["3", "5"] * 3
    assert (tmp_path / "o" / "active_learning_cpu.png").stat().st_size > 5_000
    page = (tmp_path / "o" / "active_learning_cpu.md").read_text()
    assert "--size 3 --size 5 --seed 1" in page
    assert str(tmp_path) not in page


# ---- Hidden annotation -----------------------------------------------------------------------------------------------


def test_half_is_hidden_and_nothing_is_cut():
    chance = random.Random(0)
    wide = Example.of(["w"] * 40, [(0, 6, "A"), (9, 10, "B"), (11, 18, "A"), (20, 21, "B"), (39, 40, "B")])
    hidden = [partial.half_hidden(wide, chance) for _ in range(200)]
    for example in hidden:
        lost = set(wide.segments) - set(example.segments)
        inside = [any(a <= s.start and s.end <= z for a, z in example.unknown) for s in wide.segments]
        assert lost == {s for s, is_inside in zip(wide.segments, inside) if is_inside}
        assert all(s in wide.segments for s in example.segments)
        known = [i for i in range(40) if not any(a <= i < z for a, z in example.unknown)]
        assert all(set(range(s.start, s.end)) <= set(known) for s in example.segments)
    assert 0.4 < sum(example.num_unknown for example in hidden) / (200 * 40) < 0.6
    assert isinstance(hidden[0].segments[0], NamedSegment)


def test_three_annotations_of_the_same_sentences(tmp_path, files):
    runs = partial.run_partial(SPLITS, tmp_path / "r", heads=("crf",), settings=FAST)
    shown = {run.annotation: run.entities for run in runs}
    assert list(shown) == list(partial.ANNOTATIONS)
    assert shown["all"] == 36 > shown["half, the rest unknown"] == shown["half, the rest as null"] > 0
    invoke("partial", *files, "--folder", tmp_path / "r", "--out", tmp_path, "--head", "crf", "--most", 12, *FLAGS)
    page = (tmp_path / "partial_cpu.md").read_text()
    assert all(f"| crf | {annotation} |" in page for annotation in partial.ANNOTATIONS)


# ---- Chunks ----------------------------------------------------------------------------------------------------------


def test_each_head_is_trained_and_scored_once(tmp_path, files):
    runs = chunking.run_chunking(SPLITS, tmp_path / "r", ["crf", "semicrf"], FAST)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/*/model/model.safetensors")}
    assert len(made) == 2
    invoke(
        "chunking", *files, "--folder", tmp_path / "r", "--out", tmp_path, "--head", "crf", "--head", "semicrf", *FLAGS
    )
    assert made == {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/*/model/model.safetensors")}
    page = (tmp_path / "chunking_cpu.md").read_text()
    for run in runs:
        row = chunking.chunking_row(run)
        assert f"| {row['model']} | {row['precision']} | {row['recall']} | {row['F1']} |" in page
    assert {row["label"]: row["gold"] for row in chunking.label_rows(runs)} == {"PER": "9", "LOC": "9"}


def test_how_much_is_covered():
    assert chunking.covered([Example.of("a b c d", [(0, 2, "X"), (3, 4, "Y")])]) == 0.75
    assert chunking.covered([]) == 0
