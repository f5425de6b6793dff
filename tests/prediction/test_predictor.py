"""Text in, entities out: what an entity says of its text is so, in any text of any length."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import spansieve
from spansieve.data.example import Example
from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.integrations.hub import load
from spansieve.models.heads import HEADS
from spansieve.models.inference import between_batches
from spansieve.models.storage import save_model
from spansieve.nn.encoder import Encoder
from spansieve.prediction import text_predictor as texts_module
from spansieve.prediction.model_evaluation import assess
from spansieve.prediction.pipeline import Pipeline
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.text_predictor import TextPredictor
from tests.prediction.trained import EXAMPLES, FAMILIAR, trained

PLACES = ["Paris", "New York", "New\u00a0 \nYork", "القاهرة", "Ada Lovelace", "Cafe\u0301 Paris", "Ada\u200b Lovelace"]
FILLERS = [" ", "  ", "\n", "\n\n", "\t", "\u200b", "👍🏽", "word ", ". ", "e\u0301", "، ", "in ", "\r\n", "\u200f"]
TEXTS = st.lists(st.sampled_from([*PLACES, *FILLERS]), max_size=12).map("".join)
ANYTHING = st.text(st.characters(), max_size=30)  # halves of characters, too


def check(text: str, entities) -> None:
    for entity in entities:
        assert text[entity.start : entity.end] == entity.text
        assert entity.text
        assert not entity.text[0].isspace()
        assert not entity.text[-1].isspace()
        assert 0 <= entity.probability <= 1
    for one, following in itertools.pairwise(entities):
        assert one.end <= following.start


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.one_of(TEXTS, ANYTHING), max_size=4), sentences=st.booleans())
def test_an_entity_is_where_it_says(predictor, texts, sentences):
    found = predictor.predict(texts, sentences=sentences)
    assert len(found) == len(texts)
    for text, entities in zip(texts, found):
        check(text, entities)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n\t \u200b", []),
        ("we went to Paris yesterday", [("Paris", "LOC")]),
        ("  we   went\tto\n Paris   yesterday  ", [("Paris", "LOC")]),
        ("Ada  Lovelace lives in New\nYork .", [("Ada  Lovelace", "PER"), ("New\nYork", "LOC")]),
        ("in القاهرة today", [("القاهرة", "LOC")]),
        ("Cafe\u0301 Paris 👍🏽 Ada Lovelace", [("Cafe\u0301 Paris", "LOC"), ("Ada Lovelace", "PER")]),
        ("\u200bin \u200fالقاهرة\u200b today", [("القاهرة", "LOC")]),
    ],
)
def test_entities_of_odd_texts(predictor, text, expected):
    found = predictor.predict(text)
    check(text, found)
    assert [(entity.text, entity.label) for entity in found] == expected


@pytest.mark.parametrize("head", HEADS)
def test_an_entity_at_the_end_of_a_long_text_is_found_as_in_a_short_one(head):
    made = trained(head)
    short = "word " * 4 + "we went to Paris yesterday"
    long = "word " * 20_000 + short  # no mark ends a sentence: it is one of 20,009 tokens
    (expected,), (found,) = made.predict(short), made.predict(long)
    check(long, [found])
    shift = len(long) - len(short)
    assert (found.start - shift, found.end - shift, found.label, found.text) == expected[:4]
    assert found.probability == pytest.approx(expected.probability, abs=1e-3)


def test_one_text_or_many(predictor):
    text = "we went to Paris yesterday"
    (entity,) = predictor.predict(text)
    assert predictor.predict([text, ""]) == predictor.predict((text, "")) == [[entity], []]
    assert predictor.predict([]) == []
    assert predictor.predict({text: 1}.keys()) == [[entity]]  # whatever knows how long it is


def test_texts_share_batches_and_keep_their_order(predictor):
    texts = [
        "we went to Paris yesterday",
        "",
        "word. " * 30 + "in القاهرة today",
        "Ada Lovelace lives in New York .",
    ] * 3
    together = predictor.predict(texts)
    for text, entities in zip(texts, together):
        check(text, entities)
        alone = predictor.predict(text)
        assert [entity[:4] for entity in entities] == [entity[:4] for entity in alone]
    assert predictor.predict([]) == []
    without = predictor.predict(texts, probabilities=False)
    assert [[e[:4] for e in entities] for entities in without] == [[e[:4] for e in entities] for entities in together]
    assert all(entity.probability is None for entities in without for entity in entities)


@pytest.mark.parametrize("probability", ["given-candidates", "with-filter"])
@pytest.mark.parametrize(
    "options", [{}, {"sentences": False}, {"probabilities": False}, {"threshold": 0.9}, {"threshold": 0.5}], ids=str
)
def test_many_texts_go_through_the_pipeline_and_have_the_same_entities(predictor, monkeypatch, probability, options):
    predictor = Predictor(predictor.tagger, probability=probability)
    texts = ["we went to Paris yesterday", "", "Ada Lovelace lives in New York . Paris or York ?\n\nParis"] * 3
    expected, turns = predictor.predict(texts, **options), []
    monkeypatch.setattr(Predictor, "_are_many", lambda self, texts: True)
    monkeypatch.setattr(TextPredictor, "predict_in_batches", None)  # which is the other way
    for _ in range(2):  # what the first has learned of words is there for the second
        with between_batches(lambda: turns.append(1)):
            found = predictor.predict(texts, **options)
        assert [[e[:4] for e in own] for own in found] == [[e[:4] for e in own] for own in expected]
        probabilities = [[e.probability for own in each for e in own] for each in (found, expected)]
        assert probabilities[0] == pytest.approx(probabilities[1], abs=1e-5)
    assert len(turns) >= 2  # others had their turn
    assert not predictor.tagger.training


def test_many_texts_on_a_device_are_a_case_for_the_pipeline(predictor):
    texts = ["word " * 2_000] * 2
    assert not predictor._are_many(texts)
    elsewhere = Predictor(copy.deepcopy(predictor.tagger).to("meta"))
    assert elsewhere._are_many(texts)
    assert not elsewhere._are_many(texts[:1])


def test_an_encoder_without_a_reader_predicts_many_texts_too(predictor, monkeypatch):
    """As one that a user has written: nothing prepares its text ahead."""
    texts = ["we went to Paris yesterday", "Ada Lovelace lives in New York ."]
    expected = predictor.predict(texts)
    monkeypatch.setattr(type(predictor.tagger.encoder), "reader", Encoder.reader)
    monkeypatch.setattr(Predictor, "_are_many", lambda self, texts: True)
    assert predictor.predict(texts) == expected
    with pytest.raises(ValueError, match="the encoder must have a reader, which prepares text ahead, got "):
        Pipeline(predictor.tagger)


def test_a_threshold_leaves_out_what_is_less_probable_and_changes_nothing_else(predictor):
    predictor = Predictor(predictor.tagger, probability="with-filter")
    texts = ["we went to Paris yesterday", "Ada Lovelace lives in New York . Paris or York ?"]
    entities = predictor.predict(texts)
    probabilities = sorted(entity.probability for own in entities for entity in own)
    middle = (probabilities[0] + probabilities[-1]) / 2
    assert probabilities[0] < middle < probabilities[-1]
    for threshold in (0, middle, probabilities[-1], 1):
        expected = [[entity for entity in own if entity.probability >= threshold] for own in entities]
        assert predictor.predict(texts, threshold=threshold) == expected
        assert [own for _, own in predictor.stream(texts, threshold=threshold)] == expected
        bare = predictor.predict(texts, probabilities=False, threshold=threshold)
        assert [[e[:4] for e in own] for own in bare] == [[e[:4] for e in own] for own in expected]
    (first, *_) = entities[0]
    required = Constraints(required=[first])
    assert [e[:3] for e in predictor.predict(texts[0], constraints=required, threshold=1)] == [first[:3]]
    own = Constraints(thresholds=dict.fromkeys(predictor.labels, 0.0))  # a label's own wins
    assert predictor.predict(texts[0], constraints=own, threshold=1) == predictor.predict(texts[0])
    for wrong in (-0.1, 1.1, float("nan"), "0.5", None):
        with pytest.raises(ConstraintError, match=r"threshold must be a probability from 0 to 1, got "):
            predictor.predict("Paris", threshold=wrong)


def test_a_stream_is_read_as_it_is_used(predictor, monkeypatch):
    monkeypatch.setattr(texts_module, "TEXTS_AT_ONCE", 4)
    taken: list[int] = []

    def endless():
        for i in itertools.count():
            taken.append(i)
            yield f"we went to Paris {i}"

    stream = predictor.stream(endless())
    first = list(itertools.islice(stream, 6))
    assert [text for text, _ in first] == [f"we went to Paris {i}" for i in range(6)]
    assert len(taken) == 8
    for text, entities in first:
        assert [entity[:4] for entity in entities] == [entity[:4] for entity in predictor.predict(text)]
    assert list(predictor.stream([])) == []


def test_tokens_are_taken_as_they_are(predictor):
    (found,) = predictor.predict_tokens([["we", "went", "to", "Paris", "yesterday"]], probabilities=True)
    assert found.segments == [(3, 4, "LOC")]
    assert 0.5 < found.probabilities[0] <= 1
    (without,) = predictor.predict_tokens([["we", "went", "to", "Paris", "yesterday"]])
    assert without.probabilities is None


def test_examples_of_a_text(predictor):
    text = "we went to Paris yesterday.  Then Ada Lovelace lives in New  York ."
    examples = list(predictor.examples([text]))
    assert len(examples) == 2
    entities = [example.words(segment) for example in examples for segment in example.segments]
    assert entities == [entity.text for entity in predictor.predict(text)]
    for example in examples:
        assert [text[start:end] for start, end in example.offsets] == list(example.tokens)


def test_a_text_must_be_a_string(predictor):
    with pytest.raises(TypeError, match="a text must be a string, got bytes"):
        predictor.predict([b"Paris"])
    with pytest.raises(TypeError, match="texts must be several strings, got one bytes: b'Paris'"):
        predictor.predict(b"Paris")
    with pytest.raises(TypeError, match="got generator: `stream` takes iterators"):
        predictor.predict(text for text in ["Paris"])
    for call in (predictor.stream, predictor.examples):
        with pytest.raises(TypeError, match="texts must be several strings, got one"):
            list(call("Paris"))
    with pytest.raises(TypeError, match="a sentence must be a sequence of tokens"):
        predictor.predict_tokens(["we went to Paris"])


def test_a_stored_model_predicts_the_same(predictor, tmp_path):
    save_model(predictor.tagger, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.labels == predictor.labels == ("LOC", "PER")
    text = "Ada Lovelace went to Paris and New York ."
    assert again.predict(text) == predictor.predict(text)


def test_a_model_is_loaded_with_a_bound_for_its_graphs(predictor, tmp_path):
    save_model(predictor.tagger, tmp_path / "model")
    assert spansieve.load(tmp_path / "model", cuda_graph_megabytes=0).captured is None
    assert spansieve.load(tmp_path / "model", cuda_graph_megabytes=2).captured.max_bytes == 2 << 20


def test_assessing(predictor):
    examples = [*EXAMPLES, Example.of("Rome", [(0, 1, "GPE")])]
    found = assess(predictor, examples)
    assert found.unknown_labels == ("GPE",)
    assert found.scores.micro.recall == pytest.approx(6 / 7)
    known = {"scores", "intervals", "calibration", "errors", "unknown_labels", "gold_outcomes", "levels", "expected"}
    assert set(found.to_dict()) == known | {"precision", "threshold", "label_thresholds"}
    assert found.threshold is None
    found = assess(predictor, examples, precision=0.9)
    assert (found.threshold.precision, found.threshold.recall) == (1, pytest.approx(6 / 7))
    assert {label: one.recall for label, one in found.label_thresholds.items()} == {"LOC": 1, "PER": 1}


# ---- With the filter's own probability -------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.0, 1.5])
def test_probabilities_with_the_filter(predictor, margin):
    """The filter's own is that of the scores as they were learned, whatever margin null has to win by."""
    tagger = copy.deepcopy(predictor.tagger)
    tagger.head.margin = margin
    tokens = ["Ada", "Lovelace", "lives", "in", "New", "York", "."]
    (given_,), (with_,) = (
        Predictor(tagger, probability=kind).predict_tokens([tokens], probabilities=True)
        for kind in ("given-candidates", "with-filter")
    )
    assert given_.segments == with_.segments == [(0, 2, "PER"), (4, 6, "LOC")]
    with torch.no_grad():
        batch = tagger.batch([tokens])
        scores = tagger.head.scorer.dense(tagger.head.scorer(tagger.encoder(batch.features)))
        local = scores[0, ..., : len(tagger.labels)].softmax(-1)
    for segment, share, product in zip(given_.segments, given_.probabilities, with_.probabilities):
        by_filter = float(local[segment.start, segment.width - 1, tagger.labels.id(segment.label)])
        assert product == pytest.approx(share * by_filter, abs=1e-6)
        assert product < share


