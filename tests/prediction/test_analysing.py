"""The k best with their probabilities: all of them together give the marginals and the entropy."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from spansieve.decoding.prediction import KBest
from spansieve.models.filtered import FilteredHead
from spansieve.models.heads import HEADS
from spansieve.prediction.alternatives import Wanted, explain
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


def explained(tagger, sentences, top_k):
    return explain(tagger, sentences, [Wanted(top_k)] * len(sentences))


def test_the_k_best_are_the_whole_distribution(unsure):
    number = 0
    for one in explained(unsure, SENTENCES, ALL):
        found, k_best, entropy = one.prediction, one.k_best, one.entropy
        shares = [best.probability for best in k_best]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert shares == sorted(shares, reverse=True)
        assert len({tuple(best.segments) for best in k_best}) == len(k_best)
        if unsure.config.head == HAS_WIDE_NULL:  # the best segmentation need not be of the best set of entities
            assert entropy >= -sum(share * math.log(share) for share in shares) - 1e-5
        else:
            assert k_best[0].segments == found.segments
            assert entropy == pytest.approx(-sum(share * math.log(share) for share in shares), abs=1e-4)
        marginal: Counter = Counter()
        for best in k_best:
            for segment in best.segments:
                marginal[segment] += best.probability
        for segment, probability in zip(found.segments, found.probabilities):
            assert probability == pytest.approx(marginal[segment], abs=1e-5)
        number += len(k_best)
    assert number > len(SENTENCES)


def test_the_best_few_are_the_first_of_all(unsure):
    everything = explained(unsure, SENTENCES, ALL)
    for k in (1, 2):
        for few, all_ in zip(explained(unsure, SENTENCES, k), everything):
            assert [one.segments for one in few.k_best] == [one.segments for one in all_.k_best[:k]]
            for one, other in zip(few.k_best, all_.k_best):
                assert one.probability == pytest.approx(other.probability, abs=1e-6)
            assert few.entropy == pytest.approx(all_.entropy, abs=1e-6)


def test_in_characters(predictor):
    text = "  we went\tto Paris yesterday.\n\nIn New\u00a0York 👍🏽 "
    analyses = predictor.analyse(text, top_k=3)
    assert [text[one.start : one.end] for one in analyses] == ["we went\tto Paris yesterday.", "In New\u00a0York 👍🏽"]
    assert [entity for one in analyses for entity in one.entities] == predictor.predict(text)
    for one in analyses:
        assert [entity[:4] for entity in one.alternatives[0].entities] == [entity[:4] for entity in one.entities]
        for alternative in one.alternatives:
            assert all(text[entity.start : entity.end] == entity.text for entity in alternative.entities)
            assert 0 <= alternative.probability <= 1
    assert predictor.analyse([text, " "], top_k=3) == [analyses, []]


def test_nothing_to_analyse(predictor):
    assert predictor.analyse("") == []
    assert predictor.analyse([]) == []
    (nothing,) = explained(predictor.tagger, [[]], 2)
    assert (nothing.prediction.segments, nothing.k_best, nothing.entropy) == ([], (KBest([], 1.0),), 0)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        predictor.analyse("Paris", top_k=0)
