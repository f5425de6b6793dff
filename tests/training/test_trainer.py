"""The loop: repeatable, stopped in time, told when it diverges."""

from __future__ import annotations

import copy
import math
import shutil
from dataclasses import asdict, dataclass, field

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from spansieve.data.example import Example
from spansieve.models.heads import HEADS
from spansieve.models.tagger import Tagger
from spansieve.training import trainer
from spansieve.training.callbacks import DataCounts, EpochReport, StepReport
from spansieve.training.run import train
from spansieve.training.run_folder import TrainingError
from spansieve.training.trainer import uppercased
from tests.training import runs


@dataclass
class Watching:
    starts: list[tuple[DataCounts, int, int]] = field(default_factory=list)
    steps: list[StepReport] = field(default_factory=list)
    epochs: list[EpochReport] = field(default_factory=list)

    def on_start(self, *start) -> None:
        self.starts.append(start)

    def on_step(self, report: StepReport) -> None:
        self.steps.append(report)

    def on_epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)


# ---- The same, again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"training__ema_decay": 0.8}, {"model__head": "crf"}])
def test_the_same_seed_gives_the_same_bytes(tmp_path, settings):
    for name in ("one", "two"):
        runs.run(tmp_path / name, **settings)
        torch.rand(3)  # whatever happened before does not matter
    assert runs.outcome(tmp_path / "one") == runs.outcome(tmp_path / "two")


def test_another_seed_or_averaging_gives_other_weights(tmp_path, unbroken):
    runs.run(tmp_path / "seed", training__seed=1)
    runs.run(tmp_path / "average", training__ema_decay=0.8)
    assert len({runs.weights(folder) for folder in (unbroken, tmp_path / "seed", tmp_path / "average")}) == 3
    assert runs.newest(tmp_path / "average")["model.safetensors"] == runs.newest(unbroken)["model.safetensors"]


def test_the_history_does_not_depend_on_when_reports_are_made(tmp_path, unbroken, monkeypatch):
    monkeypatch.setattr(trainer, "SECONDS_PER_REPORT", 0.0)
    watching = Watching()
    train(runs.config(), runs.TRAIN, runs.DEV, tmp_path, observer=watching, use_cpu=True)
    assert [report.step for report in watching.steps] == list(range(1, 19))
    assert runs.outcome(tmp_path) == runs.outcome(unbroken)


def test_what_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "SECONDS_PER_REPORT", 0.0)
    watching = Watching()
    result = train(runs.config(), runs.TRAIN, runs.DEV, tmp_path, observer=watching, use_cpu=True)
    counts, num_steps, step = watching.starts[0]
    assert (counts.sentences, counts.entities, counts.labels, num_steps, step) == (18, 36, ("LOC", "PER"), 18, 0)
    assert [asdict(report) for report in watching.epochs] == result.history
    for report in watching.steps:
        assert report.num_steps == 18
        assert report.tokens_per_second > 0
    by_steps = [sum(r.loss for r in watching.steps if r.epoch == epoch) / 6 for epoch in (1, 2, 3)]
    assert [entry["loss"] for entry in result.history] == pytest.approx(by_steps, rel=1e-5)
    assert all({"nodes", "edges", "filter_recall"} == set(entry["graph"]) for entry in result.history)


def test_what_cannot_be_learned_is_counted(tmp_path):
    odd = Example.of("New York City Hall", [(0, 4, "PER"), (0, 2, "LOC")])
    wide = Example.of("one two three four five six", [(0, 6, "PER")])
    dev = [*runs.DEV, Example.of("ACME", [(0, 1, "ORG")])]
    watching = Watching()
    settings = runs.config(model__max_width=4, training__epochs=1)
    train(settings, [*runs.TRAIN, odd, wide], dev, tmp_path, observer=watching, use_cpu=True)
    counts = watching.starts[0][0]
    assert (counts.lost_to_overlaps, counts.lost_to_width, counts.unknown_in_dev) == (1, 1, ("ORG",))
    assert (counts.max_width, counts.widest) == (4, 6)


