"""Training with the encoder replayed as CUDA graphs is training without: the same losses, the same weights."""

from __future__ import annotations

import json

import pytest
import torch

from spansieve.config import ConfigError
from spansieve.nn.encoder import build_encoder
from spansieve.training.run import train
from tests.training import runs
from tests.training.encoders import tiny_encoder

STEPS_APART = {"training__epochs": 8, "training__learning_rate": 0.01, "training__encoder_learning_rate": 0.003}


def test_it_needs_one_batch_a_step():
    with pytest.raises(ConfigError, match="cuda_graphs needs accumulation=1, got 2"):
        runs.config(training__cuda_graphs=True, training__accumulation=2)


def test_it_needs_a_gpu(tmp_path):
    with pytest.raises(ValueError, match="needs one process on a GPU, got 1 on cpu"):
        runs.run(tmp_path / "run", training__cuda_graphs=True)


def test_an_encoder_that_cannot_be_replayed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="needs a pretrained encoder, got the built-in one"):
        build_encoder(runs.config().model).replay_in_training()
    frozen = runs.config(model__encoder__name=str(tiny_encoder(tmp_path / "encoder")), model__encoder__frozen=True)
    with pytest.raises(ValueError, match="needs an encoder that learns"):
        build_encoder(frozen.model).replay_in_training()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("head", ["crf", "fsemicrf"])
def test_replayed_steps_are_those_kernel_by_kernel(tmp_path, head, precision):
    encoder = tiny_encoder(tmp_path / "encoder")
    path = encoder / "config.json"  # no chance in the forward pass: the two ways draw it otherwise
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | still))
    settings = {**runs.STILL, **STEPS_APART, "model__head": head, "model__encoder__name": str(encoder)}
    settings |= {"model__encoder__casing": True, "training__precision": precision, "training__batch_size": 6}
    plain, replayed = (
        train(runs.config(training__cuda_graphs=graphs, **settings), runs.TRAIN, runs.DEV, tmp_path / str(graphs))
        for graphs in (False, True)
    )
    losses = [[epoch["loss"] for epoch in result.history] for result in (plain, replayed)]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2 if precision == "bf16" else 1e-4)
    assert losses[0][-1] < 0.5 * losses[0][0]
