"""Exports cost seconds each: made once, on what everyone asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from spansieve.prediction.onnx.export import export_model
from spansieve.prediction.predictor import Predictor
from tests.nn.tiny import bert_folder
from tests.prediction.onnx.taggers import drawn_tagger
from tests.single_thread import one_thread as one_thread


@pytest.fixture(scope="package")
def words(one_thread, tmp_path_factory) -> tuple[Predictor, Path]:
    """The built-in encoder."""
    tagger = drawn_tagger("fsemicrf", features="endpoints-content")
    folder = tmp_path_factory.mktemp("words") / "export"
    export_model(tagger, folder)
    return Predictor(tagger), folder


@pytest.fixture(scope="package")
def subwords(one_thread, tmp_path_factory) -> tuple[Predictor, Path]:
    """A Hugging Face encoder that holds ten subwords at once."""
    home = tmp_path_factory.mktemp("subwords")
    settings = {"name": bert_folder(home / "bert"), "casing": True, "pooling": "mean", "max_subwords": 12}
    tagger = drawn_tagger("crf", encoder=settings)
    export_model(tagger, home / "export")
    return Predictor(tagger), home / "export"