@pytest.mark.parametrize(("head", "lost", "max_width"), [("fsemicrf", 1, 2), ("crf", 0, None)])
def test_an_outlier_is_left_out_where_the_width_is_limited(tmp_path, head, lost, max_width):
    few = [
        runs.example(f"{person}{i}", "met", place) for i in range(56) for person in runs.PEOPLE for place in runs.PLACES
    ]
    wide = Example.of([f"token{i}" for i in range(30)], [(0, 30, "LOC")])
    watching = Watching()
    settings = runs.config(model__head=head, training__epochs=1, training__batch_size=64)
    train(settings, [*few, wide], runs.DEV, tmp_path, observer=watching, use_cpu=True)
    counts = watching.starts[0][0]
    assert (counts.entities, counts.lost_to_width, counts.max_width, counts.widest) == (1009, lost, max_width, 30)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_step_goes_by_the_mean_over_its_sentences(tmp_path, parts):
    """However many batches they come in: the rates of the optimizer mean the same for steps of any size."""
    seen, model = [], []

    def before_step(step: int, tagger: Tagger) -> None:
        model.append(copy.deepcopy(tagger))

    def keep_gradients(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        seen.append(sorted(float(weight.grad.norm()) for weight in weights))

    size = len(runs.TRAIN)
    settings = runs.config(
        **runs.STILL, training__batch_size=size // parts, training__accumulation=parts, training__epochs=1,
        training__clip=None,
    )  # fmt: skip
    hook = register_optimizer_step_pre_hook(keep_gradients)
    try:
        train(settings, runs.TRAIN, runs.DEV, tmp_path, use_cpu=True, before_step=before_step)
    finally:
        hook.remove()
    (found,), (tagger,) = seen, model
    gold = [tagger.training_segments(example)[0] for example in runs.TRAIN]
    losses = tagger(tagger.batch([example.tokens for example in runs.TRAIN], gold))
    (sum(loss.sum() for loss in losses.values()) / size).backward()
    assert found == pytest.approx(sorted(float(weight.grad.norm()) for weight in tagger.parameters()), rel=1e-4)


# ---- Its end ---------------------------------------------------------------------------------------------------------


def scores(monkeypatch, *f1: float) -> None:
    left = iter(f1)
    monkeypatch.setattr(trainer, "score_on", lambda *_: ({"precision": 0.0, "recall": 0.0, "f1": next(left)}, {}))


def test_patience_ends_a_run(tmp_path, monkeypatch):
    scores(monkeypatch, 0.5, 0.7, 0.6, 0.7, 0.9)
    result = runs.run(tmp_path, training__epochs=5, training__patience=2)
    assert (len(result.history), result.best_epoch) == (4, 2)
    assert [entry["is_best"] for entry in result.history] == [True, True, False, False]
    resumed = runs.run(tmp_path, resume=True, training__epochs=5, training__patience=2)
    assert len(resumed.history) == 4


def test_without_patience_a_run_goes_to_its_end(tmp_path, monkeypatch):
    scores(monkeypatch, 0.5, 0.4, 0.3, 0.2, 0.6)
    result = runs.run(tmp_path, training__epochs=5)
    assert (len(result.history), result.best_epoch) == (5, 5)


def test_the_model_is_that_of_the_best_epoch(tmp_path, monkeypatch):
    scores(monkeypatch, 0.5, 0.9, 0.7)
    runs.run(tmp_path)
    checkpoints = {path.name: path for path in (tmp_path / "checkpoints").iterdir()}
    assert runs.weights(tmp_path) == (checkpoints["step-00000012"] / "model.safetensors").read_bytes()


def test_a_loss_that_is_no_number_ends_a_run(tmp_path, monkeypatch, unbroken):
    folder = shutil.copytree(unbroken, tmp_path / "run")
    shutil.rmtree(max((folder / "checkpoints").iterdir()))
    losses = Tagger.losses
    monkeypatch.setattr(Tagger, "losses", lambda *_: {name: x * math.nan for name, x in losses(*_).items()})
    with pytest.raises(TrainingError, match=r"the (loss|weights) must be finite, got nan by step \d+: a lower rate"):
        runs.run(folder, resume=True)
    assert max((folder / "checkpoints").iterdir()).name == "step-00000012"


def test_a_gradient_that_is_no_number_ends_a_run(tmp_path, monkeypatch):
    losses = Tagger.losses

    def with_a_bad_gradient(tagger, batch):
        weight = next(tagger.parameters())
        weight.register_hook(lambda gradient: gradient * math.inf)
        return losses(tagger, batch)

    monkeypatch.setattr(Tagger, "losses", with_a_bad_gradient)
    with pytest.raises(TrainingError, match=r"the (loss|weights|norm of the gradient) must be finite"):
        runs.run(tmp_path)
    assert not (tmp_path / "model").exists()


# ---- What it can be given --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_every_head_trains(head, tmp_path):
    result = runs.run(tmp_path, model__head=head)
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_bf16_and_back_in_one_process(tmp_path, unbroken):
    result = runs.run(tmp_path / "bf16", training__precision="bf16")
    assert result.history[-1]["loss"] < 0.5 * result.history[0]["loss"]
    assert runs.weights(tmp_path / "bf16") != runs.weights(unbroken)
    runs.run(tmp_path / "single")
    assert runs.weights(tmp_path / "single") == runs.weights(unbroken)


@pytest.mark.parametrize(
    ("train_examples", "dev_examples", "message"),
    [
        ([], runs.DEV, "training data must have at least one sentence with a token, got 0 sentences"),
        ([Example.of("")], runs.DEV, "training data must have at least one sentence with a token, got 1 sentences"),
        ([Example.of("no one")], runs.DEV, "training data must have at least one entity, got 1 sentences with none"),
        (runs.TRAIN, [], "dev data must have at least one sentence with a token, got 0 sentences"),
        (runs.TRAIN, [Example.of("no one")], "dev data must have at least one entity, got 1 sentences with none"),
    ],
)
def test_data_that_cannot_be_trained_on_is_told(tmp_path, train_examples, dev_examples, message):
    with pytest.raises(ValueError, match=message):
        train(runs.config(), train_examples, dev_examples, tmp_path / "run", use_cpu=True)
    assert not (tmp_path / "run").exists()


def test_odd_sentences_are_ordinary(tmp_path):
    odd = [Example.of(""), Example.of("Yes"), Example.of("Ada", [(0, 1, "PER")])]
    result = train(runs.config(), [*runs.TRAIN, *odd], [*odd, *runs.DEV], tmp_path, use_cpu=True)
    assert result.counts.sentences == 21


def test_huge_and_negative_seeds_are_seeds(tmp_path):
    for seed in (10**17, -1):
        runs.run(tmp_path / str(seed), training__seed=seed, training__epochs=1)


# ---- Augmentation ----------------------------------------------------------------------------------------------------

TOKENS = ("Straße", "in", "Rome", "ﬁn", "42")


def test_lengths_and_what_has_no_capitals_stay():
    assert list(uppercased(TOKENS, 1.0, "0")) == ["Straße", "IN", "ROME", "ﬁn", "42"]


def test_never_and_the_same_for_the_same_seed():
    assert uppercased(TOKENS, 0.0, "0") is TOKENS
    assert [uppercased(TOKENS, 0.5, str(i)) for i in range(20)] == [uppercased(TOKENS, 0.5, str(i)) for i in range(20)]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_as_often_as_asked_for(rate):
    changed = sum(uppercased(TOKENS, rate, str(i)) is not TOKENS for i in range(2000))
    assert abs(changed / 2000 - rate) < 0.04
