"""Blocks of texts are cut as each text is, whatever stands in them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spansieve.data import block_tokenizer
from spansieve.data.block_tokenizer import BLANK, NAME_LETTER, BlockTokenizer
from spansieve.data.tokenizer import NAME_LETTER as NAME_LETTER_EXPRESSION
from spansieve.data.tokenizer import Token, sequences_of_text

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
# fmt: off
BLANKS = [
    " ",
    "  ",
    "\n",
    "\r",
    "\n \r",
    "\t",
    "\u00a0",
    "\u2028",
    "\x1c",
    "\x85",
    "\u3000",
    "\u200b",
    "\u200f",
    "\ufeff",
]
MARKS = [
    ".",
    "...",
    "!",
    "?",
    "…",
    "。",
    "؟",
    "،",
    "“",
    "”",
    "(",
    ")",
    "]",
    "''",
    "-",
    ",",
    ";",
    "@",
    "#",
    "'",
    "\u0301",
]
WORDS = [
    *("Ada", "a", "A", "J.", "(J.", "ß.", "U.S.", "U.S.-based", "n't", "don't", "'s", "3.5", "7", "-5"),
    *("١", "²", "e\u0301"),
    *("北京", "ก", "👩‍👩‍👧", "🇫🇷", "العَرَبِيَّة", "http://x.y/z.", "www.", "a.b@c.org", "@a", "#b", "Mr.", "No.", "Inc."),
    *("etc.", "The", "However", "1996-08-30", "-LRB-", "US$", "\ud800", "\U0001f3fb", "_", "x" * 70),
]
# fmt: on
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from([*BLANKS, *MARKS, *WORDS])).map("".join))
KNOWING = BlockTokenizer()  # what was in the texts before


def sequences(tokenizer: BlockTokenizer, texts: list[str]) -> list[list[list[Token]]]:
    block = tokenizer(texts)
    assert block.length.sum() == len(block.word) == len(block.start) == len(block.end)
    assert (block.first == block.length.cumsum() - block.length).all()
    found: list[list[list[Token]]] = [[] for _ in texts]
    for text, first, length in zip(block.text, block.first, block.length):
        columns = (column[first : first + length].tolist() for column in (block.word, block.start, block.end))
        found[text].append([Token(tokenizer.words[word], start, end) for word, start, end in zip(*columns)])
    return found


@settings(deadline=None)  # the first call compiles
@given(st.lists(TEXTS, max_size=5))
@example(
    ["J. Smith", "J. smith", "J.", "J. ", "A. B. C. d", "J.\u200bSmith", "J. Ärger", "J. ²", "(J.\n\nThe", "J. 北"]
)
@example(
    ["One\n\u200b\nTwo", "One\r\rTwo", "One\n\rTwo", "One\n\x1c\r\nTwo", "One\r\n\r\nTwo", "One\r\nTwo", "a\n\u200b\rb"]
)
@example(
    ["Version 7. 5 is out. 5", "7. 5", ". 5", "7 . 5", "He (left.) He", "No. The", "Inc. The", "Inc. the", "A. The"]
)
@example(["", " ", "\u200b"])
@example([])
def test_a_block_is_cut_as_its_texts_are(texts):
    expected = [sequences_of_text(text) for text in texts]
    assert sequences(BlockTokenizer(), texts) == expected
    assert sequences(KNOWING, texts) == expected


@settings(deadline=None)  # the first call compiles
@given(st.lists(TEXTS, max_size=5))
def test_a_text_as_one_sequence(texts):
    expected = [sequences_of_text(text, sentences=False) for text in texts]
    assert sequences(BlockTokenizer(sentences=False), texts) == expected


def letters(text: str) -> list[Token]:
    """Words of small letters and points; all else is between tokens."""
    return [Token(match.group(), *match.span()) for match in re.finditer(r"[a-z]+|\.", text)]


@settings(deadline=None)  # the first call compiles
@given(st.lists(TEXTS, max_size=5))
@example(["a.\nB\nc", "a\n\nB", "a\nB\n\nc", "a. Bc"])
def test_a_tokenizer_of_ones_own(texts):
    expected = [sequences_of_text(text, letters) for text in texts]
    assert sequences(BlockTokenizer(letters), texts) == expected


def test_a_tokenizer_of_ones_own_is_checked():
    with pytest.raises(ValueError, match="must be in order, within the text and not empty"):
        BlockTokenizer(lambda text: [Token("", 0, 0)])(["a"])


@pytest.mark.parametrize("at_once", [1, 100])
def test_whole_pages(at_once):
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(map(len, texts)) > 100_000
    tokenizer = BlockTokenizer()
    for low in range(0, len(texts), at_once):
        part = texts[low : low + at_once]
        assert sequences(tokenizer, part) == [sequences_of_text(text) for text in part]
    assert tokenizer._pieces.num_pieces < sum(len(text.split()) for text in texts) / 2  # each of them once


def test_equal_hashes_are_told_apart():
    texts = [PAGES[0].read_text(encoding="utf-8")[:3_000], "J. Smith J. smith"]
    tokenizer = BlockTokenizer()
    tokenizer._pieces.salt[:] = 0  # every hash is 0
    for _ in range(2):
        assert sequences(tokenizer, texts) == [sequences_of_text(text) for text in texts]
    assert set(tokenizer._pieces.hashes.tolist()) == {0}


def test_what_is_known_stays_known_while_it_grows():
    tokenizer, texts = BlockTokenizer(), []
    for low in (0, 10, 200, 5_000):
        texts.append(" ".join(f"w{i}-{i % 7}." for i in range(low, 2 * low + 10)))
        assert sequences(tokenizer, texts) == [sequences_of_text(text) for text in texts]
    pieces = tokenizer._pieces
    assert pieces.num_pieces == len({piece for text in texts for piece in text.split()})
    assert np.count_nonzero(pieces.slots) == pieces.num_pieces <= len(pieces.slots) / 2


def test_it_is_full_by_words_or_by_characters(monkeypatch):
    tokenizer = BlockTokenizer()
    tokenizer(["a b c"])
    assert not tokenizer.is_full
    for name in ("MAX_WORDS", "MAX_CHARACTERS"):
        with monkeypatch.context() as patched:
            patched.setattr(block_tokenizer, name, 2)
            assert tokenizer.is_full
    tokenizer.clear()
    assert tokenizer.words == []
    assert sequences(tokenizer, ["b a"]) == [sequences_of_text("b a")]
    assert tokenizer.words == ["b", "a"]


def test_a_copy_starts_empty():
    tokenizer = BlockTokenizer(letters, sentences=False)
    tokenizer(["a b. C"])
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.words == []
    assert sequences(copy, ["a b. C d"]) == [sequences_of_text("a b. C d", letters, sentences=False)]


def test_classes_are_those_of_the_expressions():
    classes = block_tokenizer._classes()
    is_name_letter = re.compile(NAME_LETTER_EXPRESSION).match
    for code in [*range(0x3100), *range(0x1D7C0, 0x1D900), 0x20000, 0x10FFFF, 0xD800]:
        assert bool(classes[code] & BLANK) == chr(code).isspace()
        assert bool(classes[code] & NAME_LETTER) == (is_name_letter(chr(code)) is not None)
