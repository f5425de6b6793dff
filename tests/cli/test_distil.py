"""`spansieve distil` as a person types it."""

from __future__ import annotations

import json

import pytest

from spansieve.models.storage import load_model
from spansieve.training import run
from tests.cli.test_train import SMALL
from tests.training import runs


@pytest.fixture(autouse=True)
def no_curves(monkeypatch):
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)


@pytest.fixture
def line(terminal, corpus, model, monkeypatch):
    monkeypatch.chdir(corpus)
    (corpus / "letters.txt").write_text("Ada was here. Chen is in Paris.\n\nBob Stone\n")
    return ["distil", model, "train.conll", "dev.conll", "--output", "run", "--set=run.cpu=true", *SMALL]


def test_a_student_of_gold_its_teacher_and_texts(terminal, corpus, line, model):
    answer = terminal(*line, "--texts", "letters.txt", "--temperature", "2", "--mixture", "0.7")
    assert answer.code == 0, answer.err
    assert "21 sentences, 36 entities (LOC, PER), max_width 2" in answer.out
    assert "temperature 2, mixture 0.7; 3 sentences by it alone" in answer.out
    assert "the model is in run/model" in answer.out
    about = json.loads((corpus / "run" / "run.json").read_text())
    assert about["teacher"]["temperature"] == 2
    student = load_model(corpus / "run" / "model")
    assert (student.config.head, student.config.skip, tuple(student.labels)) == ("fsemicrf", True, ("LOC", "PER"))
    again = terminal(*line, "--texts", "letters.txt", "--temperature", "2", "--mixture", "0.7", "--resume")
    assert "going on from step 21 of 21" in again.out
    assert "its teacher was" in terminal.refused(*line, "--texts", "letters.txt", "--resume")
    assert terminal("predict", "run/model", "Ada lives in Paris .").code == 0


def test_a_crf_has_a_student_of_its_kind(terminal, corpus, line, other_model):
    answer = terminal(*[other_model if part == line[1] else part for part in line], "--mixture", "1.0", "--epochs", "1")
    assert answer.code == 0, answer.err
    assert load_model(corpus / "run" / "model").config.head == "crf"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "0"], "temperature must be above 0, got 0.0"),
        (["--temperature", "nan"], "temperature must be above 0, got nan"),
        (["--mixture", "1.5"], "mixture must lie between 0, gold alone, and 1, the teacher alone, got 1.5"),
        (["--texts", "nowhere.txt"], "no file or folder nowhere.txt"),
        (["--set", "model.head=crf"], "teacher must be linear-chain, as the student is, got filtered"),
        (["--set", "model.skip=false", "--set", "model.global_loss=filtered"], "it needs model.skip=true"),
        (["--config", "nonsense"], "unknown preset 'nonsense'"),
    ],
)
def test_nonsense_is_one_line(terminal, corpus, line, arguments, message):
    assert message in terminal.refused(*line, *arguments)
    assert not (corpus / "run" / "run.json").exists()


def test_a_teacher_that_is_none(terminal, corpus, line, tmp_path):
    def of(teacher):
        return [teacher if part == line[1] else part for part in line]

    assert "nowhere" in terminal.refused(*of("./nowhere"))
    nested = runs.run(tmp_path / "nested", model__head="nested", training__epochs=1).model
    message = terminal.refused(*of(nested))
    assert "teacher must be a flat model, got nested: nested ones cannot be distilled" in message


def test_labels_that_the_teacher_does_not_have(terminal, corpus, line):
    (corpus / "train.conll").write_text("ACME B-ORG\n\n")
    assert "training data must have labels of the teacher, LOC, PER, got 'ORG' in sentence 0" in terminal.refused(*line)
