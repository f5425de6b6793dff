"""A head from outside of the package: registered once, then like the others."""

from __future__ import annotations

import pytest

from spansieve.config import ConfigError, ModelConfig
from spansieve.models.crf import CRF
from spansieve.models.head import Head
from spansieve.models.heads import HEADS, head_class, register_head
from spansieve.models.storage import load_model, save_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from tests.training import runs


class Mine(CRF):
    """A CRF under another name."""


class Unfinished(Head):
    kind = "semi-markov"

    def scores(self, vectors):
        return ()


class Unkind(CRF):
    kind = "greedy"


@pytest.fixture(autouse=True)
def only_known():
    known = dict(HEADS)
    yield
    HEADS.clear()
    HEADS.update(known)


def test_a_registered_head_is_built_predicts_and_is_saved_and_loaded(tmp_path):
    with pytest.raises(ConfigError, match=r"model.head must be one of fsemicrf, .*got 'mine'.*register_head"):
        head_class("mine")
    register_head("mine", Mine)
    register_head("mine", Mine)  # again, as when a module is run twice
    tagger = Tagger.for_data(ModelConfig(head="mine", hidden_size=8), runs.TRAIN).eval()
    assert isinstance(tagger.head, Mine)
    save_model(tagger, tmp_path / "model")
    sentences = [example.tokens for example in runs.DEV]
    assert predict_segments(load_model(tmp_path / "model"), sentences) == predict_segments(tagger, sentences)


@pytest.mark.parametrize(
    ("name", "head", "error", "message"),
    [
        ("crf", Mine, ValueError, "name must be new, got 'crf'"),
        ("mine", "Mine", TypeError, "must be a subclass of spansieve.models.head.Head, got 'Mine'"),
        ("mine", Unkind, TypeError, r"Unkind.kind must be one of linear-chain, semi-markov, filtered, nested"),
        ("mine", Unfinished, TypeError, "Unfinished must define gold, losses, distribution_of"),
    ],
)
def test_what_is_no_head_is_refused_at_once(name, head, error, message):
    with pytest.raises(error, match=message):
        register_head(name, head)
    assert "mine" not in HEADS
