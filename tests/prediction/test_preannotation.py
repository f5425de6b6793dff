"""Suggestions as tools import them, and what comes back when a person has said yes to them."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from spansieve.data.example import ReaderWarnings
from spansieve.data.formats import format_of, read_examples
from spansieve.models.storage import version_of
from spansieve.prediction.preannotation import FORMS, suggest
from tests.prediction.trained import trained

TEXTS = [
    "we went to Paris yesterday",
    "Ada Lovelace lives in New York . in القاهرة today",
    "",
    "Cafe\u0301 Paris 👍🏽 Ada Lovelace",
]


@pytest.fixture(scope="module")
def predictor():
    return trained("semicrf-unit-null")


@pytest.fixture(scope="module")
def suggestions(predictor):
    records = [{"text": text, "source": "mail"} for text in TEXTS]
    return list(suggest(predictor, records, version_of(predictor.tagger)))


# ---- What a tool does with a task that an annotator says yes to ------------------------------------------------------


def by_prodigy(task, number):
    return {**task, "answer": "accept", "_input_hash": number, "_task_hash": number, "_view_id": "ner_manual"}


def by_label_studio(task, number):
    """The prediction becomes an annotation of its own; the export names the prediction by its number."""
    (prediction,) = task["predictions"]
    annotation = {"id": number, "was_cancelled": False, "result": prediction["result"], "lead_time": 2.0}
    return {"id": number, "data": task["data"], "annotations": [annotation], "predictions": [number], "meta": {}}


def by_doccano(line, number):
    return {"id": number, **{name: value for name, value in line.items() if name != "id"}, "Comments": []}


BACK = {"prodigy": by_prodigy, "label-studio": by_label_studio, "doccano": by_doccano, "jsonl": lambda line, _: line}


def found(examples):
    return sorted((example.words(s), s.label) for example in examples for s in example.segments)


@pytest.mark.parametrize("form", FORMS)
def test_what_comes_back_is_what_was_suggested(tmp_path, suggestions, form):
    records = [json.loads(json.dumps(FORMS[form](one))) for one in suggestions]
    back = [BACK[form](record, number) for number, record in enumerate(records, start=1)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(back) if form == "label-studio" else "\n".join(map(json.dumps, back)))
    assert format_of(path) == form
    examples = read_examples(path)
    assert found(examples) == sorted((e.text, e.label) for one in suggestions for e in one.entities)
    assert " ".join(examples[0].tokens) == TEXTS[0]
    assert len(found(examples)) >= 5


def test_labels_that_were_put_right_come_back_right(tmp_path, suggestions):
    task = by_label_studio(FORMS["label-studio"](suggestions[0]), 1)
    task["annotations"][0]["result"][0]["value"]["labels"] = ["EVENT"]
    (tmp_path / "export.json").write_text(json.dumps([task]))
    assert found(read_examples(tmp_path / "export.json")) == [("Paris", "EVENT")]


def test_tasks_that_nobody_looked_at_are_no_annotations(tmp_path, suggestions):
    tasks = [FORMS["label-studio"](one) for one in suggestions]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    notes = ReaderWarnings()
    assert read_examples(tmp_path / "tasks.json", "label-studio", notes) == []
    assert notes.counts["tasks without annotations left out"] == len(TEXTS)


# ---- Scores and versions ---------------------------------------------------------------------------------------------


def test_the_score_is_the_probability_that_all_of_it_is_right(predictor, suggestions):
    for text, one in zip(TEXTS, suggestions):
        best = [sentence.alternatives[0].probability for sentence in predictor.analyse(text)]
        assert math.isclose(one.score, math.prod(best), rel_tol=1e-4)
        # What is sure as a whole is at least as sure in each of its parts.
        assert all(one.score <= entity.probability + 1e-6 for entity in one.entities)
    assert suggestions[2].score == 1.0


def test_every_form_tells_the_model_and_how_sure_it_was(predictor, suggestions):
    version = version_of(predictor.tagger)
    first = suggestions[0]
    assert FORMS["prodigy"](first)["meta"] == {"score": first.score, "model": version}
    (prediction,) = FORMS["label-studio"](first)["predictions"]
    assert (prediction["model_version"], prediction["score"]) == (version, first.score)
    assert prediction["result"][0]["score"] == first.entities[0].probability
    for form in ("doccano", "jsonl"):
        assert (FORMS[form](first)["model"], FORMS[form](first)["score"]) == (version, first.score)


def test_what_came_with_the_text_stays(suggestions):
    for form in FORMS:
        record = FORMS[form](suggestions[0])
        assert (record["data"] if form == "label-studio" else record)["source"] == "mail"


def test_below_the_threshold_nothing_is_suggested(predictor, suggestions):
    likely = [entity for one in suggestions for entity in one.entities]
    middle = sorted(entity.probability for entity in likely)[len(likely) // 2]
    again = suggest(predictor, [{"text": text} for text in TEXTS], "v", threshold=middle)
    kept = [entity for one in again for entity in one.entities]
    assert kept == [entity for entity in likely if entity.probability >= middle]
    assert 0 < len(kept) < len(likely)


def test_texts_need_no_end(predictor):
    endless = ({"text": TEXTS[0], "number": number} for number in itertools.count())
    first = next(suggest(predictor, endless, "v"))
    assert first.record["number"] == 0


def test_another_weight_is_another_version(predictor):
    other = trained("semicrf-unit-null", steps=1)
    assert version_of(other.tagger) != version_of(predictor.tagger) == version_of(predictor.tagger)
