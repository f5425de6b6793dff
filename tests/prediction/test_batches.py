"""The same output, however much is read at once and however it was cut."""

from __future__ import annotations

import copy
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spansieve.data.batching import batches_by_length
from spansieve.data.tokenizer import Token, tokens_of_text
from spansieve.models.heads import HEADS
from spansieve.prediction.predictor import Predictor
from tests.prediction.trained import FAMILIAR, trained, trained_pretrained

# Any characters, and among them what the models know: there is something to be found.
SOME_KNOWN = st.lists(st.one_of(st.text(st.characters(), max_size=12), st.sampled_from(FAMILIAR)), max_size=4)
TEXTS = st.builds(str.join, st.sampled_from(["", " "]), SOME_KNOWN)
ODD = ["\ud800", "x\udfffy", "👩‍👩‍👧 Ada", "\u200b", "e\u0301\u0301", "مرحبا القاهرة", "\t\n", ""]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Predictor:
    return trained_pretrained(tmp_path_factory.mktemp("batches"))


def texts() -> list[str]:
    """Of one token to a hundred, in no order."""
    chance = random.Random(0)
    made = [" ".join(chance.choices(FAMILIAR, k=chance.choice([1, 2, 5, 9, 30, 100]))) for _ in range(40)]
    return made + ODD


def assert_same(one, other) -> None:
    """Entities are equal; probabilities may differ by what rounding does to sums of another order, in float32."""
    assert [[e[:4] for e in found] for found in one] == [[e[:4] for e in found] for found in other]
    for found, again in zip(one, other):
        assert [e.probability for e in found] == pytest.approx([e.probability for e in again], abs=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_batch_size_changes_nothing(head):
    tagger = trained(head, steps=30).tagger
    expected = Predictor(tagger).predict(texts())
    assert sum(map(len, expected)) > 40
    for size in (1, 7, 64, 100_000):
        assert_same(Predictor(tagger, batch_tokens=size).predict(texts()), expected)


def test_the_batch_size_changes_nothing_for_a_pretrained_encoder(pretrained):
    expected = pretrained.predict(texts())
    assert sum(map(len, expected)) > 40
    for size in (1, 50, 100_000):
        assert_same(Predictor(pretrained.tagger, batch_tokens=size).predict(texts()), expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, max_size=3), st.booleans())
def test_an_entity_is_where_it_says(pretrained, texts, sentences):
    """Words without subwords, halves of characters and unknown ones included."""
    for text, entities in zip(texts, pretrained.predict(texts, sentences=sentences)):
        assert all(text[entity.start : entity.end] == entity.text for entity in entities)


def test_a_batch_must_have_room(predictor):
    with pytest.raises(ValueError, match="batch_tokens must be at least 1, got 0"):
        Predictor(predictor.tagger, batch_tokens=0).predict("Paris")


# ---- Sorted by what the encoder reads --------------------------------------------------------------------------------


def test_sizes_are_the_subwords_that_the_encoder_reads(pretrained):
    encoder = pretrained.tagger.encoder
    sentences = [["Paris"], ["Ada", "Paris", "Rome"], [], ["\u200b", "Ada"]]
    read = encoder.features(sentences)
    sizes = encoder.sizes(sentences)
    specials = 2
    assert sizes == [int(mask.sum()) - specials for mask in read["attention_mask"][:2]] + [0, 2]
    (batch,) = batches_by_length(sizes, 100, 100)
    assert batch == [2, 0, 3, 1]


# ---- Other tokenizers ------------------------------------------------------------------------------------------------


def by_blanks(text: str) -> list[Token]:
    return [Token(match.group(), *match.span()) for match in re.finditer(r"\S+", text)]


def test_another_tokenizer(predictor):
    text = "we went to Paris yesterday, or Ada"
    other = Predictor(predictor.tagger, by_blanks)
    assert [token.text for one in other.analyse(text) for token in one.tokens] == text.split()
    found = other.predict(text)
    assert "Paris" in [entity.text for entity in found]
    assert all(text[entity.start : entity.end] == entity.text for entity in found)


@pytest.fixture(scope="module")
def by_letter(predictor) -> Predictor:
    """Finds entities nearly everywhere: null scores little."""
    tagger = copy.deepcopy(predictor.tagger)
    tagger.head.scorer.output.bias.data[0] -= 20.0
    found = Predictor(tagger, lambda text: [Token(c, i, i + 1) for i, c in enumerate(text)])
    assert len(found.predict("New York")) > 1
    return found


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(), max_size=40), st.booleans())
def test_any_cut_will_do(by_letter, text, sentences):
    for entity in by_letter.predict(text, sentences=sentences):
        assert text[entity.start : entity.end] == entity.text


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([Token("we", 0, 2), Token("e", 1, 2)], "must be in order"),
        ([Token("went", 3, 7), Token("we", 0, 2)], "must be in order"),
        ([Token("", 0, 0)], "not empty"),
        ([Token("we went", 0, 70)], "within the text"),
        ([Token("we", -7, -5)], "within the text"),
        ([Token("he", 0, 2)], "must be what the text has there, 'we'"),
    ],
)
def test_a_tokenizer_that_is_wrong_is_told(predictor, tokens, message):
    with pytest.raises(ValueError, match=message):
        Predictor(predictor.tagger, lambda _: tokens).predict("we went")


def test_one_sequence_or_its_sentences(predictor):
    text = "we went to Paris. Then Ada Lovelace lives in New York."
    whole, cut = predictor.analyse(text, sentences=False), predictor.analyse(text)
    assert [(one.start, one.end) for one in whole] == [(0, len(text))]
    assert [text[one.start : one.end] for one in cut] == [text[:17], text[18:]]
    assert [token for one in cut for token in one.tokens] == whole[0].tokens == tokens_of_text(text)
    assert len(list(predictor.examples([text], sentences=False))) == 1
    assert next(predictor.stream([text], sentences=False))[1] == whole[0].entities
