"""The page on distillation, with work of no size."""

from __future__ import annotations

import csv
import shutil

import pytest

from spansieve.data.formats import write_examples
from tests.benchmarks.small_corpus import FAST, SPLITS
from tests.benchmarks.terminal import terminal as terminal

WAYS = ["--way", "0.5,1,0", "--way", "1,2,1"]


@pytest.fixture
def command(tmp_path):
    (tmp_path / "small").mkdir()
    for name, examples in SPLITS._asdict().items():
        write_examples(examples, tmp_path / "small" / f"{name}.jsonl")
    words = sorted({token for example in SPLITS.train for token in example.tokens})
    (tmp_path / "words.txt").write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(words)), encoding="utf-8")
    (tmp_path / "texts.txt").write_text("Ada works in Rome .\nBob Stone slept .\n", encoding="utf-8")
    flags = [f"--{kind}={name}={value}" for kind in ("set", "set-teacher") for name, value in FAST.items()]
    filters = ["model.skip=true", "model.global_loss=unfiltered"]
    flags += [f"--set-teacher={setting}" for setting in filters]
    given = ["distil", tmp_path / "small", "--encoder", "builtin", "--vectors", tmp_path / "words.txt", *WAYS]
    given += ["--texts", tmp_path / "texts.txt", "--folder", tmp_path / "r", "--seeds", "1", "--out", tmp_path]
    return [*given, *flags]


def test_what_is_best_on_dev_is_tested_and_nothing_is_done_twice(terminal, command, tmp_path):
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    page = (tmp_path / "distilled_cpu.md").read_text()
    assert "The teacher: dev " in page
    with (tmp_path / "distilled_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["mixture"], row["temperature"], row["texts"]) for row in rows] == [
        ("0.5", "1.0", "0"),
        ("1.0", "2.0", "1"),
    ]
    tested = [row for row in rows if row["test F1"]]
    assert [row["dev F1"] for row in tested] == [max((row["dev F1"] for row in rows), key=float)]
    for model in [*tmp_path.glob("r/*/model"), *tmp_path.glob("r/targets*")]:
        shutil.rmtree(model)
    assert terminal(*command).code == 0
    assert (tmp_path / "distilled_cpu.md").read_text() == page
    assert not list(tmp_path.glob("r/*/model"))


def test_a_way_that_is_none_is_told(terminal, command):
    assert terminal.refused(*command, "--way", "0.5").startswith("error: --way must be mixture, temperature and")
