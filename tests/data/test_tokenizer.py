"""Tokens stand where they say, nothing is lost between them, and sentences end where they should."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.tokenizer import Token, sentence_spans, split_at, tokens_of_text

BLANKS = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u200f"]
MARKS = [".", "...", "!", "?", "。", "؟", "،", "“", "”", "(", ")", "-", "\u0301"]
WORDS = [
    "Ada",
    "U.S.",
    "n't",
    "'s",
    "3.5",
    "e\u0301",
    "北京",
    "👩‍👩‍👧",
    "العَرَبِيَّة",
    "http://x.y/z",
    "@a",
    "Mr.",
    "1996-08-30",
]
PIECES = st.sampled_from([*BLANKS, *MARKS, *WORDS])
TEXTS = st.one_of(st.text(), st.lists(PIECES).map("".join))


def words(text):
    return [token.text for token in tokens_of_text(text)]


def sentences_of_text(text, keep=()):
    tokens = split_at(tokens_of_text(text), [border for span in keep for border in span])
    return [tokens[start:end] for start, end in sentence_spans(text, tokens, keep)]


def sentences(text, keep=()):
    return [" ".join(token.text for token in sentence) for sentence in sentences_of_text(text, keep)]


@given(TEXTS)
def test_a_token_is_what_stands_at_its_characters(text):
    tokens = tokens_of_text(text)
    assert all(text[token.start : token.end] == token.text and token.text for token in tokens)
    assert all(before.end <= after.start for before, after in zip(tokens, tokens[1:]))


@given(TEXTS)
def test_only_blanks_and_invisible_signs_are_between_tokens(text):
    covered = {position for token in tokens_of_text(text) for position in range(token.start, token.end)}
    rest = {character for position, character in enumerate(text) if position not in covered}
    assert all(character.isspace() or unicodedata.category(character) in ("Cf", "Cn") for character in rest)


@given(TEXTS, st.lists(st.integers(0, 40)))
def test_borders_cut_tokens_and_change_nothing_else(text, borders):
    whole, cut = tokens_of_text(text), split_at(tokens_of_text(text), borders)
    assert "".join(token.text for token in whole) == "".join(token.text for token in cut)
    assert not any(token.start < border < token.end for token in cut for border in borders)
    assert {token.start for token in whole} <= {token.start for token in cut}


@given(TEXTS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple), max_size=3))
def test_sentences_are_the_tokens_in_order_and_none_ends_in_a_kept_span(text, keep):
    found = sentences_of_text(text, keep)
    tokens = split_at(tokens_of_text(text), [border for span in keep for border in span])
    assert [token for sentence in found for token in sentence] == tokens
    for before, after in zip(found, found[1:]):
        assert not any(start < before[-1].end and after[0].start < end for start, end in keep)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's Ada's.", "It|'s|Ada|'s|."),
        ("They don’t, CAN'T, won't", "They|do|n’t|,|CA|N'T|,|wo|n't"),
        ("O'Brien and D'Angelo of AT&T", "O'Brien|and|D'Angelo|of|AT&T"),
        ("the dogs' 'bone'", "the|dogs|'|'|bone|'"),
        ("U.S.-based, e.g. in the U.S.", "U.S.-based|,|e.g.|in|the|U.S."),
        ("J. Smith, Dr. No, Acme Inc. and Co.", "J.|Smith|,|Dr.|No|,|Acme|Inc.|and|Co."),
        ("on 1996-08-30 at 12:30, 3.5% of $10,000 or 1/2", "on|1996-08-30|at|12:30|,|3.5|%|of|$|10,000|or|1/2"),
        ("-5, +.5 and 5-6 (-7)", "-5|,|+.5|and|5-6|(|-7|)"),
        ("a 16-year-old's F-16, 30th", "a|16-year-old|'s|F-16|,|30th"),
        ("See https://a.org/b?c=d, or mail a.b@c.org.", "See|https://a.org/b?c=d|,|or|mail|a.b@c.org|."),
        ("Amazon.com. @ada #tag", "Amazon.com|.|@ada|#tag"),
        ("Wait... what?! No -- \"yes\"", 'Wait|...|what|?|!|No|--|"|yes|"'),
        ("👩‍👩‍👧🇫🇷 👍🏽 I ❤️ it", "👩‍👩‍👧|🇫🇷|👍🏽|I|❤️|it"),
        ("cafe\u0301s", "cafe\u0301s"),
        ("قالَ: «نعم»، ثُمَّ", "قالَ|:|«|نعم|»|،|ثُمَّ"),
        ("我在北京ABC。", "我|在|北|京|ABC|。"),
        ("हिन्दी में।", "हिन्दी|में|।"),
        ("  \n\t ", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_where_tokens_are_cut(text, expected):
    assert words(text) == [word for word in expected.split("|") if word]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Ada wrote. Bob read! Did he? Yes.", 4),
        ("Mr. Smith of the U.S. Navy met Dr. No.", 1),
        ("He works at Acme Inc. The firm is small.", 2),
        ("It closed at 5 p.m. He left.", 2),
        ("It rose 3.5 percent. 7 others fell.", 2),
        ("Version 7. 5 is out.", 1),
        ("He said: “It is over.” She left.", 2),
        ("“Is it?” she asked.", 1),
        ("ذهب أحمد. هل عاد؟ نعم۔", 3),
        ("他走了。她来了！“好吗？”他问。", 4),
        ("यह एक है। वह दो है।", 2),
        ("A headline\n\nThe text goes\non here", 2),
        ("A headline\r\n\r\nThe text", 2),
        ("One line\nand its rest", 1),
        ("Word", 1),
        ("...", 1),
        ("", 0),
    ],
)
def test_where_sentences_end(text, count):
    assert len(sentences(text)) == count


def test_an_entity_holds_its_sentence_together():
    text = "He read What Now? Yes. Today"
    assert len(sentences(text)) == 3
    assert sentences(text, [(8, 22)]) == ["He read What Now ? Yes .", "Today"]
    assert sentences("One\n\nTwo", [(0, 8)]) == ["One Two"]


def test_breaks_end_sentences_too():
    tokens = tokens_of_text("Title here Text. More")
    assert sentence_spans("Title here Text. More", tokens, breaks=[11]) == [(0, 2), (2, 4), (4, 5)]
    assert sentence_spans("Title here Text. More", tokens, breaks=[11], only_breaks=True) == [(0, 2), (2, 5)]
    assert sentence_spans("Title here Text. More", tokens, [(0, 15)], breaks=[11]) == [(0, 4), (4, 5)]


def test_a_token_is_text_and_characters():
    assert tokens_of_text(" Ada") == [Token("Ada", 1, 4)]


@pytest.mark.parametrize(
    "piece", ["+.", "a-", "a'", ".", "n't", "a.", "@", "1,", "\n ", "\u0301", "www.", "a@", "((", "x" * 64]
)
def test_no_text_takes_long(piece):
    text = piece * (50_000 // len(piece))
    begin = time.process_time()
    sentences_of_text(text)
    assert time.process_time() - begin < 3


@pytest.mark.parametrize("unit", ["中", "ไ", "'s", "a@", " \n"])
@pytest.mark.parametrize(("before", "behind"), [("", ""), ("http://a", "b")])
def test_the_worst_texts_take_time_in_proportion(unit, before, behind):
    """The largest text that the service takes; 20,000 Chinese characters without a mark took 12 seconds."""
    text = before + unit * (200_000 // len(unit)) + behind
    begin = time.process_time()
    sentence_spans(text, tokens_of_text(text))
    assert time.process_time() - begin < 5


def test_many_entities_over_the_whole_text_are_cheap():
    text = "word " * 20_000
    tokens = tokens_of_text(text)
    begin = time.process_time()
    assert sentence_spans(text, tokens, [(i, len(text)) for i in range(0, 20_000, 2)]) == [(0, 20_000)]
    assert time.process_time() - begin < 5
