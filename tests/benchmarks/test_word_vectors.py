"""The page on word vectors, with work of no size."""

from __future__ import annotations

import csv
import shutil

import pytest

from spansieve.data.formats import write_examples
from tests.benchmarks.small_corpus import FLAGS, SPLITS
from tests.benchmarks.terminal import terminal as terminal

WORDS = sorted({token for example in SPLITS.train for token in example.tokens})


@pytest.fixture
def command(tmp_path):
    (tmp_path / "data" / "wnut17").mkdir(parents=True)
    for name, examples in SPLITS._asdict().items():
        write_examples(examples, tmp_path / "data" / "wnut17" / f"{name}.jsonl")
    (tmp_path / "words.txt").write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    given = ["vectors", tmp_path / "data", "--vectors", tmp_path / "words.txt", "--folder", tmp_path / "r"]
    given += ["--vectors", "conll2003=no such file"]
    return [*given, "--corpus", "wnut17", "--seeds", "2", "--note", "A note.", "--out", tmp_path, *FLAGS]


def test_a_page_is_made_of_what_runs_left_without_their_weights(terminal, command, tmp_path):
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    page = (tmp_path / "word_vectors_cpu.md").read_text()
    assert "| wnut17 | none |" in page
    assert "| wnut17 | words.txt |" in page
    assert "A note." in page
    covered = f"{len(WORDS)} vectors of 2 dimensions, words.txt; there is one for 100.0% of the training words"
    assert f"- wnut17: {covered}" in page
    with (tmp_path / "word_vectors_cpu.csv").open() as file:
        assert [(row["vectors"], row["seed"]) for row in csv.DictReader(file)] == [
            ("none", "0"), ("none", "1"), ("words.txt", "0"), ("words.txt", "1"),
        ]  # fmt: skip
    models = list(tmp_path.glob("r/*/*/model"))
    assert len(models) == 4
    for model in models:
        shutil.rmtree(model)
    assert terminal(*command).code == 0
    assert (tmp_path / "word_vectors_cpu.md").read_text() == page
    assert not list(tmp_path.glob("r/*/*/model"))  # nothing was trained again
