"""An exported model finds what the model finds, with the same probabilities, and needs no torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spansieve.decoding.constraints import Constraints
from spansieve.decoding.prediction import Prediction
from spansieve.evaluation.scores import evaluate
from spansieve.models.filtered import FilteredHead
from spansieve.models.heads import HEADS
from spansieve.models.inference import readable_sentences
from spansieve.models.tagger import Tagger
from spansieve.prediction import onnx
from spansieve.prediction.onnx import export
from spansieve.prediction.onnx import onnx_predictor as predictor_module
from spansieve.prediction.onnx.export import _quantise, export_model
from spansieve.prediction.onnx.folder import ENCODER, MANIFEST, NAMES, read_description, write_description
from spansieve.prediction.predictor import Predictor
from spansieve.segments import Segment
from tests.nn.tiny import bert_folder, roberta_folder
from tests.prediction.onnx.taggers import drawn_sentences, drawn_tagger

BOTH = pytest.mark.parametrize("kind", ["words", "subwords"])
TEXT = "Ada  Lovelace met the UN in\tParis.\n\nThen\u200b القاهرة and 👍🏽, abc!"


def same(found: list[Prediction], expected: list[Prediction]) -> bool:
    """The same segments, and probabilities as far as single precision goes."""
    if [one.segments for one in found] != [one.segments for one in expected]:
        return False
    pairs = [(one.probabilities, other.probabilities) for one, other in zip(found, expected)]
    return all(np.allclose(p, q, rtol=1e-4, atol=1e-5) for p, q in pairs if p is not None or q is not None)


def check_same(model: Predictor, exported: onnx.OnnxPredictor, sentences: list[list[str]]) -> None:
    for probabilities in (True, False):
        expected, found = (one.predict_tokens(sentences, probabilities) for one in (model, exported))
        assert sum(len(one.segments) for one in expected) > 0
        is_tie = [are_level(model.tagger, *each) for each in zip(sentences, found, expected)]
        assert sum(is_tie) < len(sentences) / 2
        assert same(*([one for one, level in zip(some, is_tie) if not level] for some in (found, expected)))


def are_level(tagger: Tagger, sentence: list[str], one: Prediction, other: Prediction) -> bool:
    """Segments differ, of which both sets are paths with one score: then rounding decides. Of the largest features,
    two spans that differ by a token which adds nothing have the same scores."""
    if one.segments == other.segments or not isinstance(tagger.head, FilteredHead):
        return False
    batch = tagger.batch(readable_sentences([sentence]))
    structures = [
        [Segment(s.start, s.end, tagger.labels.id(s.label)) for s in found.segments] for found in (one, other)
    ]
    with torch.no_grad():
        distribution = tagger.head.distribution(tagger.vectors(batch), batch.lengths)
        scores = [float(distribution.score([structure])) for structure in structures]
    return scores[0] == pytest.approx(scores[1], abs=1e-4)


@BOTH
def test_the_same_coverage(kind, request):
    model, folder = request.getfixturevalue(kind)
    exported, sentences = onnx.load(folder), [one for one in drawn_sentences(0) if one]
    expected, found = (one.cover_tokens(sentences) for one in (model, exported))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one.coverage, other.coverage, rtol=1e-4, atol=1e-5)


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_the_model_finds(kind, seed, request):
    model, folder = request.getfixturevalue(kind)
    check_same(model, onnx.load(folder, threads=1), drawn_sentences(seed))


@pytest.mark.parametrize("head", sorted(HEADS))
def test_every_head_finds_what_the_model_finds(head, tmp_path):
    model = Predictor(drawn_tagger(head))
    export_model(model.tagger, tmp_path / "export")
    exported = onnx.load(tmp_path / "export")
    check_same(model, exported, drawn_sentences(4))
    texts = [TEXT, " . ".join(TEXT.split()), ""]
    for objective in ("probability", "f1=0.12"):
        both = (one.with_objective(objective).predict(texts) for one in (exported, model))
        for found, theirs in zip(*both, strict=True):
            assert [entity[:4] for entity in found] == [entity[:4] for entity in theirs]


@BOTH
def test_the_filters_own_probability(kind, request):
    model, folder = request.getfixturevalue(kind)
    both = Predictor(model.tagger, probability="with-filter"), onnx.load(folder, probability="with-filter")
    check_same(*both, drawn_sentences(3))
    is_filtered = kind == "words"
    given = model.predict_tokens(drawn_sentences(3), probabilities=True)
    assert same(both[1].predict_tokens(drawn_sentences(3), probabilities=True), given) != is_filtered
    with pytest.raises(ValueError, match="probability must be one of given-candidates, with-filter, got 'abacus'"):
        onnx.load(folder, probability="abacus")


@BOTH
def test_texts_have_the_same_entities(kind, request):
    model, folder = request.getfixturevalue(kind)
    exported = onnx.load(folder)
    assert exported.labels == model.labels == ("LOC", "ORG", "PER")
    for sentences in (True, False):
        expected = model.predict(TEXT, sentences=sentences)
        found = exported.predict(TEXT, sentences=sentences)
        assert [entity[:4] for entity in found] == [entity[:4] for entity in expected]
        assert all(TEXT[entity.start : entity.end] == entity.text for entity in found)
    assert [e.segments for e in exported.examples([TEXT])] == [e.segments for e in model.examples([TEXT])]
    assert exported.predict("") == []


def test_a_threshold(words):
    model, folder = words
    exported = onnx.load(folder)
    entities = exported.predict(TEXT)
    middle = sum(entity.probability for entity in entities) / len(entities)
    likely = exported.predict(TEXT, threshold=middle)
    assert 0 < len(likely) < len(entities)
    assert likely == [entity for entity in entities if entity.probability >= middle]
    assert [e[:4] for e in likely] == [e[:4] for e in model.predict(TEXT, threshold=middle)]


@settings(max_examples=25, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text(words, subwords, text):
    for model, folder in (words, subwords):
        expected = model.predict(text)
        found = _loaded(folder).predict(text)
        assert [entity[:4] for entity in found] == [entity[:4] for entity in expected]


def _loaded(folder: Path, known: dict[Path, onnx.OnnxPredictor] = {}) -> onnx.OnnxPredictor:  # noqa: B006
    if folder not in known:
        known[folder] = onnx.load(folder, threads=1)
    return known[folder]


@BOTH
def test_batches_and_blocks_make_no_difference(kind, request, monkeypatch):
    model, folder = request.getfixturevalue(kind)
    sentences = [*drawn_sentences(5), ["Paris", "the", "abc"] * 40]  # in several windows, and in several blocks
    for block, subwords, tokens in ((256, 16_384, None), (7, 30, 20), (1, 1, 1)):
        monkeypatch.setattr(predictor_module, "BLOCK", block)
        monkeypatch.setattr(predictor_module, "MOST_SUBWORDS", subwords)
        check_same(model, onnx.load(folder, batch_tokens=tokens), sentences)


def test_a_long_text_is_one_sequence(words):
    model, folder = words
    text = "the abc of London " * 3_000
    expected, found = model.predict(text, sentences=False), onnx.load(folder).predict(text, sentences=False)
    assert [entity[:4] for entity in found] == [entity[:4] for entity in expected]
    assert len(found) > 100


@pytest.mark.parametrize("pooling", ["first", "mean", "last"])
def test_every_pooling(subwords, pooling):
    _, folder = subwords
    made = drawn_tagger("crf", encoder={"name": bert_folder(folder.parent / "bert"), "pooling": pooling}).encoder
    made.eval().requires_grad_(False)

    def graph(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray]:
        return (made.read_at_once(*map(torch.from_numpy, arrays.values())).numpy(),)

    encoder = predictor_module.SubwordEncoder(graph, made.tokenizer.backend_tokenizer, made.layout, pooling)
    sentences = readable_sentences(drawn_sentences(1))
    vectors = encoder.vectors(encoder.features(sentences))
    np.testing.assert_allclose(vectors, made(made.features(sentences)).numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_no_sentence_is_refused(words):
    exported = _loaded(words[1])
    with pytest.raises(TypeError, match="a sentence must be a sequence of tokens"):
        exported.predict_tokens(["Paris"])
    with pytest.raises(ValueError, match="batch_tokens must be at least 1, got 0"):
        onnx.load(words[1], batch_tokens=0)


# ---- Without torch ---------------------------------------------------------------------------------------------------

ALONE = """
import builtins, json, sys
real = builtins.__import__
def guarded(name, *rest, **more):
    if name.split(".")[0] in ("torch", "transformers", "onnx", "accelerate"):
        raise ImportError(name + " was asked for")
    return real(name, *rest, **more)
