"""Frames against their definition: every span, compared with every other."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data import frames
from spansieve.data.frames import frames_of, kind_of

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "A", "B", "12", "3", "(", "NY"]), max_size=5), max_size=5)


@given(SENTENCES, st.data())
def test_spans_have_one_frame_where_the_definition_says_so(sentences, data):
    documents = data.draw(st.lists(st.sampled_from([None, 0, "x"]), min_size=len(sentences), max_size=len(sentences)))
    spans = [
        (i, start, end)
        for i, sentence in enumerate(sentences)
        for start, end in itertools.combinations(range(len(sentence) + 1), 2)
    ]
    found = frames_of(sentences, documents).of(*np.array(spans, np.int64).reshape(-1, 3).T)
    for (one, of_one), (other, of_other) in itertools.combinations(zip(spans, found), 2):
        expected = (
            documents[one[0]] is not None
            and documents[one[0]] == documents[other[0]]
            and neighbours(sentences, one) == neighbours(sentences, other)
        )
        assert (of_one >= 0 and of_one == of_other) == expected


def neighbours(sentences, span):
    i, start, end = span
    before, after = sentences[i][start - 1] if start else None, sentences[i][end] if end < len(sentences[i]) else None
    return tuple(None if word is None else kind_of(word) for word in (before, after))


@given(SENTENCES)
def test_some_of_the_sentences(sentences):
    among = range(0, len(sentences), 2)
    spans = [(i, 0, 1) for i, sentence in enumerate(sentences) if sentence]
    found = frames_of(sentences, [0] * len(sentences), among).of(*np.array(spans, np.int64).reshape(-1, 3).T)
    assert [frame >= 0 for frame in found] == [i in among for i, *_ in spans]


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("1996-12-06", "1996-08-30", True),
        ("3rd", "2nd", False),
        ("Paris", "Rome", True),
        ("PARIS", "Rome", False),
        ("the", "a", False),
        ("القاهرة", "بيروت", False),
        ("(", ")", False),
        ("", "", True),
    ],
)
def test_which_neighbours_are_alike(one, other, are_alike):
    assert (kind_of(one) == kind_of(other)) == are_alike


def test_examples_in_docstrings():
    found = doctest.testmod(frames)
    assert found.attempted
    assert not found.failed
