"""Mentions against their definition: every span, compared with every other."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data import batching, mentions
from spansieve.data.batching import documents_together
from spansieve.data.mentions import mentions_of

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "A", "b", "ß", "SS"]), max_size=6), max_size=6)


def words(sentence, start, width):
    return tuple(word.casefold() for word in sentence[start : start + width])


def by_definition(sentences, documents, max_width):
    """The groups, each a set of spans."""
    groups: dict = {}
    for i, (sentence, document) in enumerate(zip(sentences, documents)):
        for start, width in itertools.product(range(len(sentence)), range(1, max_width + 1)):
            if document is not None and start + width <= len(sentence):
                groups.setdefault((document, words(sentence, start, width)), set()).add((i, start, width))
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


@given(SENTENCES, st.data(), st.integers(1, 4))
def test_groups_are_those_of_the_definition(sentences, data, max_width):
    documents = data.draw(
        st.lists(st.sampled_from([None, 0, "x", ("t", 1)]), min_size=len(sentences), max_size=len(sentences))
    )
    found = mentions_of(sentences, documents, max_width)
    groups: dict = {}
    for i, start, width, group in zip(found.sentence, found.start, found.width, found.group):
        groups.setdefault(group, []).append((i, start, width))
    assert sorted(map(sorted, groups.values())) == by_definition(sentences, documents, max_width)
    assert found.first.tolist() == [found.group.tolist().index(group) for group in range(len(groups))]


@given(SENTENCES)
def test_what_is_found_again(sentences):
    found = mentions_of(sentences, [0] * len(sentences), 3)
    spans = np.array(
        [(i, s, w) for i, one in enumerate(sentences) for s in range(len(one)) for w in range(1, len(one) - s + 1)],
        np.int64,
    ).reshape(-1, 3)
    at = found.find(*spans.T)
    listed = list(zip(found.sentence.tolist(), found.start.tolist(), found.width.tolist()))
    for span, place in zip(map(tuple, spans.tolist()), at):
        assert (listed[place] == span) if place >= 0 else span not in listed


@given(SENTENCES)
def test_some_of_the_sentences(sentences):
    among = range(0, len(sentences), 2)
    some = mentions_of(sentences, [0] * len(sentences), 3, among)
    alone = mentions_of([sentences[i] for i in among], [0] * len(among), 3)
    assert (some.sentence == 2 * alone.sentence).all()
    assert (some.group == alone.group).all()


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=12), st.integers(1, 9))
def test_documents_stay_whole(documents, most):
    parts = documents_together(documents, [2] * len(documents), most)
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(len(documents)))
    for document in {*documents} - {None}:
        assert sum(any(documents[i] == document for i in part) for part in parts) == 1


@pytest.mark.parametrize("module", [mentions, batching])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
