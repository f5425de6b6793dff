"""A run that starts from another model's weights: what is taken, what is not, and that it can be resumed."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from spansieve.models.heads import HEADS
from spansieve.models.storage import load_model, save_model
from spansieve.models.tagger import Tagger
from spansieve.training.run import train
from spansieve.training.run_folder import TrainingError
from spansieve.training.warm_start import Start, take_weights
from tests.training import runs
from tests.training.encoders import tiny_encoder

ORG = [runs.example(person, "joins", "Acme") for person in runs.PEOPLE]
ORG = [
    replace(e, segments=tuple(s._replace(label="ORG" if s.label == "LOC" else s.label) for s in e.segments))
    for e in ORG
]


def saved(folder, examples=runs.TRAIN, seed=0, **settings) -> Start:
    torch.manual_seed(seed)
    tagger = Tagger.for_data(runs.config(**settings).model, examples)
    for parameter in tagger.parameters():
        torch.nn.init.normal_(parameter)
    save_model(tagger, folder)
    return Start.read(folder)


@pytest.mark.parametrize("head", HEADS)
def test_the_same_labels_take_every_weight(head, tmp_path):
    start = saved(tmp_path / "first", model__head=head)
    tagger = Tagger.for_data(runs.config(model__head=head).model, runs.TRAIN)
    lines = take_weights(tagger, start)
    assert lines == (f"encoder builtin of {start.name}", "head for LOC, PER")
    for name, weight in tagger.state_dict().items():
        torch.testing.assert_close(weight, start.tagger.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize("head", HEADS)
def test_labels_and_widths_that_both_have_are_scored_alike(head, tmp_path):
    """With a label more in the middle, one less, and a width more, what is left is worth what it was."""
    settings = {
        "model__head": head,
        "model__features": "endpoints",
        "model__dropout": 0.0,
        "model__builtin__dropout": 0.0,
    }
    start = saved(tmp_path / "first", [*runs.TRAIN, *ORG], model__max_width=2, **settings)
    new = [
        replace(e, segments=tuple(s._replace(label="MISC") if s.label == "LOC" else s for s in e.segments))
        for e in ORG + runs.TRAIN
    ]
    tagger = Tagger.for_data(runs.config(model__max_width=3, **settings).model, new).eval()
    assert (start.tagger.labels.names, tagger.labels.names) == (("LOC", "ORG", "PER"), ("MISC", "ORG", "PER"))
    lines = take_weights(tagger, start)
    assert lines[1:] == ("head for ORG, PER", "new labels: MISC", "labels left behind: LOC")
    sentences = [e.tokens for e in runs.DEV]
    with torch.no_grad():
        old, now = (t.head.scores(t.vectors(t.batch(sentences))) for t in (start.tagger, tagger))
    for before, after in zip(old, now):
        if head == "crf":
            kept = [
                (a, b)
                for a, x in enumerate(start.tagger.head.tags.names)
                for b, y in enumerate(tagger.head.tags.names)
                if x == y
            ]
            assert len(kept) > 4
            pairs = [(before[..., a], after[..., b]) for a, b in kept]
        else:
            pairs = [(before[..., y], after[:, :, :2, y]) for y in (2, 3)]
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_another_head_takes_the_encoder_alone(tmp_path):
    start = saved(tmp_path / "first")
    tagger = Tagger.for_data(runs.config(model__head="crf").model, runs.TRAIN)
    before = {name: weight.clone() for name, weight in tagger.head.state_dict().items()}
    lines = take_weights(tagger, start)
    assert lines[1] == f"a new head: {start.name} has fsemicrf, this model crf"
    assert all(torch.equal(weight, before[name]) for name, weight in tagger.head.state_dict().items())


def test_another_encoder_is_refused_with_both_sides(tmp_path):
    start = saved(tmp_path / "first")
    tagger = Tagger.for_data(runs.config(model__builtin__size=8).model, runs.TRAIN)
    with pytest.raises(ValueError, match=r"(?s)new one, builtin, got first-\w{8} with builtin; .*size mismatch"):
        take_weights(tagger, start)
    name = str(tiny_encoder(tmp_path / "tiny"))
    with pytest.raises(ValueError, match=r"new one, tiny, got first-\w+ with builtin; without --encoder"):
        train(
            runs.config(model__encoder__name=name), runs.TRAIN, runs.DEV, tmp_path / "run", use_cpu=True,
            start_from=tmp_path / "first",
        )  # fmt: skip


@pytest.mark.parametrize("encoder", ["builtin", "tiny"])
def test_a_run_starts_there_and_is_resumed_as_it_was(encoder, tmp_path):
    """The pretrained encoder's own folder is not needed any more."""
    name = "builtin" if encoder == "builtin" else str(tiny_encoder(tmp_path / "tiny"))
    first = train(runs.config(model__encoder__name=name), runs.TRAIN, runs.DEV, tmp_path / "first", use_cpu=True)
    shutil.rmtree(tmp_path / "tiny", ignore_errors=True)
    config = runs.config(model__encoder__name=encoder, training__learning_rate=0.0, training__encoder_learning_rate=0.0)

    def run(folder, before_step=None, resume=False, **options):
        return train(
            config, runs.TRAIN, runs.DEV, folder, use_cpu=True, resume=resume, before_step=before_step,
            **{"start_from": first.model} | options,
        )  # fmt: skip

    whole = run(tmp_path / "whole")
    assert whole.counts.started_from[1] == "head for LOC, PER"
    now, before = (load_model(one.model).state_dict() for one in (whole, first))
    assert all(torch.equal(now[name], before[name]) for name in before)  # at a rate of 0 nothing is learned
    config = replace(config, training=replace(config.training, learning_rate=0.05))

    def stop(step, tagger):
        if step == 8:
            raise KeyboardInterrupt

    unbroken = run(tmp_path / "unbroken")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", stop)
    with pytest.raises(TrainingError, match=r"it started from first-\w{8} and now would from new weights"):
        run(tmp_path / "broken", resume=True, start_from=None)
    with pytest.raises(TrainingError, match=r"it started from first-\w{8} and now would from whole-\w{8}|first-\w{8}"):
        run(tmp_path / "broken", resume=True, start_from=unbroken.model)
    run(tmp_path / "broken", resume=True)
    assert runs.outcome(tmp_path / "broken") == runs.outcome(tmp_path / "unbroken")
