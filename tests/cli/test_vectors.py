"""`spansieve train --vectors`: the model's folder is whole, and every way to run it finds the same."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from spansieve.data.formats import read_examples
from spansieve.integrations.hub import load
from spansieve.prediction import onnx
from spansieve.prediction.onnx.export import export_model
from spansieve.prediction.pipeline import Pipeline
from spansieve.training import run
from tests.training import runs

CPU = "--set=run.cpu=true"
SMALL = [part for name, value in runs.SMALL.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture
def vectors(corpus, monkeypatch):
    """Vectors of the first words of the training data, in a file beside it."""
    monkeypatch.chdir(corpus)
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)
    words = sorted({token.lower() for example in read_examples("train.conll") for token in example.tokens})[:9]
    rows = np.random.default_rng(0).normal(size=(len(words), 5)).round(4)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows)]
    (corpus / "words.vec").write_text(f"{len(words)} 5\n{''.join(lines)}", encoding="utf-8")
    return corpus / "words.vec"


TRAIN = ["train", "train.conll", "dev.conll", "--output", "run", CPU, "--vectors", "words.vec"]


@pytest.mark.parametrize("train_vectors", ["false", "true"])
def test_the_folder_is_whole_and_every_way_finds_the_same(terminal, corpus, vectors, train_vectors):
    answer = terminal(*TRAIN, *SMALL, "--set", f"model.builtin.train_vectors={train_vectors}")
    assert answer.code == 0, answer.err
    assert "9 vectors of 5 dimensions, words.vec; there is one for " in answer.out
    assert "% of the training words and " in answer.out
    vectors.unlink()
    shutil.move(corpus / "run" / "model", corpus / "moved")
    assert json.loads((corpus / "moved" / "config.json").read_text())["model"]["builtin"]["vectors"] == "words.vec"
    model = load(corpus / "moved")
    sentences = [example.tokens for example in runs.DEV]
    expected = model.predict_tokens(sentences, True)
    export_model(model.tagger, corpus / "export")
    found = onnx.load(corpus / "export", threads=1).predict_tokens(sentences, True)
    assert [one.segments for one in found] == [one.segments for one in expected]
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)
    texts = [" ".join(tokens) for tokens in sentences]
    with Pipeline(model.tagger, workers=1) as pipeline:
        in_bulk = [entities for _, entities in pipeline.stream(texts)]
    assert [[e[:3] for e in one] for one in in_bulk] == [[e[:3] for e in model.predict(text)] for text in texts]


def test_a_run_with_vectors_goes_on_and_is_started_from(terminal, corpus, vectors):
    assert terminal(*TRAIN, *SMALL).code == 0
    assert terminal(*TRAIN, *SMALL, "--resume").code == 0
    vectors.unlink()
    again = ["train", "train.conll", "dev.conll", "--output", "again", CPU, "--start-from", "run/model"]
    answer = terminal(*again, "--epochs", "1")
    assert answer.code == 0, answer.err
    assert "9 vectors of 5 dimensions, words.vec" in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vectors", "none.txt"], "there is no none.txt"),
        (["--vectors", "train.conll"], "train.conll line 1"),
        (["--vectors", "words.vec", "--encoder", "some/bert"], "builtin.vectors needs encoder.name='builtin'"),
        (["--vectors", "words.vec", "--max-vectors", "0"], "max_vectors must be at least 1, got 0"),
    ],
)
def test_vectors_that_cannot_be_used_are_one_line(terminal, corpus, vectors, arguments, message):
    answer = terminal(*TRAIN[:-2], *arguments, *SMALL)
    assert answer.code == 1
    assert message in answer.err.replace("\n", " ")
    assert not (corpus / "run" / "model").exists()


def test_damaged_vectors_of_a_model_are_refused(terminal, corpus, vectors):
    assert terminal(*TRAIN, *SMALL).code == 0
    path = corpus / "run" / "model" / "encoder" / "vectors.safetensors"
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    answer = terminal("predict", "run/model", "Ada")
    assert answer.code == 1
    assert "vectors.safetensors is damaged" in answer.err.replace("\n", "")
