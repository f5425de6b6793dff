"""Captured training steps are steps kernel by kernel: the same losses one by one, the same random numbers of a step."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from spansieve.config import ConfigError
from spansieve.data.example import Example
from spansieve.models.tagger import Tagger
from spansieve.nn.pretrained_encoder import PretrainedEncoder
from spansieve.training.optimizer import build_optimizer
from spansieve.training.run import train
from spansieve.training.run_folder import TrainingError
from spansieve.training.step_graphs import StepGraphs, fill_state, step_graphs
from spansieve.training.trainer import Trainer
from tests.training import runs
from tests.training.encoders import tiny_encoder
from tests.training.test_packed_batches import unpadded_gold

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
STEPS = {"training__epochs": 8, "training__learning_rate": 0.01, "training__encoder_learning_rate": 0.003}
PRESET = {"model__skip": True, "model__margin": 3.0, "model__global_loss": "unfiltered", "model__score_null": True}


def test_it_needs_one_batch_a_step():
    with pytest.raises(ConfigError, match="cuda_graphs needs accumulation=1, got 2"):
        runs.config(training__cuda_graphs=True, training__accumulation=2)


def test_it_needs_a_gpu(tmp_path):
    with pytest.raises(ValueError, match="needs one process on a GPU, got 1 on cpu"):
        runs.run(tmp_path / "run", training__cuda_graphs=True)


def test_without_a_gpu_nothing_is_warned_of(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        runs.run(tmp_path / "run", training__epochs=1, training__cuda_graphs=None)


@pytest.mark.parametrize(
    ("settings", "processes", "obstacle"),
    [
        ({}, 2, "one process on a GPU, got 2 on cuda"),
        ({"training__accumulation": 2}, 1, "training.accumulation=1, got 2"),
        ({"model__head": "nested"}, 1, "a head with takes_padded_gold, got Nested"),
        ({"model__encoder__gradient_checkpointing": True}, 1, "gradient_checkpointing=false, got true"),
    ],
)
def test_what_cannot_be_captured_is_told_once(settings, processes, obstacle):
    config = runs.config(training__cuda_graphs=None, **settings)
    tagger = Tagger.for_data(config.model, runs.TRAIN)
    accelerator: Any = SimpleNamespace(
        device=torch.device("cuda"), num_processes=processes, is_main_process=True
    )  # which may be named where there is none
    optimizer = build_optimizer(tagger, config.training)
    given = (tagger, tagger, optimizer, None)
    with pytest.warns(RuntimeWarning, match=f"goes on kernel by kernel: CUDA graphs need .*{obstacle}") as warned:
        assert step_graphs(accelerator, config.training, *given) is None
    assert len(warned) == 1
    if "training__accumulation" not in settings:
        demanded = replace(config.training, cuda_graphs=True)
        with pytest.raises(ValueError, match=f"training.cuda_graphs needs .*{obstacle}"):
            step_graphs(accelerator, demanded, *given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step_graphs(accelerator, replace(config.training, cuda_graphs=False), *given) is None


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_the_state_of_an_optimizer_is_made_without_a_step(kind):
    old, new, idle = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(3))
    optimizer = kind([old, new, idle], lr=0.1, weight_decay=0.3, fused=True)
    old.grad = torch.ones(2)
    optimizer.step()
    before = [parameter.detach().clone() for parameter in (old, new, idle)]
    state = {name: tensor.clone() for name, tensor in optimizer.state[old].items()}
    new.grad = torch.ones(2)
    fill_state(optimizer, [old, new, idle])
    assert all(torch.equal(*pair) for pair in zip(before, (old, new, idle)))
    assert all(torch.equal(tensor, state[name]) for name, tensor in optimizer.state[old].items())
    assert [tensor.any() for tensor in optimizer.state[new].values()] == [False] * len(state)
    assert idle not in optimizer.state
    assert old.grad is new.grad is None


class StepsOnCpu(StepGraphs):
    """The steps that are captured, run as they are: padded batches, and all that changes in their header."""

    def __init__(self, tagger, optimizer, ema, clip):
        self.losses, self.parameters, self.optimizer = tagger, list(tagger.parameters()), optimizer
        self.ema, self.clip, self.total, self.norm = ema, clip, torch.zeros(()), torch.zeros(())

    def __call__(self, packed, inputs):
        packed.set_header([1 / inputs.num_sentences, inputs.kept, *inputs.rates])
        self._step(unpadded_gold(packed.on(packed.data)[0]), packed.on(packed.data)[1])
        return True


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_run_of_padded_steps_is_that_run(tmp_path, monkeypatch, optimizer):
    """Rates, clipping, EMA and the mean over the sentences, of which a step may have fewer than others."""
    settings = {**runs.STILL, "training__batch_size": 5, "training__ema_decay": 0.9, "training__optimizer": optimizer}
    plain = runs.run(tmp_path / "plain", **settings)
    made = []

    def on_cpu(accelerator, config, model, tagger, optimizer, ema):
        made.append(StepsOnCpu(tagger, optimizer, ema, config.clip))
        return made[0]

    monkeypatch.setattr("spansieve.training.trainer.step_graphs", on_cpu)
    padded = runs.run(tmp_path / "padded", **settings)
    assert float(made[0].norm) > 0
    losses = [[epoch["loss"] for epoch in result.history] for result in (plain, padded)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("plain", "padded")]
    assert_close(*weights, rtol=1e-3, atol=1e-4)


# ---- On a GPU --------------------------------------------------------------------------------------------------------


@pytest.fixture
def encoder(tmp_path):
    """An encoder without chance in the forward pass: a padded batch draws other numbers."""
    folder = tiny_encoder(tmp_path / "encoder")
    path = folder / "config.json"
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | still))
    return str(folder)


@pytest.fixture
def steps(monkeypatch):
    """The loss of each step, by whether it was replayed."""
    seen: list[tuple[float, bool]] = []
    real = Trainer._train_step

    def noted(self, step, prepared):
        real(self, step, prepared)
        is_replayed = self.graphs is not None and self._totals[-1:] and self.replayed_last
        seen.append((float(self._totals[-1]) if self._totals else float("nan"), bool(is_replayed)))

    monkeypatch.setattr(Trainer, "_train_step", noted)
    monkeypatch.setattr(Trainer, "_is_report_due", lambda self: False)
    replayed = Trainer._replayed

    def noting(self, prepared, inputs):
        self.replayed_last = replayed(self, prepared, inputs)
        return self.replayed_last

    monkeypatch.setattr(Trainer, "_replayed", noting)
    return seen


def both_ways(folder, steps, **settings):
    """The losses of the steps of a run kernel by kernel, and of one of graphs."""
    losses = []
    for graphs in (False, True):
        steps.clear()
        train(runs.config(training__cuda_graphs=graphs, **settings), runs.TRAIN, runs.DEV, folder / str(graphs))
        assert {is_replayed for _, is_replayed in steps} == {graphs}
        losses.append([loss for loss, _ in steps])
    return losses


PAPER, PRESET_LOSS = {"model__head": "fsemicrf"}, {"model__head": "fsemicrf", **PRESET}
CASES = [
    (PAPER, "bf16"),
    (PRESET_LOSS, "bf16"),
    ({"model__head": "crf"}, "bf16"),
    ({"model__head": "semicrf"}, "bf16"),
    ({"model__head": "filter-only"}, "bf16"),
]
MORE_CASES = [  # which take a minute each where the device is emulated
    (PAPER, "no"),
    (PRESET_LOSS, "no"),
    ({"model__head": "crf"}, "no"),
    (PAPER | {"model__features": "sum"}, "bf16"),
    (PAPER | {"training__ema_decay": 0.9, "training__optimizer": "adam"}, "bf16"),
    (PAPER | {"model__encoder__pooling": "mean", "training__clip": None}, "bf16"),
    (PAPER | {"model__encoder__frozen": True}, "bf16"),
]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in MORE_CASES]


@needs_gpu
@pytest.mark.parametrize(("own", "precision"), CASES, ids=lambda case: str(case).replace("model__", ""))
def test_replayed_steps_are_those_kernel_by_kernel(tmp_path, steps, encoder, own, precision):
    settings = {**runs.STILL, **STEPS, "model__encoder__name": encoder, "model__encoder__casing": True} | own
    settings |= {"training__precision": precision, "training__batch_size": 5}  # 18 sentences: a step is short
    plain, replayed = both_ways(tmp_path, steps, **settings)
    assert len(plain) == 32
    part, least = (5e-2, 5e-2) if precision == "bf16" else (2e-3, 5e-3)
    assert replayed == pytest.approx(plain, rel=part, abs=least)
    assert plain[-1] < 0.7 * plain[0]


@needs_gpu
@pytest.mark.parametrize("context", ["lstm", "conv"])
def test_the_builtin_encoder_is_captured_too(tmp_path, steps, context):
    settings = {**runs.STILL, "training__epochs": 4, "model__builtin__context": context, "training__batch_size": 5}
    plain, replayed = both_ways(tmp_path, steps, **settings)
    assert replayed == pytest.approx(plain, rel=2e-3, abs=2e-2)


@needs_gpu
def test_a_step_has_the_random_numbers_of_its_number(tmp_path, monkeypatch):
    """A run that goes on from the middle of an epoch, with dropout, ends with the same weights."""
    settings = {"model__encoder__name": str(tiny_encoder(tmp_path / "encoder")), "training__cuda_graphs": True}
    settings |= {"training__epochs": 2, "training__checkpoint_seconds": 0.0, "training__ema_decay": 0.9}
    config = runs.config(**settings)
    train(config, runs.TRAIN, runs.DEV, tmp_path / "unbroken")
    shutil.copytree(tmp_path / "unbroken", tmp_path / "broken")
    (tmp_path / "broken" / "results.json").unlink()
    shutil.rmtree(max((tmp_path / "broken" / "checkpoints").iterdir()))
    train(config, runs.TRAIN, runs.DEV, tmp_path / "broken", resume=True)
    assert runs.newest(tmp_path / "broken") == runs.newest(tmp_path / "unbroken")
    other = runs.config(**settings, training__seed=1)
    train(other, runs.TRAIN, runs.DEV, tmp_path / "other")
    assert runs.newest(tmp_path / "other") != runs.newest(tmp_path / "unbroken")


@needs_gpu
@pytest.mark.parametrize("obstacle", ["synchronises", "fails in the capture"])
def test_an_encoder_that_cannot_be_captured_is_trained_all_the_same(tmp_path, steps, encoder, obstacle, monkeypatch):
    real = PretrainedEncoder.read_at_once

    def read(self, ids, *rest):
        if obstacle == "synchronises":
            assert int(ids.max()) >= 0
        elif torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()
        return real(self, ids, *rest)

    monkeypatch.setattr(PretrainedEncoder, "read_at_once", read)
    config = runs.config(model__encoder__name=encoder, training__cuda_graphs=None, **runs.STILL, **STEPS)
    with pytest.warns(RuntimeWarning, match="kernel by kernel: a step cannot be captured") as warned:
        train(config, runs.TRAIN, runs.DEV, tmp_path / "run")
    assert len([one for one in warned if "kernel by kernel" in str(one.message)]) == 1
    assert {is_replayed for _, is_replayed in steps} == {False}
    assert steps[-1][0] < steps[0][0]
    torch.cuda.empty_cache()  # which torch refuses while it takes a capture to be under way
    config = runs.config(model__encoder__name=encoder, training__cuda_graphs=True)
    with pytest.raises(TrainingError, match=r"cannot be captured .*: train with training\.cuda_graphs=false"):
        train(config, runs.TRAIN, runs.DEV, tmp_path / "demanded")


@needs_gpu
def test_a_capture_that_fails_later_ends_those_before_it(tmp_path, steps, encoder, monkeypatch):
    """They no longer draw the random numbers of their steps."""
    real = PretrainedEncoder.read_at_once

    def read(self, ids, *rest):
        if torch.cuda.is_current_stream_capturing() and ids.shape[-1] > 24:
            torch.cuda.synchronize()
        return real(self, ids, *rest)

    monkeypatch.setattr(PretrainedEncoder, "read_at_once", read)
    settings = {"model__head": "crf", "model__encoder__name": encoder, "training__cuda_graphs": None, **runs.STILL}
    config = runs.config(**settings, training__epochs=2)
    with pytest.warns(RuntimeWarning, match="kernel by kernel: a step cannot be captured"):
        train(config, [*runs.TRAIN, Example.of(["Ada"] * 20, [])], runs.DEV, tmp_path / "run")
    flags = [is_replayed for _, is_replayed in steps]
    assert flags == sorted(flags, reverse=True)
    assert set(flags) == {True, False}


@needs_gpu
def test_memory_is_bounded(tmp_path, steps, encoder, monkeypatch):
    kept: list[StepGraphs] = []
    real = StepGraphs.__init__

    def noted(self, *arguments):
        kept.append(self)
        real(self, *arguments)

    monkeypatch.setattr(StepGraphs, "__init__", noted)
    monkeypatch.setattr("spansieve.training.step_graphs.MEGABYTE", 1)  # so small is the encoder
    settings = {**runs.STILL, "training__cuda_graphs": None, "training__graph_memory": 1}
    config = runs.config(model__encoder__name=encoder, **settings)
    with pytest.warns(RuntimeWarning, match=r"the graphs would need [\d,]+ MB, and 1 are allowed"):
        train(config, runs.TRAIN, runs.DEV, tmp_path / "run")
    assert kept[0].memory == 0
    assert {is_replayed for _, is_replayed in steps} == {False}
