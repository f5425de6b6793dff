"""The lexicon against its definition: every span looked up, every count taken again."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data import lexicon, token_places
from spansieve.data.lexicon import Lexicon

WORDS = st.sampled_from(["a", "A", "b", "ß", "SS", "c d"])
NAMES = st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=3), st.integers(1, 3)), max_size=8)
SENTENCES = st.lists(st.lists(st.one_of(WORDS, st.just("elsewhere")), max_size=6), max_size=5)


def folded(words):
    return tuple(word.casefold() for word in words)


@given(NAMES, SENTENCES)
def test_what_is_found_is_what_a_look_at_every_span_finds(names, sentences):
    found = Lexicon.of(names, 4).find(sentences)
    listed = sorted(zip(found.sentence.tolist(), found.start.tolist(), found.width.tolist()))
    known = {folded(words) for words, _ in names}
    assert listed == [
        (i, start, width)
        for i, sentence in enumerate(sentences)
        for start in range(len(sentence))
        for width in range(1, len(sentence) - start + 1)
        if folded(sentence[start : start + width]) in known
    ]
    among = range(1, len(sentences), 2)
    some = Lexicon.of(names, 4).find(sentences, among)
    assert sorted(zip(some.sentence.tolist(), some.start.tolist(), some.width.tolist())) == [
        one for one in listed if one[0] in among
    ]


@given(NAMES.filter(len))
def test_evidence_is_of_the_counts(names):
    """log of how much likelier a label is for these words than for any, with one more name that is as all are."""
    every = [label for _, label in names]
    share = {y: (every.count(y) + 1) / (len(every) + 3) for y in (1, 2, 3)}
    for words, _ in names:
        found = Lexicon.of(names, 4).find([words])
        own = [label for other, label in names if folded(other) == folded(words)]
        row = found.evidence[found.width == len(words)]
        expected = [np.log((own.count(y) + share[y]) / (len(own) + 1) / share[y]) for y in (1, 2, 3)]
        assert row.tolist() == [pytest.approx([0.0, *expected], abs=1e-5)]


def test_one_label_in_all_says_nothing():
    found = Lexicon.of([(["Ada"], 1), (["Ada"], 1)], 2).find([["Ada"]])
    assert found.evidence.tolist() == [[0.0, 0.0]]


@given(NAMES, SENTENCES)
def test_it_comes_back_from_text(names, sentences):
    first = Lexicon.of(names, 4)
    again = Lexicon.from_json(first.to_json(), 4)
    assert again.to_json() == first.to_json()
    one, other = (
        sorted(zip(x.sentence, x.start, x.width, map(tuple, x.evidence)))
        for x in (first.find(sentences), again.find(sentences))
    )
    assert one == other


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"labels": 3, "entries": []}',
        '{"labels": 4}',
        '{"labels": 4, "entries": [["a"]]}',
        '{"labels": 4, "entries": [[["a"], [[0, 1]]]]}',
        '{"labels": 4, "entries": [[["a"], [[4, 1]]]]}',
        '{"labels": 4, "entries": [[["a"], [[1, 0]]]]}',
        '{"labels": 4, "entries": [[["a"], [["x", 1]]]]}',
        json.dumps({"labels": 4, "entries": [[["a"], [[1, 10**30]]]]}),
        '{"labels": 4, "entries": ' + "[" * 100_000,
    ],
)
def test_what_is_no_lexicon_is_refused(text):
    with pytest.raises(ValueError, match="a lexicon must have entries, each words with labels and counts"):
        Lexicon.from_json(text, 4)


@pytest.mark.parametrize("module", [lexicon, token_places])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
