"""What becomes of gold, against a model whose paths are all enumerated."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import pytest
import torch

from spansieve.data.example import Example
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.prediction.predictor import Predictor
from spansieve.segments import NamedSegment
from tests.training import runs

SENTENCES = ("Ada lives in New York", "Bob Stone was in Rome .", "Chen works", "in Paris")


def tagger(head: str, skip: bool = False) -> Tagger:
    """Untrained, with scores that are far apart and a filter that keeps about half."""
    torch.manual_seed(3)
    made = Tagger.for_data(runs.config(model__head=head, model__max_width=3, model__skip=skip).model, runs.TRAIN).eval()
    with torch.no_grad():
        for parameter in made.head.parameters():
            parameter.normal_()
    return made


def best_path(distribution) -> set:
    """By trying every set of candidates: of the maximal ones the best."""
    (candidates,) = distribution.candidates.segments()
    transition, scores = distribution.transition, dict(zip(candidates, distribution.scores.tolist()))

    def is_disjoint(chosen) -> bool:
        return not any(a.overlaps(b) for a, b in combinations(chosen, 2))

    def score(chosen) -> float:
        ordered = sorted(chosen)
        total = sum(scores[s] for s in ordered)
        return total + sum(float(transition[a.label, b.label]) for a, b in pairwise(ordered))

    subsets = [c for size in range(len(candidates) + 1) for c in combinations(candidates, size) if is_disjoint(c)]
    maximal = [c for c in subsets if not any(s not in c and is_disjoint((*c, s)) for s in candidates)]
    return set(max(maximal, key=score))


@pytest.mark.parametrize("head", ["fsemicrf", "filter-only"])
def test_every_gold_segment_has_the_fate_of_the_enumeration(head):
    model = tagger(head)
    examples, expected = [], Counter()
    with torch.inference_mode():
        for text in SENTENCES:
            tokens = text.split()
            distribution = model.distribution(model.batch([tokens]))
            (kept,) = map(set, distribution.candidates.segments())
            path = best_path(distribution)
            spans = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)]
            gold = [NamedSegment(i, j, label) for i, j in spans for label in ("LOC", "PER", "TIME")][::2]
            for segment in gold:
                expected["gold"] += 1
                if segment.label == "TIME":
                    expected["unknown"] += 1
                elif segment.width > 3:
                    expected["width"] += 1
                elif (segment.start, segment.end, model.labels.id(segment.label)) not in kept:
                    expected["filter"] += 1
                elif (segment.start, segment.end, model.labels.id(segment.label)) not in path:
                    expected["path"] += 1
                else:
                    expected["found"] += 1
            examples.append(Example(tuple(tokens), tuple(gold)))
    found, outcomes = Predictor(model).predict_examples(examples)
    assert outcomes is not None
    assert outcomes.to_dict() == expected
    assert min(expected.values()) > 0, "each fate must occur for this to say anything"
    assert sum(len(one.segments) for one in found) >= outcomes.found


def test_a_model_without_a_filter_has_no_outcomes():
    found, outcomes = Predictor(tagger("crf")).predict_examples(runs.DEV)
    assert outcomes is None
    assert len(found) == len(runs.DEV)


def test_what_is_predicted_is_what_is_predicted_without_looking():
    model = tagger("fsemicrf")
    options = {"batch_tokens": 7, "probability": "with-filter"}
    found, _ = Predictor(model, **options).predict_examples(runs.DEV)
    assert found == predict_segments(model, [example.tokens for example in runs.DEV], True, **options)
    assert any(0 < share < 1 for one in found for share in one.probabilities)
