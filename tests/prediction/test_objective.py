"""The set with the largest expected F1, whatever runs the model: the same from all of them. Exports are in onnx/."""

from __future__ import annotations

import json

import pytest

from spansieve.data.example import Example
from spansieve.integrations.hub import load
from spansieve.models.heads import HEADS
from spansieve.models.storage import save_model
from spansieve.prediction.bulk.job import Job, run_bulk
from spansieve.prediction.bulk.ledger import BulkError
from spansieve.prediction.model_evaluation import assess
from spansieve.prediction.pipeline import Pipeline
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.promises import Promise
from tests.prediction.onnx.taggers import drawn_sentences, drawn_tagger

OBJECTIVE = "f1=0.12"
TEXTS = ["we went to Paris yesterday", "Ada Lovelace lives in New York .", "abc UN London", ""]
TEXTS += [" ".join(sentence) for sentence in drawn_sentences(0) if sentence]


def places(found):
    return [[(entity.start, entity.end, entity.label) for entity in own] for own in found]


@pytest.mark.parametrize("head", sorted(HEADS))
def test_batches_the_pipeline_and_a_folder_find_the_same(head, tmp_path, one_thread):
    tagger = drawn_tagger(head)
    predictor, alone = (Predictor(tagger, batch_tokens=size).with_objective(OBJECTIVE) for size in (None, 1))
    found = predictor.predict(TEXTS)
    assert sum(map(len, found)) > 0
    assert places(found) == places(alone.predict(TEXTS)) == places([predictor.predict(text) for text in TEXTS])
    assert all(entity.probability > 0.12 for own in found for entity in own)
    save_model(tagger, tmp_path / "model")
    assert load(tmp_path / "model", objective=OBJECTIVE).predict(TEXTS) == found
    with Pipeline(load(tmp_path / "model").tagger, objective=OBJECTIVE) as pipeline:
        assert [own for _, own in pipeline.stream(TEXTS)] == found


def test_it_differs_from_the_most_probable_set_and_more_is_found_at_a_lower_cutoff(one_thread):
    predictor = Predictor(drawn_tagger("crf"))
    best = predictor.predict(TEXTS)
    found = {cutoff: predictor.with_objective(f"f1={cutoff}").predict(TEXTS) for cutoff in (0.05, 0.9)}
    assert sum(map(len, found[0.9])) < sum(map(len, best)) <= sum(map(len, found[0.05]))
    assert places(found[0.05]) != places(best)
    assert predictor.with_objective("probability").predict(TEXTS) == best
    assert places(predictor.with_objective("f1").predict(TEXTS)) == places(
        predictor.with_objective("f1=0.4").predict(TEXTS)
    )


def test_evaluate_scores_what_is_predicted(one_thread):
    """The model's own expectation, too, is of the set that it predicts."""
    predictor = Predictor(drawn_tagger("semicrf")).with_objective(OBJECTIVE)
    sentences = [sentence for sentence in drawn_sentences(1) if sentence]
    predicted = predictor.predict_tokens(sentences, probabilities=True)
    assessment = assess(predictor, [Example.of(words, one.segments) for words, one in zip(sentences, predicted)])
    assert assessment.scores.micro.f1 == 1
    right = sum(p for one in predicted for p in one.probabilities)
    assert assessment.expected.micro.precision == pytest.approx(right / sum(len(one.segments) for one in predicted))


def test_a_bulk_job(tmp_path, one_thread):
    predictor = Predictor(drawn_tagger("semicrf")).with_objective(OBJECTIVE)
    save_model(predictor.tagger, tmp_path / "model")
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    run_bulk(Job(tmp_path / "model", str(source), str(tmp_path / "out"), objective=OBJECTIVE))
    (part,) = (tmp_path / "out").glob("*.jsonl")
    found = [json.loads(line)["entities"] for line in part.read_text().splitlines()]
    assert [[(e["start"], e["end"], e["label"]) for e in own] for own in found] == places(predictor.predict(TEXTS))
    with pytest.raises(BulkError, match="another objective"):
        run_bulk(Job(tmp_path / "model", str(source), str(tmp_path / "out"), objective="f1"))


@pytest.mark.parametrize("objective", ["f1=0", "f1=1", "f1=nan", "f1=x", "f1=", "F1", "mbr", ""])
def test_objectives_that_cannot_be(objective):
    with pytest.raises(ValueError, match="objective must be probability, f1 or f1=CUTOFF"):
        Predictor(drawn_tagger("crf")).with_objective(objective)


def test_a_guarantee_decides_itself():
    predictor = Predictor(drawn_tagger("crf")).under(Promise("miss", 0.01, 0.95, 0.2, made="2026-01-01"))
    with pytest.raises(ValueError, match="objective must be probability under a guarantee"):
        predictor.with_objective("f1")
