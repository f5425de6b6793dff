"""A text that is asked for is a document: its mentions hear of each other, and not of those of other requests."""

from __future__ import annotations

import pytest

from spansieve.prediction.predictor import Predictor
from spansieve.serving.answering import Answerer
from spansieve.serving.batching import Task
from spansieve.serving.metrics import Metrics
from tests.models.test_hearing import hearing

TEXTS = ["York is far. We went to New York.", "Paris. We went to Paris and to York."]


@pytest.mark.parametrize("wish", [{}, {"alternatives": 2}, {"graph": True}], ids=str)
def test_what_is_sent_has_been_heard(wish):
    predictor = Predictor(hearing("fsemicrf" if wish.get("graph") else "semicrf", 2.0))
    results = Answerer(predictor, Metrics())([Task(text, **wish) for text in TEXTS])
    for text, result in zip(TEXTS, results):
        expected = predictor.predict(text)
        assert [(e.start, e.end, e.label) for e in result.entities] == [e[:3] for e in expected]
        assert [e.probability for e in result.entities] == pytest.approx([e.probability for e in expected], abs=1e-5)
    if "graph" not in wish:
        alone = Predictor(hearing("semicrf", 0.0)).predict(TEXTS)
        heard = [[entity.probability for entity in result.entities] for result in results]
        assert heard != [[entity.probability for entity in found] for found in alone]
