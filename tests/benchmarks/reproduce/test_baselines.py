"""The paper's decoders find on our models' scores what ours find: they are compared at the same work."""

from __future__ import annotations

import pytest
import torch

from benchmarks.reproduce.baselines import baseline, longest_path
from benchmarks.reproduce.scored_batch import Scored
from spansieve.segments import Segment
from tests.prediction.test_error_analysis import SENTENCES, tagger

TOKENS = [text.split() for text in SENTENCES]


@pytest.fixture(params=["crf", "semicrf", "semicrf-unit-null", "fsemicrf", "filter-only"])
def scored(request):
    return Scored.of(tagger(request.param), TOKENS)


def test_decoding_from_known_scores_is_the_models_own(scored):
    with torch.inference_mode():
        modes = scored.tagger.distribution(scored.batch).mode
        names = ("", *scored.tagger.labels)
        entities = [scored.tagger.head.entities(mode) for mode in modes]
    expected = [[(start, end, names[label]) for start, end, label in some] for some in entities]
    assert [prediction.segments for prediction in scored.decode()] == expected
    assert scored.predict() == scored.decode()
    assert [tuple(score.shape) for score in scored.score()] == [tuple(score.shape) for score in scored.scores]


def test_the_scores_of_the_model_itself_are_left_alone(scored):
    scored.decode()
    assert "scores" not in vars(scored.tagger.head)


def test_pytorch_crf_finds_the_same():
    pytest.importorskip("torchcrf")
    scored = Scored.of(tagger("crf"), TOKENS)
    name, decode = baseline(scored)
    assert name == "pytorch-crf"
    assert decode() == scored.distribution().mode


@pytest.mark.parametrize("head", ["semicrf", "semicrf-unit-null"])
def test_torch_struct_finds_the_same(head):
    pytest.importorskip("torch_struct")
    scored = Scored.of(tagger(head), TOKENS)
    name, decode = baseline(scored)
    assert name == "torch-struct"
    edges = decode()  # (B, L, K + 1, Y, Y)
    for b, structure in enumerate(scored.distribution().mode):
        found = {(start, start + width, label) for start, width, label, _ in edges[b].nonzero().tolist()}
        assert found == set(structure)


@pytest.mark.parametrize(("head", "skip"), [("fsemicrf", False), ("fsemicrf", True), ("filter-only", False)])
def test_plain_python_finds_the_same(head, skip):
    scored = Scored.of(tagger(head, skip), TOKENS)
    name, decode = baseline(scored)
    assert name == "plain Python"
    assert [tuple(path) for path in decode()] == [tuple(path) for path in scored.distribution().mode]


def test_the_longest_path_of_nothing_is_empty():
    assert longest_path([], [[0.0]]) == []
    assert longest_path([(Segment(1, 2, 1), -3.0)], [[0.0] * 2] * 2) == [(1, 2, 1)]
