"""Promises made on labelled text, kept beside a model, and decoded by whatever runs it."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from spansieve.data.example import Example
from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.integrations.hub import load
from spansieve.models.storage import save_model
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.atomic import sealed
from spansieve.persistence.manifest import ModelError
from spansieve.prediction import onnx
from spansieve.prediction.bulk.job import Job, run_bulk
from spansieve.prediction.bulk.ledger import BulkError
from spansieve.prediction.guarantees import calibrate, sets_of
from spansieve.prediction.model_evaluation import assess, expected_scores
from spansieve.prediction.onnx.export import export_model
from spansieve.prediction.pipeline import Pipeline
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.promises import (
    GUARANTEE,
    GuaranteeError,
    Promise,
    model_print,
    promise_for,
    read_promises,
    write_promises,
)
from tests.prediction.onnx.taggers import drawn_sentences, drawn_tagger
from tests.prediction.trained import EXAMPLES

TEXTS = ["we went to Paris yesterday", "Ada Lovelace lives in New York .", "abc UN London", ""]


@pytest.fixture(scope="module")
def unsure(one_thread) -> Predictor:
    """A model with drawn weights, which is sure of little, and may skip what it keeps."""
    return Predictor(drawn_tagger("fsemicrf", skip=True, margin=0.0))


@pytest.fixture(scope="module")
def labelled(unsure) -> list[Example]:
    """Text in which nearly all that the model finds is gold, and something besides."""
    sentences = [sentence for seed in range(14) for sentence in drawn_sentences(seed) if sentence]
    predictions = unsure.predict_tokens(sentences)
    chance = np.random.default_rng(0)
    return [
        Example.of(sentence, [s for s in one.segments if chance.random() < 0.95])
        for sentence, one in zip(sentences, predictions)
    ]


@pytest.fixture
def folder(unsure, tmp_path):
    save_model(unsure.tagger, tmp_path / "model")
    return tmp_path / "model"


def test_what_is_promised_holds_on_the_data(unsure, labelled):
    (promise,) = calibrate(unsure, labelled, miss=0.05, confidence=0.9)
    assert (promise.kind, promise.level, promise.confidence, promise.unit) == ("miss", 0.05, 0.9, "sentence")
    assert promise.units == len(labelled) - math.ceil(0.2 * len(labelled))
    gold = missed = others = 0
    unsure.under(promise)
    try:
        for example, one in zip(labelled, unsure.predict_tokens([e.tokens for e in labelled])):
            covered = {i for s in one.segments for i in range(s.start, s.end)}
            own = {i for s in example.segments for i in range(s.start, s.end)}
            gold, missed, others = gold + len(own), missed + len(own - covered), others + len(covered - own)
    finally:
        unsure.under(None)
    assert missed / gold < 0.05
    assert promise.cost == pytest.approx(others / (sum(map(len, labelled)) - gold))
    assert set(promise.label_thresholds) | set(promise.label_levels) == set(unsure.labels)


def test_predictions_under_a_promise_hold_what_is_predicted_without(unsure, labelled):
    (promise,) = calibrate(unsure, labelled, miss=0.05, margin=math.inf)
    plain = unsure.coverage(TEXTS, margin=math.inf)
    covered = unsure.under(promise).predict(TEXTS)
    unsure.under(None)
    assert [[e[:5] for e in own] for own in covered] == [[e[:5] for e in one.spans(promise.threshold)] for one in plain]
    assert sum(map(len, covered)) > 0


def test_accepted_entities_are_those_above_the_threshold(unsure, labelled):
    (promise,) = calibrate(unsure, labelled, precision=0.8)
    plain = unsure.predict(TEXTS)
    accepted = unsure.under(promise).predict(TEXTS)
    unsure.under(None)
    assert accepted == [[e for e in own if e.probability >= promise.threshold] for own in plain]


def test_constraints_and_promises_do_not_go_together(unsure, labelled):
    (promise,) = calibrate(unsure, labelled, miss=0.1)
    unsure.under(promise)
    try:
        with pytest.raises(ConstraintError, match="must be left out under a guarantee"):
            unsure.predict(TEXTS[0], threshold=0.5)
        with pytest.raises(ConstraintError, match="must be left out under a guarantee"):
            unsure.predict(TEXTS[0], constraints=Constraints(required=[(0, 2, "LOC")]))
        assert unsure.predict(TEXTS[0]) is not None
    finally:
        unsure.under(None)


# ---- Refusals --------------------------------------------------------------------------------------------------------


def test_too_little_data_is_refused_with_what_could_be_promised(unsure, labelled):
    with pytest.raises(GuaranteeError, match=r"got 0.001: .* 0\.\d+ can be promised; .*tokens are too few") as refused:
        calibrate(unsure, labelled[:100], miss=0.001, margin=math.inf)
    level = float(str(refused.value).split(" can be promised")[0].split()[-1])
    assert calibrate(unsure, labelled[:100], miss=level, margin=math.inf)
    with pytest.raises(GuaranteeError, match=r"precision must be lower for this data, got 0.999: .* can be promised"):
        calibrate(unsure, labelled[:100], precision=0.999)


def test_a_filter_that_dropped_gold_is_named(unsure, labelled):
    """Gold that is where the filter keeps nothing: only other decoding can cover it."""
    covered = unsure.cover_tokens([e.tokens for e in labelled])
    moved = []
    for example, one in zip(labelled, covered):
        hidden = np.flatnonzero(one.coverage.sum(1) == 0)[:1]
        moved.append(replace(example, segments=(*example.segments, *((i, i + 1, "LOC") for i in hidden.tolist()))))
    with pytest.raises(GuaranteeError, match=r"the filter left out \d+\.\d+% of the gold tokens: --margin inf keeps"):
        calibrate(unsure, moved, miss=0.05)
    assert calibrate(unsure, moved, miss=0.05, margin=math.inf)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "at least one of miss, precision and sets must be given"),
        ({"miss": 0.0}, "miss must lie between 0 and 1, got 0.0"),
        ({"precision": 1.0}, "precision must lie between 0 and 1, got 1.0"),
        ({"miss": 0.1, "confidence": 95}, "confidence must lie between 0 and 1, got 95"),
    ],
)
def test_what_cannot_be_asked_for(unsure, labelled, asked, message):
    with pytest.raises(GuaranteeError, match=message):
        calibrate(unsure, labelled, **asked)


def test_no_labels_in_common(unsure):
    with pytest.raises(GuaranteeError, match="data must have labels of the model, LOC, ORG, PER, got GPE"):
        calibrate(unsure, [Example.of("in Paris", [(1, 2, "GPE")])], miss=0.1)
    with pytest.raises(ValueError, match="data must be annotated in full"):
        calibrate(unsure, [Example.of("in Paris", [(1, 2, "LOC")], unknown=((0, 1),))], miss=0.1)


def test_documents_are_the_units_where_there_are_some(unsure, labelled):
    grouped = [replace(example, document=str(i // 2)) for i, example in enumerate(labelled)]
    (promise,) = calibrate(unsure, grouped, miss=0.2)
    assert promise.unit == "document"
    assert promise.units < len(labelled) / 2


# ---- Sets ------------------------------------------------------------------------------------------------------------


def test_sets_of_segmentations(unsure, labelled):
    (promise,) = calibrate(unsure, labelled[:150], sets=0.5)
    sentences = [example.tokens for example in labelled[:40]]
    sets = sets_of(unsure, sentences, promise)
    assert all(one.probability >= promise.threshold for own in sets for one in own)
    held = [any(set(one.segments) == set(e.segments) for one in own) for own, e in zip(sets, labelled)]
    assert np.mean(held) > 0.3
    with pytest.raises(GuaranteeError, match="a guarantee must be miss or precision here"):
        unsure.under(promise)


# ---- Beside the model ------------------------------------------------------------------------------------------------


def a_promise(**fields) -> Promise:
    return Promise(
        **{"kind": "miss", "level": 0.01, "confidence": 0.95, "threshold": 0.2, "made": "2026-01-01"} | fields
    )


def test_promises_are_read_as_they_were_written(folder):
    write_promises(folder, [a_promise(margin=math.inf, label_thresholds={"LOC": 0.1}), a_promise(level=0.05)])
    write_promises(folder, [a_promise(level=0.05, threshold=0.3), a_promise(kind="precision", level=0.9)])
    names = [(one.name, one.threshold, one.margin) for one in read_promises(folder)]
    assert names == [("miss=0.01", 0.2, math.inf), ("miss=0.05", 0.3, 0.0), ("precision=0.9", 0.2, 0.0)]
    assert promise_for(folder, "precision").level == 0.9
    assert promise_for(folder, "miss=0.010").label_thresholds == {"LOC": 0.1}
    assert load(folder, guarantee="miss=0.05").promise == read_promises(folder)[1]
    assert "at most 1 % of the entity tokens are left uncovered, with confidence 0.95" in a_promise().describe()


@pytest.mark.parametrize("name", ["miss", "miss=0.02", "precision"])
def test_a_promise_that_is_not_there(folder, name):
    with pytest.raises(GuaranteeError, match=r"has no guarantee.json: make one with `spansieve calibrate"):
        promise_for(folder, name)
    write_promises(folder, [a_promise(), a_promise(level=0.05)])
    with pytest.raises(GuaranteeError, match=r"a guarantee must be one of miss=0.01, miss=0.05, got"):
        promise_for(folder, name)


@pytest.mark.parametrize("name", ["", "recall=0.9", "miss=", "miss=2", "miss=x", "miss=nan"])
def test_names_that_are_none(folder, name):
    with pytest.raises(GuaranteeError, match=r"a guarantee must look like miss=0.01"):
        load(folder, guarantee=name)


def test_the_guarantee_of_another_model_is_refused(folder, tmp_path):
    write_promises(folder, [a_promise()])
    other = tmp_path / "other"
    save_model(drawn_tagger("fsemicrf", seed=1), other)
    (other / GUARANTEE).write_bytes((folder / GUARANTEE).read_bytes())
    with pytest.raises(ModelError, match="is the guarantee of another model: make one with `spansieve calibrate"):
        load(other, guarantee="miss")
    assert load(other).predict(TEXTS) is not None
    write_promises(other, [a_promise(kind="precision")])  # as the error says: what is of no use is replaced
    assert [promise.kind for promise in read_promises(other)] == ["precision"]


def test_a_damaged_guarantee_is_refused(folder):
    write_promises(folder, [a_promise()])
    path = folder / GUARANTEE
    whole = json.loads(path.read_text())
    for damaged in (
        whole | {"version": 2},
        whole | {"format": "x"},
        whole | {"promises": [whole["promises"][0] | {"threshold": 0.9}]},
        "[]",
        "{",
    ):
        path.write_text(damaged if isinstance(damaged, str) else json.dumps(damaged))
        with pytest.raises(ModelError):
            promise_for(folder, "miss")


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0.0},
        {"threshold": 2.0},
        {"level": 1.5},
        {"kind": "x"},
        {"more": 1},
        {"made": 3},
        {"confidence": "x"},
        {"margin": "nan"},
        {"label_thresholds": [1]},
    ],
)
def test_a_guarantee_that_says_what_cannot_be_is_refused(folder, wrong):
    promise = a_promise().to_dict() | wrong
    about = {"format": "spansieve guarantee", "version": 1, "model": model_print(folder), "promises": [promise]}
    (folder / GUARANTEE).write_text(json.dumps(sealed(about)))
    with pytest.raises(ModelError, match="says what this version of spansieve does not know"):
        read_promises(folder)


# ---- Whatever runs it ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(unsure, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "export"
    export_model(unsure.tagger, folder)
    return folder


@pytest.mark.parametrize("kind", ["miss", "precision"])
def test_an_export_and_a_pipeline_keep_the_same_promise(unsure, folder, exported, kind):
    promise = a_promise(kind=kind, threshold=0.3 if kind == "miss" else 0.8)
    expected = unsure.under(promise).predict(TEXTS)
    unsure.under(None)
    assert sum(map(len, expected)) > 0
    assert expected != unsure.predict(TEXTS)
    write_promises(exported, [promise])
    found = onnx.load(exported, guarantee=kind).predict(TEXTS)
    assert [[e[:4] for e in own] for own in found] == [[e[:4] for e in own] for own in expected]
    write_promises(folder, [promise])
    with Pipeline(load(folder).tagger, promise=promise) as pipeline:
        assert [own for _, own in pipeline.stream(TEXTS)] == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("head", ["crf", "semicrf", "fsemicrf", "nested"])
def test_a_gpu_covers_and_accepts_the_same(head):
    host = Predictor(drawn_tagger(head, **({"skip": True, "margin": 0.0} if head == "fsemicrf" else {})))
    device = Predictor(copy.deepcopy(host.tagger).to("cuda"), cuda_graph_megabytes=100)
    texts = TEXTS + ["Ada Lovelace lives in New York ."] * 1_000  # which are many
    for promise in (a_promise(threshold=0.3), a_promise(kind="precision", threshold=0.8), None):
        expected, found = host.under(promise).predict(texts), device.under(promise).predict(texts)
        assert [[e[:4] for e in own] for own in found] == [[e[:4] for e in own] for own in expected]
    (covered,), (expected,) = (one.cover_tokens([TEXTS[1].split()]) for one in (device, host))
    np.testing.assert_allclose(covered.coverage, expected.coverage, atol=1e-4)


def test_a_bulk_job_under_a_promise(unsure, folder, tmp_path):
    promise = a_promise(threshold=0.3)
    write_promises(folder, [promise])
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    run_bulk(Job(folder, str(source), str(tmp_path / "out"), guarantee="miss"))
    (part,) = (tmp_path / "out").glob("*.jsonl")
    found = [json.loads(line)["entities"] for line in part.read_text().splitlines()]
    expected = unsure.under(promise).predict(TEXTS)
    unsure.under(None)
    assert [[(e["start"], e["end"], e["label"]) for e in own] for own in found] == [
        [(e.start, e.end, e.label) for e in own] for own in expected
    ]
    with pytest.raises(BulkError, match="another guarantee"):  # without the promise it is another job
        run_bulk(Job(folder, str(source), str(tmp_path / "out")))
    with pytest.raises(GuaranteeError, match="threshold must be left out under a guarantee"):
        run_bulk(Job(folder, str(source), str(tmp_path / "other"), guarantee="miss", threshold=0.5))


# ---- What a model expects of itself ----------------------------------------------------------------------------------


def test_expected_scores_are_sums_of_marginals(predictor):
    sentences = [example.tokens for example in EXAMPLES]
    expected = expected_scores(predictor, [sentences[:3], sentences[3:]])
    predictions = predictor.predict_tokens(sentences, True)
    right = sum(sum(one.probabilities) for one in predictions)
    assert expected.micro.predicted == sum(len(one.segments) for one in predictions)
    assert expected.micro.right == pytest.approx(right, rel=1e-5)
    assert expected.micro.precision == pytest.approx(right / expected.micro.predicted)
    assert expected.micro.entities == pytest.approx(sum(own.entities for own in expected.by_label.values()))
    assert assess(predictor, EXAMPLES).expected == expected_scores(predictor, [sentences])
    assert expected_scores(predictor, []).micro.f1 == 0


def test_a_calibrated_model_expects_what_it_gets(unsure):
    """Gold that is drawn from the model's own distribution."""
    sentences = [sentence for seed in range(6) for sentence in drawn_sentences(seed, longest=12) if sentence]
    gold, right = [], 0
    tagger, samples = unsure.tagger, {}

    def sample(indices, scored):
        generator = torch.Generator().manual_seed(0)
        distribution = tagger.head.distribution_of(*scored)
        samples.update(zip(indices, distribution.sample(1, generator)))

    predictions = predict_segments(tagger, sentences, True, sample)
    for i, one in enumerate(predictions):
        (structure,) = samples[i]
        own = set(tagger.named(tagger.head.entities(structure)))
        gold.append(own)
        right += len(own & set(one.segments))
    counts = unsure.cover_tokens(sentences)
    num_gold, predicted = sum(map(len, gold)), sum(len(one.segments) for one in predictions)
    assert sum(float(one.expected.sum()) for one in counts) == pytest.approx(num_gold, rel=0.1)
    assert sum(map(sum, (one.probabilities for one in predictions))) == pytest.approx(right, rel=0.15)
    assert predicted > 50
