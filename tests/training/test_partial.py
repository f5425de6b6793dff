"""Whole runs on gold that is known in part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spansieve.data.example import Example
from spansieve.models.storage import load_model
from spansieve.models.torch_backend import predict_segments
from spansieve.prediction.model_evaluation import assess
from spansieve.prediction.predictor import Predictor
from spansieve.training.run import train
from spansieve.training.run_folder import fingerprint
from tests.training import runs


def without_people(example: Example) -> Example:
    """In two of three sentences nobody looked for people."""
    person = example.segments[0]
    return replace(example, segments=example.segments[1:], unknown=((person.start, person.end),))


PART = [without_people(example) if i % 3 else example for i, example in enumerate(runs.TRAIN)]


@pytest.mark.parametrize("head", ["fsemicrf", "crf"])
def test_what_was_hidden_is_learned_from_the_rest(tmp_path, head):
    settings = runs.config(training__epochs=14, model__head=head, **runs.STILL)
    results = {}
    for name, examples in (("unknown", PART), ("null", [replace(example, unknown=()) for example in PART])):
        result = train(settings, examples, runs.TRAIN, tmp_path / name, use_cpu=True)
        found = predict_segments(load_model(result.model), [example.tokens for example in runs.TRAIN])
        pairs = [(example.segments[0], one.segments) for example, one in zip(runs.TRAIN, found)]
        results[name] = sum(person in segments for person, segments in pairs)
        assert result.counts.unknown_tokens == sum(example.num_unknown for example in examples)
    assert results["unknown"] == len(runs.TRAIN) >= 2 * results["null"], results


def test_what_is_known_is_part_of_what_a_run_is():
    assert fingerprint(PART) != fingerprint([replace(example, unknown=()) for example in PART])


def test_dev_and_test_must_be_known(tmp_path):
    for dev, test in ((PART, None), (runs.DEV, PART)):
        with pytest.raises(ValueError, match="must be annotated in full to score a model on"):
            train(runs.config(), runs.TRAIN, dev, tmp_path / "run", test_examples=test, use_cpu=True)
    tagger = load_model(runs.run(tmp_path / "other", training__epochs=1).model)
    with pytest.raises(ValueError, match="data must be annotated in full"):
        assess(Predictor(tagger), PART)
