"""A sentence within its document."""

from __future__ import annotations

import random

from spansieve.data.context import InContext, in_context, read_with, sentences_of
from spansieve.data.example import Example
from spansieve.data.recasing import recased

DOCUMENT = [["Paris", "."], ["It", "rains", "."], ["Go", "home", "now", "!"]]


def test_each_sentence_keeps_its_own_tokens():
    for size in range(12):
        found = in_context(DOCUMENT, size)
        assert [list(sentence) for sentence in found] == DOCUMENT
        assert [len(sentence) for sentence in found] == [2, 3, 4]


def test_what_is_read_is_the_document_around():
    tokens = [token for sentence in DOCUMENT for token in sentence]
    for size in range(1, 12):
        end = 0
        for sentence in in_context(DOCUMENT, size):
            start, end = end, end + len(sentence)
            assert list(read_with(sentence)) == tokens[max(0, start - size) : end + size]


def test_documents_do_not_mix():
    examples = [
        Example.of("a b", document="1"),
        Example.of("c", document="1"),
        Example.of("d", document="2"),
        Example.of("e"),
        Example.of("f"),
    ]
    found = sentences_of(examples, 9)
    assert found[0] == InContext(("a", "b"), (), ("c",))
    assert found[1] == InContext(("c",), ("a", "b"), ())
    assert [read_with(sentence) for sentence in found[2:]] == [("d",), ("e",), ("f",)]
    assert sentences_of(examples, 0) == [example.tokens for example in examples]


def test_a_headline_stays_in_its_context():
    sentence = InContext(("Rome", "wins"), ("Before",), ("after",))
    assert recased(sentence, 1.0, "seed") == InContext(("ROME", "WINS"), ("Before",), ("after",))
    assert recased(sentence, 0.0, "seed") is sentence


def test_any_document_is_put_together_again():
    chance = random.Random(0)
    for _ in range(50):
        document = [[str(chance.random())] * chance.randint(1, 4) for _ in range(chance.randint(1, 5))]
        for sentence in in_context(document, chance.randint(1, 6)):
            assert all(isinstance(token, str) for token in read_with(sentence))
