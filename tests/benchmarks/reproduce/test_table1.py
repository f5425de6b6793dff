"""Table 1: the command on a corpus of a few sentences, and what its page says."""

from __future__ import annotations

import csv
import math
import statistics
from dataclasses import replace

import pytest

from benchmarks.reproduce.paper import paper_corpus
from benchmarks.reproduce.plan import NAMES
from benchmarks.reproduce.runs import outcomes
from benchmarks.reproduce.table1 import head_rows, pooled
from spansieve.evaluation.significance import compare
from tests.benchmarks.reproduce.conftest import SETTINGS


def test_the_command(terminal, towns, tmp_path):
    common = ["--data", towns, "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--device", "cpu", *SETTINGS]
    answer = terminal("table1", *common, "--seeds", "0,3", "--paper", "conll2003")
    assert answer.code == 0, answer.err
    assert "12 runs, 0 of them finished before" in answer.out
    page = (tmp_path / "out" / "table1_towns_builtin_cpu.md").read_text()
    assert "Made by `python -m benchmarks table1 --data towns --device cpu" in page
    assert str(tmp_path) not in page
    assert "Seeds: 0, 3." in page
    assert all(f"| {name} |" in page for name in NAMES.values())
    assert "| 93.89 |" in page
    assert "lost to the filter" in page
    with (tmp_path / "out" / "table1_towns_builtin_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == list(NAMES.values())
    assert (tmp_path / "out" / "table1_towns_builtin_cpu.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "table1_towns_builtin_cpu_seeds.csv").open() as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["0"] * 6 + ["3"] * 6
    again = terminal("table1", *common, "--seeds", "0,3")
    assert "12 runs, 12 of them finished before" in again.out


def test_rows_are_means_over_seeds_and_the_test_is_paired(plan):
    plan = replace(plan, heads=("crf", "fsemicrf"), seeds=(0, 1, 2))
    (found,) = outcomes([plan])
    crf, ours = head_rows(found, plan.corpus.test)
    values = [outcome.test.f1 for outcome in found if outcome.run.head == "crf"]
    assert crf.f1.mean == pytest.approx(statistics.mean(values))
    assert crf.f1.deviation == pytest.approx(statistics.stdev(values))
    assert ours.comparison is None
    assert len(ours.gold_outcomes) == 3
    assert crf.comparison is not None
    assert crf.comparison.a.micro.gold == 3 * 18
    assert crf.comparison.b.micro.true_positives == sum(
        outcome.test.micro.true_positives for outcome in found if outcome.run.head == "crf"
    )


def test_a_sentence_with_all_its_seeds_is_one_unit():
    gold = [[(0, 1, "PER")]] * 6
    a, b = [[]] * 3 + gold[3:], gold
    alone = compare(gold, a, b)
    three = compare(pooled([gold] * 3), pooled([a] * 3), pooled([b] * 3))
    assert three.randomisation_p_value == alone.randomisation_p_value  # copies of a run add no evidence
    assert three.difference.value == pytest.approx(alone.difference.value)


def test_one_seed_has_no_deviation(plan):
    plan = replace(plan, heads=("crf",), seeds=(0,))
    (row,) = head_rows(outcomes([plan])[0], plan.corpus.test)
    assert math.isnan(row.f1.deviation)
    assert "±" not in row.f1.percent()
    assert row.comparison is None


def test_the_paper_is_chosen_by_the_corpus_or_by_hand():
    assert paper_corpus("conll03") == "conll2003"
    assert paper_corpus("OntoNotes-5.0") == "ontonotes5"
    assert paper_corpus("ace05-arabic") == "arabic-ace"
    assert paper_corpus("towns", "arabic-ace") == "arabic-ace"
    assert paper_corpus("conll2003", "none") is None
    with pytest.raises(ValueError, match="got 'wikigold'"):
        paper_corpus("towns", "wikigold")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "a"], "--seeds must be how many"),
        (["--set-head", "model.beta=1"], "must look like fsemicrf:model.beta=0.5"),
        (["--set-head", "hmm:model.beta=1"], "got 'hmm'"),
        (["--device", "tpu"], "cpu or cuda, got 'tpu'"),
        (["--train", "x"], "got only some of them"),
        (["--set", "model.betta=1"], "unknown setting 'model.betta'"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(terminal, options, message, tmp_path):
    assert message in terminal.refused("table1", "--runs", tmp_path, "--out", tmp_path, *options)
