"""Which weights learn at which rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spansieve.config import TrainingConfig
from spansieve.models.tagger import Tagger
from spansieve.training.optimizer import EMA, build_optimizer, rate_part, rates, set_rates
from tests.training import runs
from tests.training.encoders import tiny_encoder

CONFIG = TrainingConfig(learning_rate=0.1, encoder_learning_rate=0.001, weight_decay=0.5)


def groups_by_name(tagger: Tagger, config: TrainingConfig = CONFIG) -> dict[str, dict]:
    optimizer = build_optimizer(tagger, config)
    names = {parameter: name for name, parameter in tagger.named_parameters()}
    return {names[parameter]: group for group in optimizer.param_groups for parameter in group["params"]}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(tiny_encoder(tmp_path_factory.mktemp("encoder")))


def pretrained(encoder: str, **settings) -> Tagger:
    return Tagger.for_data(runs.config(model__encoder__name=encoder, **settings).model, runs.TRAIN)


def test_pretrained_weights_learn_at_their_own_rate(encoder):
    tagger = pretrained(encoder, model__encoder__casing=True)
    groups = groups_by_name(tagger)
    assert groups.keys() == dict(tagger.named_parameters()).keys()
    for name, group in groups.items():
        assert group["lr"] == (0.001 if name.startswith("encoder.model.") else 0.1), name
    assert "encoder.casing.weight" in groups


def test_a_built_in_encoder_learns_at_the_rate_of_the_rest():
    groups = groups_by_name(Tagger.for_data(runs.config().model, runs.TRAIN))
    assert {group["lr"] for group in groups.values()} == {0.1}


def test_a_frozen_encoder_does_not_learn(encoder, tmp_path):
    tagger = pretrained(encoder, model__encoder__frozen=True)
    assert not [name for name in groups_by_name(tagger) if name.startswith("encoder.model.")]
    before = {name: weight.clone() for name, weight in tagger.encoder.model.state_dict().items()}
    runs.run(tmp_path, model__encoder__name=encoder, model__encoder__frozen=True, training__epochs=1)
    from spansieve.models.storage import load_model

    after = load_model(tmp_path / "model").encoder.model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@pytest.mark.parametrize("is_builtin", [True, False])
def test_biases_norms_and_tables_are_not_drawn_to_zero(encoder, is_builtin):
    tagger = Tagger.for_data(runs.config().model, runs.TRAIN) if is_builtin else pretrained(encoder)
    groups = groups_by_name(tagger)
    decaying = {name for name, group in groups.items() if group["weight_decay"]}
    assert decaying
    modules = dict(tagger.named_modules())
    for name, parameter in tagger.named_parameters():
        module = modules[name.rpartition(".")[0]]
        is_kept = parameter.ndim == 1 or isinstance(module, (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm))
        assert (name in decaying) != is_kept, name


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_the_optimizer_that_was_asked_for(name, kind):
    tagger = Tagger.for_data(runs.config().model, runs.TRAIN)
    assert type(build_optimizer(tagger, TrainingConfig(optimizer=name))) is kind


# ---- Rates over a run ------------------------------------------------------------------------------------------------


def parts(**settings) -> list[float]:
    config = TrainingConfig(**settings)
    return [round(rate_part(config, step, 10), 4) for step in range(10)]


def test_schedules():
    assert parts(schedule="constant", warmup=0.0) == [1.0] * 10
    assert parts(schedule="constant", warmup=0.3) == [0.3333, 0.6667, *[1.0] * 8]
    assert parts(schedule="linear", warmup=0.0) == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    cosine = parts(schedule="cosine", warmup=0.0)
    assert cosine == sorted(cosine, reverse=True)
    assert (cosine[0], cosine[5]) == (1.0, 0.5)
    assert parts(warmup=1.0) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def test_every_group_keeps_its_own_full_rate():
    one, two = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    groups = [{"params": [one], "lr": 1.0, "full_rate": 1.0}, {"params": [two], "lr": 0.1, "full_rate": 0.1}]
    optimizer = torch.optim.Adam(groups)
    for _ in range(2):  # it does not add up
        set_rates(optimizer, rates(optimizer, 0.5))
        assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.05]


def test_gradients_are_clipped(tmp_path, monkeypatch):
    norms = []
    from accelerate import Accelerator

    clip = Accelerator.clip_grad_norm_

    def clipped(self, parameters, most):
        parameters = list(parameters)
        norm = clip(self, parameters, most)
        norms.append((float(norm), float(torch.cat([p.grad.flatten() for p in parameters]).norm())))
        return norm

    monkeypatch.setattr(Accelerator, "clip_grad_norm_", clipped)
    runs.run(tmp_path / "clipped", training__clip=0.01, training__epochs=1)
    assert len(norms) == 6
    assert all(before > 0.01 and after == pytest.approx(0.01, rel=1e-3) for before, after in norms)
    runs.run(tmp_path / "free", training__clip=None, training__epochs=1)
    assert len(norms) == 6


# ---- The average -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_captured", [False, True])
def test_the_average_is_what_it_says(is_captured):
    """Also by a tensor, which is how a captured step is given it."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
    ema, wanted = EMA(model, 0.5), 0.0
    for step, value in enumerate((1.0, 2.0, 5.0, 4.0), start=1):
        with torch.no_grad():
            model.weight.fill_(value)
        ema.update(torch.tensor(ema.kept(step)) if is_captured else ema.kept(step))
        kept = min(0.5, (1 + step) / (10 + step))
        wanted = kept * wanted + (1 - kept) * value
    assert float(ema.average["weight"]) == pytest.approx(wanted)
    with ema.applied():
        assert model.weight.item() == pytest.approx(wanted)
    assert model.weight.item() == 4.0


def test_the_weights_come_back_after_an_error():
    model = nn.Linear(1, 1)
    before = model.weight.detach().clone()
    ema = EMA(model, 0.5)
    ema.average["weight"].fill_(7.0)

    def fail() -> None:
        with ema.applied():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(model.weight, before)
