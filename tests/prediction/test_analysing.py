"""Readings with their probabilities: all of them together say what the marginals and the entropy say."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from spansieve.models.filtered import FilteredHead
from spansieve.models.tagger import HEADS
from spansieve.prediction.analysing import analyse_tokens
from tests.prediction.trained import trained

ALL = 20  # as many as two tokens have
SENTENCES = [["Ada", "Paris"], ["Lovelace"], ["word", "القاهرة"]]
HAS_WIDE_NULL = "semicrf"


@pytest.fixture(scope="module", params=HEADS)
def unsure(request):
    """A model that has learned next to nothing, and whose filter keeps some of the spans."""
    tagger = trained(request.param, steps=3).tagger
    if isinstance(tagger.head, FilteredHead):
        tagger.head.scorer.output.bias.data[0] -= 2.0  # of null
    return tagger


def test_readings_are_the_whole_distribution(unsure):
    num_readings = 0
    for found, readings, entropy in analyse_tokens(unsure, SENTENCES, ALL):
        shares = [one.probabilities[0] for one in readings]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert shares == sorted(shares, reverse=True)
        assert len({tuple(one.segments) for one in readings}) == len(readings)
        if unsure.config.head == HAS_WIDE_NULL:  # the best segmentation need not be of the best set of entities
            assert entropy >= -sum(share * math.log(share) for share in shares) - 1e-5
        else:
            assert readings[0].segments == found.segments
            assert entropy == pytest.approx(-sum(share * math.log(share) for share in shares), abs=1e-4)
        marginal: Counter = Counter()
        for one in readings:
            for segment in one.segments:
                marginal[segment] += one.probabilities[0]
        for segment, probability in zip(found.segments, found.probabilities):
            assert probability == pytest.approx(marginal[segment], abs=1e-5)
        num_readings += len(readings)
    assert num_readings > len(SENTENCES)


def test_the_best_few_are_the_first_of_all(unsure):
    everything = analyse_tokens(unsure, SENTENCES, ALL)
    for k in (1, 2):
        for few, all_ in zip(analyse_tokens(unsure, SENTENCES, k), everything):
            assert [one.segments for one in few.readings] == [one.segments for one in all_.readings[:k]]
            for one, other in zip(few.readings, all_.readings):
                assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
            assert few.entropy == pytest.approx(all_.entropy, abs=1e-6)


def test_in_characters(predictor):
    text = "  we went\tto Paris yesterday.\n\nIn New\u00a0York 👍🏽 "
    analyses = predictor.analyse(text, top_k=3)
    assert [text[one.start : one.end] for one in analyses] == ["we went\tto Paris yesterday.", "In New\u00a0York 👍🏽"]
    assert [entity for one in analyses for entity in one.entities] == predictor.predict(text)
    for one in analyses:
        assert [entity[:4] for entity in one.readings[0].entities] == [entity[:4] for entity in one.entities]
        for reading in one.readings:
            assert all(text[entity.start : entity.end] == entity.text for entity in reading.entities)
            assert 0 <= reading.probability <= 1
    assert predictor.analyse([text, " "], top_k=3) == [analyses, []]


def test_nothing_to_analyse(predictor):
    assert predictor.analyse("") == []
    assert predictor.analyse([]) == []
    ((found, readings, entropy),) = analyse_tokens(predictor.tagger, [[]], 2)
    assert (found.segments, [one.segments for one in readings], entropy) == ([], [[]], 0)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        predictor.analyse("Paris", top_k=0)