def test_without_a_filter_it_is_the_marginal():
    tagger = trained("crf", steps=20).tagger
    text = "Ada Lovelace lives in New York ."
    assert Predictor(tagger, probability="with-filter").predict(text) == Predictor(tagger).predict(text) != []
    with pytest.raises(ValueError, match="probability must be one of given-candidates, with-filter, got 'luck'"):
        Predictor(tagger, probability="luck").predict(text)


def test_the_coverage_of_texts(predictor):
    texts = ["we went to Paris yesterday. Ada Lovelace lives in New York .", "", *FAMILIAR]
    found = predictor.coverage(texts)
    for text, coverage in zip(texts, found):
        assert coverage.text == text
        assert coverage.labels == predictor.labels
        assert coverage.probability.shape == (len(coverage.tokens), 2)
        entities = predictor.predict(text)
        assert [(e.start, e.end, e.label) for e in coverage.spans(1.0)] == [(e.start, e.end, e.label) for e in entities]
        for entity in entities:  # of which each token has at least the entity's own probability
            inside = [i for i, (a, z) in enumerate(coverage.tokens) if entity.start <= a and z <= entity.end]
            label = coverage.labels.index(entity.label)
            assert (coverage.probability[inside, label] >= entity.probability - 1e-5).all()
    assert found[0].is_first.sum() == 2
    assert predictor.coverage(texts[:1], sentences=False)[0].is_first.sum() == 1
