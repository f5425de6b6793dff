"""The benchmark of prediction runs, and what it times finds the same entities."""

from __future__ import annotations

import torch

from benchmarks.prediction_speed import (
    BARE,
    PIPELINE,
    PREPARED,
    TEXT,
    TOKENS,
    Shares,
    _batches,
    _predict,
    _predict_by_parts,
    run_prediction_speed,
)
from spansieve.data.formats import write_examples
from spansieve.models.storage import save_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from tests.benchmarks.terminal import terminal as terminal
from tests.training import runs
from tests.training.encoders import tiny_encoder


def test_everyone_takes_part(tmp_path):
    rows = run_prediction_speed(str(tiny_encoder(tmp_path / "encoder")), runs.DEV, rounds=1)
    names = [row["what"] for row in rows]
    assert {BARE, PREPARED, TOKENS, TEXT, f"{PIPELINE} 1"} <= set(names)
    parts = ("the encoder", "scores of spans", "decoding with probabilities")
    assert names[-3:] == [f"of which {part}" for part in parts]
    assert rows[0]["time"] == rows[0]["CPU time"] == "1.000"


def test_what_is_timed_is_what_predict_does(tmp_path):
    torch.manual_seed(0)
    tagger = Tagger.for_data(runs.config().model, runs.TRAIN).eval()
    tokens = [list(example.tokens) for example in runs.DEV]
    (batch,) = _batches(tagger, tokens, 10_000)
    shares = Shares()
    _predict_by_parts(tagger, [batch], shares)
    assert len(shares.encoder) == len(shares.scores) == len(shares.decoding) == 1
    expected = predict_segments(tagger, tokens, with_probabilities=True)
    by_length = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    assert _predict(tagger, [batch]) == [expected[i] for i in by_length]


def test_the_command_writes_a_table(terminal, tmp_path):
    save_model(Tagger.for_data(runs.config().model, runs.TRAIN), tmp_path / "model")
    write_examples(runs.DEV, tmp_path / "dev.conll")
    options = ["--sentences", "5", "--rounds", "1", "--threads", "1", "--out", tmp_path, "--note", "Busy."]
    answer = terminal("prediction", tmp_path / "model", tmp_path / "dev.conll", *options)
    assert answer.code == 0, answer.err
    page = (tmp_path / "prediction_cpu.md").read_text()
    assert "Made by `python -m benchmarks prediction model dev.conll --sentences 5 --rounds 1 --threads 1`." in page
    assert "Busy." in page
    assert PREPARED in page
