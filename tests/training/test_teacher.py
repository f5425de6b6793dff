"""Distillation in training: the loss, what is stored, and runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from spansieve.crf import FilteredSemiMarkov, kl_divergence
from spansieve.data.example import Example
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.training import teacher as teacher_module
from spansieve.training.run import train
from spansieve.training.run_folder import TrainingError
from spansieve.training.teacher import Teacher, unlabelled
from tests.training import runs

STUDENT = {"model__skip": True, "model__global_loss": "unfiltered"}
TEXTS = [unlabelled(example.tokens) for example in runs.DEV]


@pytest.fixture(scope="module")
def large(tmp_path_factory, one_thread):
    """A teacher that is not sure of everything."""
    folder = tmp_path_factory.mktemp("large") / "run"
    settings = {"model__labels_per_span": 2, "model__margin": 3.0, "training__epochs": 2}
    return runs.run(folder, **STUDENT, **settings, training__seed=7).model


def divergence(teacher: Tagger, student: Tagger) -> float:
    """The mean KL, the student over all spans."""
    with torch.no_grad():
        batches = [tagger.eval().batch([example.tokens for example in runs.DEV]) for tagger in (teacher, student)]
        own = teacher.distribution(batches[0])
        local, scores = student.head.scores(student.vectors(batches[1]))
        local[..., 0] = -torch.inf
        inputs = (local, scores, student.head.transition, batches[1].lengths)
        return float(kl_divergence(own, FilteredSemiMarkov.from_scores(*inputs, skip=True, labels_per_span=9)).mean())


def distil(folder, teacher, examples=runs.TRAIN, resume=False, **settings):
    return train(
        runs.config(**STUDENT | settings), examples, runs.DEV, folder, resume=resume, use_cpu=True, teacher=teacher
    )


def test_the_student_comes_nearer_to_its_teacher(tmp_path, large):
    teacher, first = load_model(large), []
    train(
        runs.config(**STUDENT, training__epochs=8), [*runs.TRAIN, *TEXTS], runs.DEV, tmp_path, use_cpu=True,
        teacher=Teacher.read(large, mixture=1.0),
        before_step=lambda step, tagger: None if step else first.append(divergence(teacher, tagger)),
    )  # fmt: skip
    student = load_model(tmp_path / "model")
    assert tuple(student.labels) == tuple(teacher.labels)
    assert divergence(teacher, student) < 0.3 * first[0]


@pytest.mark.parametrize("settings", [{}, {"model__global_loss": "filtered", "training__ema_decay": 0.8}])
def test_a_run_that_was_interrupted_ends_as_an_unbroken_one(tmp_path, large, monkeypatch, settings):
    options = {"training__epochs": 2, **settings}
    distil(tmp_path / "whole", Teacher.read(large), [*runs.TRAIN, *TEXTS], **options)

    def interrupt(step, tagger):
        if step == 12:
            raise KeyboardInterrupt

    arguments = (runs.config(**STUDENT | options), [*runs.TRAIN, *TEXTS], runs.DEV, tmp_path / "broken")
    with pytest.raises(KeyboardInterrupt):
        train(*arguments, use_cpu=True, teacher=Teacher.read(large), before_step=interrupt)
    monkeypatch.setattr(Teacher, "_computed", None)  # what was stored is used
    train(*arguments, resume=True, use_cpu=True, teacher=Teacher.read(large))
    assert runs.outcome(tmp_path / "broken") == runs.outcome(tmp_path / "whole")
    stored = load_file(tmp_path / "whole" / "teacher.safetensors")
    assert stored["parts"][:, 3].min() > 1e-4
    assert len(stored["parts_per_sentence"]) == len(runs.TRAIN) + len(TEXTS)


def test_what_is_stored_is_of_this_teacher_and_this_data(tmp_path, large, monkeypatch):
    computed, original = [], Teacher._computed
    monkeypatch.setattr(Teacher, "_computed", lambda *_: computed.append(1) or original(*_))
    device = torch.device("cpu")
    found = Teacher.read(large).targets(TEXTS, tmp_path, device)
    again = Teacher.read(large, mixture=0.1).targets(TEXTS, tmp_path, device)
    assert len(computed) == 1
    for one, other in zip(found.sentences, again.sentences):
        assert all(map(np.array_equal, one, other))
    Teacher.read(large, temperature=2.0).targets(TEXTS, tmp_path, device)
    Teacher.read(large, temperature=2.0).targets(TEXTS[1:], tmp_path, device)
    assert len(computed) == 3
    path = tmp_path / "teacher.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    Teacher.read(large, temperature=2.0).targets(TEXTS[1:], tmp_path, device)
    assert len(computed) == 4
    assert teacher_module._read(tmp_path / "none", "") is None


def test_temperature_divides_scores_and_transition(tmp_path, large):
    teacher = Teacher.read(large, temperature=2.5)
    teacher.tagger.head.transition.data.normal_()
    before = teacher.tagger.head.transition.clone()
    empty = unlabelled(())
    found = teacher.targets([TEXTS[0], empty, TEXTS[1]], tmp_path, torch.device("cpu")).sentences
    assert teacher.tagger.head.transition.equal(before)
    assert len(found[1].parts) == 0
    head = teacher.tagger.head
    with torch.no_grad():
        batch = teacher.tagger.batch([TEXTS[0].tokens])
        scores = tuple(part / 2.5 for part in head.scores(teacher.tagger.vectors(batch)))
        head.transition.data /= 2.5
        distribution = head.distribution_of(scores, batch.lengths)
        marginals, counts = distribution.marginals, distribution.transition_counts[0]
    start, width, label, _ = found[0].parts.T.astype(int)
    np.testing.assert_allclose(marginals[0, start, width, label], found[0].parts[:, 3], rtol=1e-4)
    assert len(start) == int((marginals > 1e-4).sum())
    before, after, _ = found[0].pairs.T.astype(int)
    np.testing.assert_allclose(counts[before, after], found[0].pairs[:, 2], rtol=1e-4)


# ---- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model__head": "crf"}, "teacher must be linear-chain, as the student is, got filtered"),
        ({"model__skip": False, "model__global_loss": "filtered"}, "it needs model.skip=true"),
        ({"model__max_width": 1}, "model.max_width must be at least the teacher's, 2, got 1"),
        ({"model__head": "global-selection"}, "model.head must be one that can be distilled, such as fsemicrf"),
        ({"model__head": "nested"}, "teacher must be nested, as the student is, got filtered"),
    ],
)
def test_a_student_that_cannot_learn_from_it(tmp_path, large, settings, message):
    with pytest.raises(ValueError, match=message):
        distil(tmp_path, Teacher.read(large), **settings)
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Example.of("ACME", [(0, 1, "ORG")]), "training data must have labels of the teacher, LOC, PER, got 'ORG' in"),
        (Example.of("a b", unknown=[(0, 1)]), "training data must be annotated in full beside a teacher"),
    ],
)
def test_gold_that_cannot_be_mixed(tmp_path, large, example, message):
    with pytest.raises(ValueError, match=message):
        distil(tmp_path, Teacher.read(large), [*runs.TRAIN, example])


def test_another_teacher_is_another_run(tmp_path, large):
    distil(tmp_path, Teacher.read(large), training__epochs=1)
    with pytest.raises(TrainingError, match=r"its teacher was .*'mixture': 0.5.* and is .*'mixture': 0.6"):
        distil(tmp_path, Teacher.read(large, mixture=0.6), resume=True, training__epochs=1)
    with pytest.raises(TrainingError, match="and is none"):
        distil(tmp_path, None, resume=True, training__epochs=1, model__max_width=2)


@pytest.mark.parametrize("head", ["crf", "semicrf", "filter-only"])
def test_other_flat_heads_distil(tmp_path, head):
    folder = tmp_path / "teacher"
    large = runs.run(folder, model__head=head, training__epochs=4).model
    odd = [Example.of(""), unlabelled(()), unlabelled(["Yes"])]
    result = distil(tmp_path / "student", Teacher.read(large), [*runs.TRAIN, *TEXTS, *odd], model__head=head)
    assert result.history[-1]["loss"] < 0.7 * result.history[0]["loss"]
    assert json.loads((tmp_path / "student" / "run.json").read_text())["teacher"]["mixture"] == 0.5
