"""`spansieve split` as a person types it."""

from __future__ import annotations

import pytest

from spansieve.data.batching import split_examples
from spansieve.data.formats import read_examples
from tests.training import runs


@pytest.fixture(autouse=True)
def folder(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    return corpus


def test_files_of_the_fractions_in_the_format_of_their_suffix(terminal, folder):
    line = (
        "split",
        "train.conll",
        "--into",
        "a.jsonl",
        "b.csv",
        "c.conll",
        "--fractions",
        "0.5,0.3,0.2",
        "--seed",
        "2",
    )
    answer = terminal(*line)
    assert answer.code == 0, answer.err
    assert [line.split(";")[0] for line in answer.out.splitlines()] == [
        "a.jsonl: 9 sentences with 18 entities",
        "b.csv: 5 sentences with 10 entities",
        "c.conll: 4 sentences with 8 entities",
    ]
    parts = split_examples(runs.TRAIN, [0.5, 0.3, 0.2], 2)
    for name, part in zip(("a.jsonl", "b.csv", "c.conll"), parts):
        assert [e.tokens for e in read_examples(name)] == [e.tokens for e in part]
    assert "--into must name new files, got a.jsonl, which exists; --force overwrites it" in terminal.refused(*line)
    assert terminal(*line, "--force").out == answer.out


def test_a_tenth_is_held_back_by_default_as_training_does(terminal, folder):
    assert terminal("split", "train.conll", "--into", "train.jsonl", "dev.jsonl").code == 0
    train, dev = split_examples(runs.TRAIN, [0.9, 0.1], 0)
    assert read_examples("train.jsonl") == train
    assert read_examples("dev.jsonl") == dev


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.jsonl", "b.unheard"], "the name of a file to write must end in"),
        (["a.jsonl", "a.jsonl"], "--into must name different files, got a.jsonl, a.jsonl"),
        (["a.jsonl", "b.jsonl", "--fractions", "0.9"], "--fractions must be 2 numbers like 0.9,0.1, one for each file"),
        (["a.jsonl", "b.jsonl", "--fractions", "much,0.1"], "--fractions must be 2 numbers like 0.9,0.1"),
        (["a.jsonl", "b.jsonl", "--fractions", "0.9,0.2"], "fractions must be at least two, all above 0 and 1 in sum"),
        (["a.jsonl"], "fractions must be at least two"),
    ],
)
def test_what_cannot_be_done_is_told(terminal, folder, arguments, message):
    assert message in terminal.refused("split", "train.conll", "--into", *arguments)
    assert not (folder / "a.jsonl").exists()


def test_data_that_is_not_there(terminal, folder):
    assert "no file or folder nowhere" in terminal.refused("split", "nowhere", "--into", "a.jsonl", "b.jsonl")
