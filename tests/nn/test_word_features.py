"""Hashed features: the same on every machine, for every word that can occur."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.nn import word_features
from spansieve.nn.subwords import LOWER, MIXED, NUMBER, OTHER, TITLE, UPPER, casing_of
from spansieve.nn.word_features import FIELDS, MAX_CHARACTERS, WordFeatures, grams_of, shape_of

ODD = ["", " ", "\u200b", "\ud800", "👩‍👩‍👧", "e\u0301", "العربية", "x" * 100_000, "\0", "²"]
ANY_WORD = st.text(st.characters(), max_size=40)  # surrogates included


def test_rows_are_pinned():
    """Saved models depend on these: they must never change."""
    rows = WordFeatures(1000)(["Paris", "1996-08-30", ""])
    assert rows.fields.tolist() == [[579, 27, 445, 414, 556], [969, 60, 820, 744, 555], [372, 93, 104, 971, 899]]
    assert rows.gram_offsets.tolist() == [0, 18, 56]
    assert rows.grams.tolist()[:6] == [103, 66, 155, 766, 441, 173]
    assert len(rows.grams) == 57


@given(st.lists(ANY_WORD, max_size=8), st.integers(2, 50))
def test_every_word_has_rows_within_the_tables(words, rows):
    found = WordFeatures(rows)(words)
    assert found.fields.shape == (len(words), len(FIELDS))
    for values in (found.fields, found.grams):
        assert ((values >= 1) & (values < rows)).all()  # row 0 is for what is hidden
    counts = np.diff([*found.gram_offsets, len(found.grams)])
    assert (counts >= 1).all()


@given(st.lists(ANY_WORD, min_size=1, max_size=8))
def test_a_word_has_the_same_rows_in_any_company(words):
    features = WordFeatures(100)
    together = features(words)
    bounds = [*together.gram_offsets, len(together.grams)]
    for i, word in enumerate(words):
        for alone in (features([word]), WordFeatures(100)([word])):
            assert alone.fields.tolist() == [together.fields[i].tolist()]
            assert alone.grams.tolist() == together.grams[bounds[i] : bounds[i + 1]].tolist()


@pytest.mark.parametrize("word", ODD, ids=lambda word: ascii(word)[:12])
def test_odd_words(word):
    rows = WordFeatures(100)([word])
    assert rows.fields.shape == (1, len(FIELDS))
    assert len(rows.grams) <= 4 * (MAX_CHARACTERS + 2)
    assert 1 <= casing_of(word) <= OTHER


def test_no_words():
    rows = WordFeatures(100)([])
    assert rows.fields.shape == (0, len(FIELDS))
    assert rows.grams.shape == rows.gram_offsets.shape == (0,)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(word_features, "MAX_CACHED", 10)
    features = WordFeatures(100)
    for i in range(100):
        features([f"word{i}"])
    assert len(features._known) <= 12


def test_shape_and_pieces():
    assert shape_of("McGill-2b") == "XxXxxx-dx"
    assert shape_of("العربية") == "xxxx"
    assert grams_of("") == ["<>"]
    assert len(shape_of("aB" * 1000)) <= MAX_CHARACTERS


@pytest.mark.parametrize(
    ("word", "casing"),
    [("a", LOWER), ("A", TITLE), ("UN", UPPER), ("Éa", TITLE), ("iPhone", MIXED), ("3.5", NUMBER), ("", OTHER)],
)
def test_casing(word, casing):
    assert casing_of(word) == casing
