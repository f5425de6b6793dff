"""The table over all corpora: what it reads, what it tests, and that test scores wait for the last run."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reproduce import all_corpora, runs
from benchmarks.reproduce.all_corpora import CORPORA, MEAN, OTHERS, ScoredSet, differences, preset_prints
from benchmarks.reproduce.plan import NAMES, OURS
from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.evaluation.scores import evaluate
from tests.benchmarks.reproduce.conftest import SETTINGS, TEST
from tests.training import runs as small
from tests.training.encoders import tiny_encoder

ROOT = Path(__file__).parents[3]


@pytest.fixture
def corpora(tmp_path):
    """All of the table's corpora, of a few sentences each."""
    for entry in CORPORA:
        folder = tmp_path / "corpora" / entry.name
        folder.mkdir(parents=True)
        for split, examples in (("train", small.TRAIN), ("dev", small.DEV), ("test", TEST)):
            write_examples(examples, folder / f"{split}.jsonl")
        if entry.corrected:
            (tmp_path / "corpora" / entry.corrected).mkdir()
            write_examples(TEST[:5], tmp_path / "corpora" / entry.corrected / "test.conll")
    return tmp_path / "corpora"


@pytest.fixture
def common(corpora, tmp_path, capsys):
    encoder = tiny_encoder(tmp_path / "encoder")
    capsys.readouterr()  # transformers shows how it saves
    return [
        *("--data", corpora, "--encoder", encoder, "--device", "cpu", "--runs", tmp_path / "runs"),
        *("--out", tmp_path / "out", *SETTINGS, "--set-pretrained", "model.encoder.casing=true"),
    ]


@pytest.mark.slow
def test_the_command(terminal, common, tmp_path):
    answer = terminal("all-corpora", *common, "--seeds", "0,", "--set=training.epochs=1")
    assert answer.code == 0, answer.err
    assert "42 runs, 0 of them finished before" in answer.out
    told = [line for line in answer.out.splitlines() if ": " in line]
    assert len(told) == 42  # as each run ends, its dev score; test figures are on the page alone
    assert all(re.fullmatch(r"\S+: \S+, seed 0: dev \d+\.\d\d F1", line) for line in told)
    page = (tmp_path / "out" / "all_corpora.md").read_text()
    assert str(tmp_path) not in page
    assert "**Encoder encoder**, for conll2003, wnut17, bionlp13cg, genia, conll2000." in page
    assert "**Encoder builtin**, for germeval2014, newsfane." in page
    assert f"builtin {preset_prints()['builtin']}, pretrained {preset_prints()['pretrained']}." in page
    assert "| cleanconll2003 | sentences |" in page
    with (tmp_path / "out" / "all_corpora.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["corpus"] for row in rows] == [*(entry.name for entry in CORPORA), "**mean**", "cleanconll2003"]
    for name in NAMES.values():
        figures = [float(row[name]) for row in rows[: len(CORPORA)]]
        assert float(rows[len(CORPORA)][name].strip("*")) == pytest.approx(sum(figures) / len(figures), abs=0.011)
    with (tmp_path / "out" / "all_corpora_seeds.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 42


def test_settings_are_chosen_without_a_look_at_test(terminal, common, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("test was looked at")

    monkeypatch.setattr(runs, "_predict_test", refuse)
    arguments = [*common, "--dev-only", "--corpora", "wnut17,newsfane", "--seeds", "0,", "--set=training.epochs=1"]
    answer = terminal("all-corpora", *arguments)
    assert answer.code == 0, answer.err
    assert "| wnut17 |" in answer.out
    assert "| **mean** |" in answer.out
    assert not (tmp_path / "out").exists()


def test_a_page_is_of_all_corpora(terminal, common):
    assert "with --dev-only alone" in terminal.refused("all-corpora", *common, "--corpora", "wnut17")
    options = ["--dev-only", "--corpora", "wikigold"]
    assert "got 'wikigold'" in terminal.refused("all-corpora", *common, *options)


def test_nested_segments_are_left_out_and_counted(corpora):
    nested = Example.of("the bank of Rome", [(0, 4, "ORG"), (3, 4, "LOC")])
    for split in ("train", "dev", "test"):
        write_examples([nested], corpora / "genia" / f"{split}.jsonl")
    entry = next(entry for entry in CORPORA if entry.name == "genia")
    corpus = all_corpora.read_entry(entry, corpora)
    assert [len(example.segments) for example in (*corpus.train, *corpus.dev, *corpus.test)] == [1, 1, 1]
    assert "1/1/1 nested ones" in corpus.describe()


def scored(name: str, wrong: int, documents: bool = False) -> ScoredSet:
    """FSemiCRF finds all of 40 segments, the others all but some."""
    gold = [((0, 1, "PER"),)] * 40
    examples = [Example.of("Ada", [(0, 1, "PER")], document=f"d{i // 4}" if documents else None) for i in range(40)]
    worse = [()] * wrong + gold[wrong:]
    return ScoredSet(name, examples, {head: [gold if head == OURS else worse] * 2 for head in NAMES})


def test_differences_are_of_f1_and_of_their_mean():
    sets = [scored("a", 20), scored("b", 4)]
    found = differences(sets, [scored("c", 0)], resamples=500)
    for head in OTHERS:
        f1 = [evaluate(one.gold, one.found[head][0]).f1 for one in sets]
        assert found["a", head].difference.value == pytest.approx(1 - f1[0])
        assert found[MEAN, head].difference.value == pytest.approx(1 - np.mean(f1))
        assert found["c", head].difference == (0, 0, 0)
        assert found["c", head].p_value == 1
        assert found["a", head].difference.low < 1 - f1[0] < found["a", head].difference.high


def test_a_document_is_one_unit():
    assert len(scored("a", 20, documents=True).counts("crf")) == 10
    assert len(scored("a", 20).counts("crf")) == 40
    sentences, documents = (differences([scored("a", 6, is_grouped)], [], 2_000) for is_grouped in (False, True))
    assert documents["a", "crf"].p_value > sentences["a", "crf"].p_value  # six sentences, but two documents


def test_the_published_page_is_of_the_presets():
    """When a preset changes, the page has to be made again by its command."""
    page = (ROOT / "results" / "all_corpora.md").read_text(encoding="utf-8")
    prints = re.search(r"^Presets.*: builtin (\w+), pretrained (\w+)\.$", page, flags=re.MULTILINE)
    assert prints is not None
    assert prints.groups() == tuple(preset_prints().values())
