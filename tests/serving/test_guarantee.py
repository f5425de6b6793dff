"""A service under a promise, or with an objective, says so; under a promise it takes no constraints."""

from __future__ import annotations

import copy

from spansieve.prediction.promises import Promise
from tests.serving.running import problem, running

TEXT = "the Bank of York"
PROMISE = Promise("miss", 0.01, 0.95, 0.2, made="2026-01-01")


def test_without_one(server):
    assert server.client.get("/model").json()["guarantee"] is None
    assert server.client.post("/predict", json={"texts": [TEXT]}).json()["guarantee"] is None


def test_answers_are_under_it(predictor):
    promised = copy.copy(predictor).under(PROMISE)
    with running(promised) as served:
        assert served.client.get("/model").json()["guarantee"] == PROMISE.shown()
        answer = served.client.post("/predict", json={"texts": [TEXT]}).json()
        assert answer["guarantee"] == PROMISE.shown()
        found = [(e["start"], e["end"], e["label"]) for e in answer["results"][0]["entities"]]
        assert found == [entity[:3] for entity in promised.predict(TEXT)]
        for more in ({"threshold": 0.5}, {"constraints": [{"required": [{"start": 4, "end": 8, "label": "ORG"}]}]}):
            assert "under a guarantee" in problem(served.predict(TEXT, **more), 409, "conflict")


def test_the_largest_expected_f1(predictor):
    aiming = copy.copy(predictor).with_objective("f1=0.05")
    with running(aiming) as served:
        assert served.client.get("/model").json()["objective"] == "f1=0.05"
        (result,) = served.client.post("/predict", json={"texts": [TEXT]}).json()["results"]
        found = [(e["start"], e["end"], e["label"]) for e in result["entities"]]
        assert found == [entity[:3] for entity in aiming.predict(TEXT)] != []
