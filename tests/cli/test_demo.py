"""`spansieve demo`, on a part of the sample corpus and with a small encoder; the whole of it is run by `make demo`."""

from __future__ import annotations

import pytest

from spansieve.cli import demo
from spansieve.data import sample
from spansieve.data.sample import Splits, sample_corpus
from tests.training import runs


@pytest.fixture
def small(monkeypatch, tmp_path):
    whole = sample_corpus()
    part = Splits(whole.train[:40], whole.dev[:20], whole.test[:20])
    monkeypatch.setattr(sample, "sample_corpus", lambda: part)
    monkeypatch.setattr(demo, "preset", lambda name: runs.config(training__epochs=2))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_nothing_to_entities(terminal, small):
    answer = terminal("demo")
    assert answer.code == 0, answer.err
    assert (small / "runs" / "demo" / "model" / "model.safetensors").exists()
    assert "40 sentences" in answer.out
    assert "Sentences that were not in the sample" in answer.out
    assert 'spansieve predict runs/demo/model "' in answer.out


def test_an_old_demo_is_replaced_and_nothing_else_is(terminal, small):
    assert terminal("demo", "--output", "here").code == 0
    (small / "here" / "notes.txt").write_text("mine")
    assert terminal("demo", "--output", "here", "--seed", "1").code == 0
    assert (small / "here" / "notes.txt").read_text() == "mine"
    runs.run(small / "own")
    before = runs.weights(small / "own")
    assert "own already holds a run" in terminal.refused("demo", "--output", "own")
    assert runs.weights(small / "own") == before
