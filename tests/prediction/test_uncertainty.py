"""Which texts come first: by hand, and by enumeration of the sets of entities of whole texts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from spansieve.prediction.alternatives import Wanted, explain
from spansieve.prediction.predictor import Alternative, Analysis, Predictor
from spansieve.prediction.uncertainty import MEASURES, rank, uncertainty
from tests.prediction.trained import trained

TEXTS = ["word word", "we went to Paris yesterday", "", "Ada New القاهرة Paris. In York, Ada.", "Lovelace"]


def analysis(*shares: float, num_tokens: int = 3) -> Analysis:
    entropy = -sum(share * math.log(share) for share in shares)
    return Analysis(0, 1, [None] * num_tokens, [], [Alternative([], share) for share in shares], entropy, 0.0)


SENTENCES = [analysis(0.6, 0.3, 0.1), analysis(0.5, 0.45, 0.05, num_tokens=5), analysis(1.0, num_tokens=1)]
JOINT = sorted(
    (math.prod(shares) for shares in itertools.product(*[[r.probability for r in s.alternatives] for s in SENTENCES])),
    reverse=True,
)


def test_a_text_is_all_its_sentences():
    assert uncertainty(SENTENCES, "entropy") == pytest.approx(-sum(share * math.log(share) for share in JOINT))
    assert uncertainty(SENTENCES, "least-confidence") == pytest.approx(1 - JOINT[0])
    assert uncertainty(SENTENCES, "margin") == pytest.approx(1 - (JOINT[0] - JOINT[1]))


def test_per_token():
    assert uncertainty(SENTENCES, "entropy", True) == pytest.approx(uncertainty(SENTENCES, "entropy") / 9)
    assert uncertainty(SENTENCES, "least-confidence", True) == pytest.approx(1 - JOINT[0] ** (1 / 9))
    assert uncertainty(SENTENCES, "margin", True) == pytest.approx((3 * (1 - 0.3) + 5 * (1 - 0.05) + 1 * 0) / 9)


@pytest.mark.parametrize("by", ["entropy", "least-confidence", "margin"])
def test_who_is_sure_of_everything(by):
    for sentences in ([], [analysis(1.0)], [analysis(1.0), analysis(1.0)]):
        for per_token in (False, True):
            assert uncertainty(sentences, by, per_token) == pytest.approx(0)


@pytest.mark.parametrize("by", MEASURES)
def test_least_sure_first(by):
    predictor = trained(steps=3)
    predictor.tagger.head.scorer.output.bias.data[0] -= 2.0  # of null: the filter then keeps some
    ranked = rank(predictor, iter(TEXTS), by)
    assert sorted(one.place for one in ranked) == list(range(len(TEXTS)))
    assert [one.text for one in ranked] == [TEXTS[one.place] for one in ranked]
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] == 0
    assert next(one.score for one in ranked if not one.text) == 0
    for one in ranked:
        alone = rank(predictor, [one.text], by)[0]
        assert one.score == pytest.approx(alone.score, abs=1e-5)
        assert [e[:4] for e in one.entities] == [e[:4] for e in predictor.predict(one.text)]
    assert rank(predictor, TEXTS, by, most=2) == ranked[:2]
    long, short = rank(predictor, ["Ada New. " * 20, "Ada New."], by, per_token=True)
    assert long.score == pytest.approx(short.score, rel=0.05)  # but for the sentence before and after


def test_equals_keep_their_order(predictor):
    assert [one.place for one in rank(predictor, ["word"] * 5)] == list(range(5))
    assert rank(predictor, []) == []


def test_the_filters_entropy_is_that_of_every_span(predictor):
    tagger, sentences = predictor.tagger, [["Ada"], ["New", "York", "in"], []]
    for size in (1, 100):
        explained = explain(tagger, sentences, [Wanted(filter_entropy=True)] * 3, batch_tokens=size)
        for sentence, entropy in zip(sentences, (one.filter_entropy for one in explained)):
            with torch.no_grad():
                batch = tagger.batch([sentence])
                local, _ = tagger.head.scores(tagger.encoder(batch.features))
            shares = local[0].softmax(-1)
            expected = sum(
                -float((shares[start, width] * shares[start, width].log()).sum())
                for start in range(len(sentence))
                for width in range(min(tagger.config.max_width, len(sentence) - start))
            )
            assert entropy == pytest.approx(expected, abs=1e-5)


def test_nonsense(predictor):
    with pytest.raises(ValueError, match="by must be one of entropy, least-confidence, margin, filter, got 'luck'"):
        rank(predictor, TEXTS, "luck")
    with pytest.raises(ValueError, match="by='filter' needs a model that filters, got the head 'crf'"):
        rank(Predictor(trained("crf", steps=1).tagger), TEXTS, "filter")
