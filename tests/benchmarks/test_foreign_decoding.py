"""The benchmark of decoding others' models, with work of no size; and what its page says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import foreign_decoding
from spansieve.data.example import Example
from tests.benchmarks.small_corpus import SPLITS
from tests.benchmarks.small_corpus import files as files
from tests.benchmarks.terminal import terminal as terminal
from tests.docs.pages import ROOT
from tests.training.encoders import tiny_encoder


def test_a_softmax_is_trained_once_and_decoded_in_each_way(terminal, tmp_path, files):
    pytest.importorskip("torchcrf")
    encoder, folder = tiny_encoder(tmp_path / "encoder"), tmp_path / "logits"
    command = ("decode", files[0], files[2], "--encoder", encoder, "--folder", folder, "--out", tmp_path)
    options = ("--seed", 0, "--seed", 3, "--epochs", 3, "--seconds", 0.01)
    answer = terminal(*command, *options)
    assert answer.code == 0, answer.err
    made = {path: path.stat().st_mtime_ns for path in folder.glob("*.npz")}
    assert [path.name for path in sorted(made)] == ["logits-0.npz", "logits-3.npz"]
    assert terminal(*command, *options).code == 0
    assert made == {path: path.stat().st_mtime_ns for path in folder.glob("*.npz")}
    page = (tmp_path / "decode_cpu.md").read_text()
    for name in (foreign_decoding.GREEDY, foreign_decoding.BEST, foreign_decoding.F1):
        assert page.count(f"| {name} |") == 2
    assert page.count("| pytorch-crf, tags |") == page.count("| entities |") == 3


def test_logits_are_scored_as_they_are(tmp_path):
    """Greedy decoding takes what is ill-formed for an entity; the best set has none of it."""
    test = [Example.of("Ada met Bob", [(0, 1, "PER")])]
    logits = np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 1.1]])
    scores = foreign_decoding.scores_of(foreign_decoding.Softmax(0, ["O", "B-PER", "I-PER"], [logits]), test)
    assert scores[foreign_decoding.GREEDY].predicted == 2
    assert scores[foreign_decoding.BEST].f1 == 1.0


def test_every_sentence_has_its_vectors(tmp_path):
    vectors = foreign_decoding.vectors_of(str(tiny_encoder(tmp_path)), SPLITS.test)
    assert [len(rows) for rows in vectors] == [len(example.tokens) for example in SPLITS.test]


def test_the_page_shows_what_was_promised():
    """No seed has a lower F1 than greedy decoding; in batches entities take a twentieth of pytorch-crf's time."""
    page = (ROOT / "results" / "decode_cpu.md").read_text(encoding="utf-8")
    f1 = {
        name: re.findall(rf"\| {name} \| .* \| ([\d.]+) \|", page)
        for name in ("greedy", "best set", "largest expected F1")
    }
    assert len(f1["greedy"]) == 3
    for name in ("best set", "largest expected F1"):
        assert all(float(own) >= float(greedy) for own, greedy in zip(f1[name], f1["greedy"], strict=True))
    speed = dict(re.findall(r"\| (\d+) \| entities \| [\d.]+ \| ([\d.]+) \|", page))
    assert float(speed["32"]) >= 20
    assert float(speed["256"]) >= 20
