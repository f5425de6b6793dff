"""`spansieve calibrate`, and what comes out under its promises."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.integrations.hub import load
from spansieve.prediction.promises import GUARANTEE, promise_for
from tests.training import runs

TEXT = "Ada lives in Paris ."


@pytest.fixture
def guaranteed(model, tmp_path):
    """A copy of the model, and labelled text that it knows by heart."""
    shutil.copytree(model, tmp_path / "model")
    write_examples(runs.TRAIN * 12, tmp_path / "labelled.conll")
    return tmp_path / "model", tmp_path / "labelled.conll"


def test_promises_are_made_and_predictions_are_under_them(terminal, guaranteed, tmp_path):
    model, labelled = guaranteed
    options = ("--miss", "0.1", "--precision", "0.8", "--confidence", "0.9", "--json", tmp_path / "promises.json")
    answer = terminal("calibrate", model, labelled, *options)
    assert answer.code == 0, answer.err
    told = " ".join(answer.out.split())
    assert "miss=0.1: at most 10 % of the entity tokens are left uncovered, with confidence 0.9, on text like" in told
    assert "precision=0.8: at least 80 % of the entities are right" in told
    assert "% of all other tokens are covered, too" in told
    assert "the same of each alone: LOC, PER" in told
    assert f"written to {model / GUARANTEE}" in answer.out
    assert [one["kind"] for one in json.loads((tmp_path / "promises.json").read_text())] == ["miss", "precision"]
    answer = terminal("predict", model, TEXT, "--guarantee", "miss", "--output", tmp_path / "found.jsonl")
    assert answer.code == 0, answer.err
    (line,) = map(json.loads, (tmp_path / "found.jsonl").read_text().splitlines())
    assert line["guarantee"] == promise_for(model, "miss").shown()
    assert line["guarantee"]["level"] == 0.1
    expected = load(model, guarantee="miss").predict(TEXT)
    assert [(e["start"], e["end"], e["label"]) for e in line["entities"]] == [e[:3] for e in expected]
    answer = terminal("predict", model, TEXT, "--guarantee", "precision=0.8", "--output", tmp_path / "found.csv")
    assert "under the guarantee precision=0.8: at least 80 % of the entities are right" in " ".join(answer.err.split())
    with (tmp_path / "found.csv").open() as file:
        assert {row["text"] for row in csv.DictReader(file)} == {TEXT}


def test_files_of_rows_are_under_them_too(terminal, guaranteed, tmp_path):
    model, labelled = guaranteed
    assert terminal("calibrate", model, labelled, "--miss", "0.1").code == 0
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    answer = terminal("predict-files", model, tmp_path / "rows.jsonl", "-o", tmp_path / "out", "--guarantee", "miss")
    assert answer.code == 0, answer.err
    assert "under the guarantee miss=0.1" in " ".join(answer.err.split())
    with_threshold = ("--guarantee", "miss", "--threshold", "0.5")
    refused = terminal.refused("predict-files", model, tmp_path / "rows.jsonl", "-o", tmp_path / "o2", *with_threshold)
    assert "threshold must be left out under a guarantee" in refused


def test_what_cannot_be_promised_is_refused_and_nothing_is_written(terminal, guaranteed, tmp_path):
    model, labelled = guaranteed
    assert "can be promised" in terminal.refused("calibrate", model, labelled, "--miss", "0.0001")
    write_examples([Example.of("in Paris", [(1, 2, "GPE")])], tmp_path / "others.conll")
    refused = terminal.refused("calibrate", model, tmp_path / "others.conll", "--miss", "0.1")
    assert "data must have labels of the model, LOC, PER, got GPE" in refused
    (tmp_path / "empty.conll").write_text("")
    assert "empty.conll" in terminal.refused("calibrate", model, tmp_path / "empty.conll", "--miss", "0.1")
    assert "no folder nowhere" in terminal.refused("calibrate", "nowhere", labelled, "--miss", "0.1")
    refused = terminal.refused("calibrate", model, labelled, "--miss", "0.1", "--set", "objective=f1")
    assert "objective must be probability, as a promise decides itself, got f1" in refused
    answer = terminal("calibrate", model, labelled)
    assert answer.code == 2
    assert "at least one of --miss, --precision and --sets must be given" in " ".join(answer.err.split())
    assert not (model / GUARANTEE).exists()


def test_a_guarantee_that_is_not_there_or_of_another_model(terminal, guaranteed, other_model, tmp_path):
    model, labelled = guaranteed
    assert "has no guarantee.json" in terminal.refused("predict", model, TEXT, "--guarantee", "miss")
    assert terminal("calibrate", model, labelled, "--miss", "0.1").code == 0
    other = shutil.copytree(other_model, tmp_path / "other")
    shutil.copy(model / GUARANTEE, other)
    assert "is the guarantee of another model" in terminal.refused("predict", other, TEXT, "--guarantee", "miss")
    refused = terminal("predict", model, TEXT, "--guarantee", "miss", "--threshold", "0.5")
    assert refused.code == 2
    assert "--guarantee is of what the model decides" in refused.err


def test_what_a_model_expects_of_itself_without_gold(terminal, model, corpus):
    (corpus / "plain.txt").write_text("\n".join(" ".join(example.tokens) for example in runs.DEV) + "\n")
    json_file = corpus / "expected.json"
    answer = terminal("evaluate", model, corpus / "plain.txt", "--unlabelled", "--json", json_file)
    assert answer.code == 0, answer.err
    assert "expected by the model's own probabilities" in " ".join(answer.out.split())
    expected = json.loads(json_file.read_text())
    assert set(expected["by_label"]) == {"LOC", "PER"}
    answer = terminal("evaluate", model, corpus / "dev.conll", "--json", corpus / "scores.json")
    beside = json.loads((corpus / "scores.json").read_text())["expected"]
    assert beside["micro"]["f1"] == pytest.approx(expected["micro"]["f1"], abs=1e-4)
    assert "true F1" in answer.out