builtins.__import__ = guarded
from spansieve.prediction.onnx import load
found = load(sys.argv[1]).predict(sys.argv[2])
assert "torch" not in sys.modules
print(json.dumps(found))
"""


def found_alone(folder: Path) -> list[list]:
    """The entities of the text, in a process that cannot import torch."""
    command = [sys.executable, "-c", ALONE, str(folder), TEXT]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=os.environ, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@BOTH
def test_no_torch_is_imported(kind, request):
    model, folder = request.getfixturevalue(kind)
    assert [entity[:4] for entity in found_alone(folder)] == [list(entity[:4]) for entity in model.predict(TEXT)]


# ---- In 8 bits -------------------------------------------------------------------------------------------------------


def test_in_8_bits_most_is_found_again(words, tmp_path):
    model, folder = words
    small = shutil.copytree(folder, tmp_path / "int8")
    _quantise(small / ENCODER, is_large=False)
    (small / MANIFEST).unlink()
    write_description(small, replace(read_description(folder), int8=True))
    assert {path.name for path in small.iterdir()} == {path.name for path in folder.iterdir()}
    sentences = [sentence for sentence in drawn_sentences(2, count=60) if sentence]
    expected, found = (one.predict_tokens(sentences, probabilities=True) for one in (model, onnx.load(small)))
    scores = evaluate([one.segments for one in expected], [one.segments for one in found], list(map(len, sentences)))
    assert scores.micro.f1 > 0.8
    assert not same(found, expected)  # or nothing was in 8 bits


# ---- All of them -----------------------------------------------------------------------------------------------------

CASES = [
    ("fsemicrf", {"features": "mean"}),
    ("fsemicrf", {"features": "max", "skip": True}),
    ("crf", {"scheme": "BIO"}),
    ("semicrf", {"features": "mean"}),
    ("semicrf-unit-null", {"features": "endpoints"}),
    ("filter-only", {"features": "endpoints-content", "skip": True}),
    ("global-selection", {"features": "endpoints"}),
    ("nested", {"features": "max"}),
    ("nested-filter-only", {"features": "endpoints"}),
]


def test_every_head_is_here():
    assert {head for head, _ in CASES} == set(HEADS)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["lstm", "conv"])
@pytest.mark.parametrize(("head", "settings"), CASES, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1])
def test_every_head_on_the_built_in_encoder(head, settings, context, tmp_path):
    tagger = drawn_tagger(head, context=context, **settings)
    export_model(tagger, tmp_path / "export")
    for seed in range(5):
        check_same(Predictor(tagger), onnx.load(tmp_path / "export"), drawn_sentences(seed))


@pytest.mark.slow
@pytest.mark.parametrize("make", [bert_folder, roberta_folder])
@pytest.mark.parametrize(("head", "settings"), CASES, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1])
def test_every_head_on_hugging_face_encoders(head, settings, make, tmp_path):
    turn = CASES.index((head, settings)) + (make is roberta_folder)
    pooling = ("first", "mean", "last")[turn % 3]
    encoder = {
        "name": make(tmp_path / "encoder"),
        "pooling": pooling,
        "casing": turn % 2 == 0,
        "max_subwords": 12 + turn,
    }
    tagger = drawn_tagger(head, encoder=encoder, **settings)
    export_model(tagger, tmp_path / "export")
    for seed in range(5):
        check_same(Predictor(tagger), onnx.load(tmp_path / "export"), drawn_sentences(seed))


def test_nested_entities(tmp_path):
    """What lies within another has its depth, and may be required there."""
    model = Predictor(drawn_tagger("nested", features="max"))
    export_model(model.tagger, tmp_path / "export")
    exported = onnx.load(tmp_path / "export")
    check_same(model, exported, drawn_sentences(1))
    expected = [(*entity[:4], entity.depth) for entity in model.predict(TEXT)]
    assert [(*entity[:4], entity.depth) for entity in exported.predict(TEXT)] == expected
    assert [(*entity[:4], entity[5]) for entity in found_alone(tmp_path / "export")] == expected
    assert max(depth for *_, depth in expected) > 0
    known = [Constraints([(1, 4, "LOC"), (1, 3, "ORG"), (2, 3, "PER"), (6, 7, "LOC")], [(5, 7)])]
    sentence = [["Paris", "the", "UN", "of", "London", "abc", "McGill"]]
    found = exported.predict_tokens(sentence, True, known)
    assert set(found[0].segments) >= set(known[0].required)
    assert same(found, model.predict_tokens(sentence, True, known))


@pytest.mark.slow
def test_sums_have_the_same_scores(tmp_path):
    """By sums, two neighbours of one label score the same wherever they meet, and rounding decides: scores it is."""
    tagger = drawn_tagger("semicrf", features="sum")
    export_model(tagger, tmp_path / "export")
    exported = onnx.load(tmp_path / "export")
    sentences = [sentence for sentence in readable_sentences(drawn_sentences(1)) if sentence]
    batch = tagger.batch(sentences)
    with torch.no_grad():
        expected = tagger.head.scores(tagger.vectors(batch))[0].numpy()
    lengths = batch.lengths.numpy()
    backend = exported.backend
    (found,) = backend._scores(backend._encoder.vectors(backend.features(sentences)))
    is_span = np.arange(lengths.max())[:, None] + np.arange(1, 4) <= lengths[:, None, None]
    np.testing.assert_allclose(found[is_span], expected[is_span], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("int8", [False, True])
def test_weights_too_many_for_one_file(int8, tmp_path, monkeypatch):
    tagger, folder, one_file = drawn_tagger("fsemicrf"), tmp_path / "export", tmp_path / "one-file"
    export_model(tagger, one_file, int8)
    monkeypatch.setattr(export, "LARGEST", 0)
    export_model(tagger, folder, int8)
    assert "encoder.onnx.data" in json.loads((folder / MANIFEST).read_text())["files"]
    assert {path.name for path in folder.iterdir()} == {*NAMES - {"tokenizer.json", "vectors.safetensors"}, MANIFEST}
    assert "encoder.onnx.data" not in json.loads((one_file / MANIFEST).read_text())["files"]
    found, expected = (onnx.load(each).predict_tokens(drawn_sentences(1), True) for each in (folder, one_file))
    assert sum(len(one.segments) for one in expected) > 0
    assert same(found, expected)


def test_an_export_asks_for_a_torch_that_can_write_it(words, tmp_path, monkeypatch):
    predictor, _ = words
    monkeypatch.setattr(export, "ops", None)
    with pytest.raises(ImportError, match=r"torch must be 2\.8 or later, got \d.*: pip install -U torch"):
        export.export_model(predictor.tagger, tmp_path / "export")
    assert not (tmp_path / "export").exists()
