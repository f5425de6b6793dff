"""Blocks of texts to tokens and sentences, in arrays: what `sequences_of_text` finds, without an object per token.

No token of `tokens_of_text` holds a blank, and none depends on what stands beyond one, but for the initial in "J.
Smith". So a text is cut at its blanks into pieces, and a piece is cut into tokens by the tokenizer's own expression
once: text repeats itself. From then on it is looked up in a table of open addressing, hashed and compared by compiled
code.

Axes: B sentences, T tokens of all texts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import pairwise
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.jit import compiled
from spansieve.data import tokenizer as rules
from spansieve.data.tokenizer import CLOSING, END_MARK, Tokenizer, checked_tokens, tokens_of_text

MAX_WORDS = 200_000  # that are kept, distinct ones, some two hundred bytes each
MAX_CHARACTERS = 1 << 23  # of pieces that are kept
CODE_POINTS = 0x110000
BLANK, NAME_LETTER = 1, 2  # classes of characters


class TokenBlock(NamedTuple):
    """The tokens and sentences of a block of texts."""

    word: np.ndarray  # (T,): the id of each token's text
    start: np.ndarray  # (T,): in characters of its text
    end: np.ndarray  # (T,)
    text: np.ndarray  # (B,): which of the texts each sentence is of
    first: np.ndarray  # (B,): its first token
    length: np.ndarray  # (B,): in tokens


class BlockTokenizer:
    """Cut blocks of texts into tokens and sentences, or into one sequence per text. `words[i]` is the text of the
    tokens with id i. What it knows only grows, until `clear`; a copy in another process starts empty."""

    def __init__(self, tokenizer: Tokenizer = tokens_of_text, sentences: bool = True) -> None:
        self.tokenizer, self.sentences = tokenizer, sentences
        self.clear()

    def __reduce__(self) -> tuple[type[BlockTokenizer], tuple[Tokenizer, bool]]:
        return BlockTokenizer, (self.tokenizer, self.sentences)

    def clear(self) -> None:
        self.words: list[str] = []
        self._ids: dict[str, int] = {}
        self._traits = np.zeros(0, np.int64)  # of each word
        self._pieces = _Pieces()

    @property
    def is_full(self) -> bool:
        """Whether it is time to `clear`, between blocks."""
        return len(self.words) > MAX_WORDS or self._pieces.num_characters > MAX_CHARACTERS

    def __call__(self, texts: Sequence[str]) -> TokenBlock:
        # The last one is of no text: a buffer must not be empty.
        characters = np.frombuffer("".join([*texts, "\n"]).encode("utf-32-le", "surrogatepass"), "<u4")
        bounds = _bounds(list(map(len, texts)))
        if self.tokenizer is tokens_of_text:
            word, start, end, token_bounds = self._pieces.cut(characters, bounds, self._id)
        else:
            word, start, end, token_bounds = self._tokens_one_by_one(texts)
        is_first = np.zeros(len(word) + 1, np.bool_)
        is_first[token_bounds] = True
        if self.sentences:
            self._learn_traits()
            _mark_sentences(characters, _classes(), bounds, token_bounds, start, end, word, self._traits, is_first)
        first = np.flatnonzero(is_first[:-1])
        text = np.searchsorted(token_bounds, first, side="right") - 1
        return TokenBlock(word, start, end, text, first, np.diff(first, append=len(word)))

    def _tokens_one_by_one(self, texts: Sequence[str]) -> tuple[np.ndarray, ...]:
        found = [checked_tokens(text, self.tokenizer(text)) for text in texts]
        flat = [(self._id(token), start, end) for tokens in found for token, start, end in tokens]
        return *np.array(flat, np.int64).reshape(-1, 3).T.copy(), _bounds(list(map(len, found)))

    def _id(self, word: str) -> int:
        known = self._ids.setdefault(word, len(self.words))
        if known == len(self.words):
            self.words.append(word)
        return known

    def _learn_traits(self) -> None:
        known = len(self._traits)
        if known < len(self.words):
            new = np.fromiter(map(rules.traits_of, self.words[known:]), np.int64)
            self._traits = np.concatenate((self._traits, new))


def _bounds(counts: Sequence[int]) -> np.ndarray:
    return np.array([0, *counts], np.int64).cumsum()


# ---- Pieces to tokens ------------------------------------------------------------------------------------------------


class _Pieces:
    """A table of what stands between blanks, each with its tokens.

    Of N pieces: the hash, where its characters begin among all, and where its tokens do. A piece that may end with an
    initial, and has a name behind it, has the blank between them, too.
    """

    def __init__(self) -> None:
        self.num_pieces = self.num_characters = 0
        # Drawn, so that no text can be written whose pieces all fall on one slot.
        self.salt = np.array([SystemRandom().getrandbits(64), SystemRandom().getrandbits(64) | 1], np.uint64)
        self.slots = np.zeros(1 << 10, np.int32)  # a piece and one, or 0: none; at most half of them are taken
        self.hashes = np.zeros(0, np.uint64)
        self.characters, self.first_character = np.zeros(0, np.uint32), np.zeros(1, np.int64)
        self.first_token = np.zeros(1, np.int64)
        self.tokens = np.zeros((0, 3), np.int64)  # the word of each, its start and its end within the piece

    def cut(self, characters: np.ndarray, bounds: np.ndarray, id_of) -> tuple[np.ndarray, ...]:
        """Word, start and end of each token, and where the tokens of each text begin."""
        known = self.num_pieces
        most = (len(characters) + len(bounds)) // 2 + 1
        self._reserve(known + most, self.num_characters + len(characters))
        piece, begin, piece_bounds = np.empty(most, np.int64), np.empty(most, np.int64), np.empty_like(bounds)
        self.num_pieces = _find(
            characters, bounds, _classes(), self.salt, self.slots, self.hashes, self.characters, self.first_character,
            known, piece, begin, piece_bounds,
        )  # fmt: skip
        self.num_characters = int(self.first_character[self.num_pieces])
        if self.num_pieces > known:
            self._learn(known, id_of)
        piece, begin = piece[: piece_bounds[-1]], begin[: piece_bounds[-1]]
        token_bounds = np.zeros(len(piece) + 1, np.int64)
        np.cumsum(self.first_token[piece + 1] - self.first_token[piece], out=token_bounds[1:])
        word, start, end = (np.empty(token_bounds[-1], np.int64) for _ in range(3))
        _place(piece, begin, self.first_token, self.tokens, word, start, end)
        return word, start, end, token_bounds[piece_bounds]

    def _reserve(self, pieces: int, characters: int) -> None:
        self.hashes = _grown(self.hashes, pieces)
        self.first_character = _grown(self.first_character, pieces + 1)
        self.first_token = _grown(self.first_token, pieces + 1)
        self.characters = _grown(self.characters, characters)
        if 2 * pieces > len(self.slots):
            self.slots = np.zeros(1 << (2 * pieces - 1).bit_length(), np.int32)
            _refill(self.slots, self.hashes[: self.num_pieces])

    def _learn(self, known: int, id_of) -> None:
        """Cut the pieces from number `known` on into tokens."""
        low, high = self.first_character[known], self.num_characters
        text = self.characters[low:high].tobytes().decode("utf-32-le", "surrogatepass")
        tokens: list[tuple[int, int, int]] = []
        counts = []
        for start, end in pairwise((self.first_character[known : self.num_pieces + 1] - low).tolist()):
            piece = text[start:end]
            before = len(tokens)
            if piece.isascii() and piece.isalnum():  # one word: to match it takes ten times as long, and most are
                tokens.append((id_of(piece), 0, len(piece)))
                counts.append(1)
                continue
            for match in rules.TOKEN.finditer(piece + "A" if piece[-1].isspace() else piece):
                if match.start() < len(piece):
                    tokens.append((id_of(match.group()), *match.span()))
            counts.append(len(tokens) - before)
        first = self.first_token[known]
        self.tokens = _grown(self.tokens, first + len(tokens))
        self.tokens[first : first + len(tokens)] = np.array(tokens, np.int64).reshape(-1, 3)
        self.first_token[known + 1 : self.num_pieces + 1] = first + np.cumsum(counts)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    grown = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


@functools.cache
def _classes() -> np.ndarray:
    """The class of each character, by the expressions themselves."""
    every = np.arange(CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(CODE_POINTS, np.uint8)
    for kind, expression in ((BLANK, r"\s+"), (NAME_LETTER, f"{rules.NAME_LETTER}+")):
        for match in re.finditer(expression, every):
            classes[match.start() : match.end()] |= kind
    return classes


@compiled
def _find(
    characters, bounds, classes, salt, slots, hashes, known, first_character, num_pieces, piece, begin, piece_ends
):
    """Find the piece at each place of the texts, `begin` being counted from the text's first character; what is not in
    the table is added. Return how many pieces there are now."""
    last_slot = np.uint64(len(slots) - 1)
    found = 0
    piece_ends[0] = 0
    for t in range(len(bounds) - 1):
        p, stop = bounds[t], bounds[t + 1]
        while True:
            while p < stop and classes[characters[p]] & BLANK:
                p += 1
            if p == stop:
                break
            low = p
            h = salt[0]
            while p < stop and not classes[characters[p]] & BLANK:
                h = (h ^ np.uint64(characters[p])) * salt[1]
                p += 1
            length = p - low
            # The initial in "J. Smith".
            if length > 1 and characters[p - 1] == 46 and 65 <= characters[p - 2] <= 90:
                q = p
                while q < stop and classes[characters[q]] & BLANK:
                    q += 1
                if q < stop and classes[characters[q]] & NAME_LETTER:
                    length += 1
            h = (h ^ np.uint64(length)) * salt[1]
            h ^= h >> np.uint64(32)
            slot = h & last_slot
            while True:
                known_piece = slots[slot] - 1
                if known_piece < 0:
                    slots[slot] = num_pieces + 1
                    hashes[num_pieces] = h
                    at = first_character[num_pieces]
                    for i in range(length):
                        known[at + i] = characters[low + i]
                    first_character[num_pieces + 1] = at + length
                    piece[found] = num_pieces
                    num_pieces += 1
                    break
                at = first_character[known_piece]
                if hashes[known_piece] == h and first_character[known_piece + 1] - at == length:
                    i = 0
                    while i < length and known[at + i] == characters[low + i]:
                        i += 1
                    if i == length:
                        piece[found] = known_piece
                        break
                slot = (slot + np.uint64(1)) & last_slot
            begin[found] = low - bounds[t]
            found += 1
        piece_ends[t + 1] = found
    return num_pieces


@compiled
def _refill(slots, hashes):
    last_slot = np.uint64(len(slots) - 1)
    for i in range(len(hashes)):
        slot = hashes[i] & last_slot
        while slots[slot]:
            slot = (slot + np.uint64(1)) & last_slot
        slots[slot] = i + 1


@compiled
def _place(piece, begin, first_token, tokens, word, start, end):
    t = 0
    for i in range(len(piece)):
        for j in range(first_token[piece[i]], first_token[piece[i] + 1]):
            word[t], start[t], end[t] = tokens[j, 0], begin[i] + tokens[j, 1], begin[i] + tokens[j, 2]
            t += 1


# ---- Tokens to sentences: `sentence_spans`, on arrays ----------------------------------------------------------------


_ends_sentence = compiled(rules.ends_sentence)


@compiled
def _mark_sentences(characters, classes, bounds, token_bounds, start, end, word, traits, is_first):
    for t in range(len(bounds) - 1):
        stop = token_bounds[t + 1]
        mark = token_bounds[t]
        while mark < stop:
            last = mark
            if traits[word[mark]] & END_MARK:
                while last + 1 < stop and traits[word[last + 1]] & CLOSING and start[last + 1] == end[last]:
                    last += 1
            if last + 1 < stop:
                gap_start, gap_end = bounds[t] + end[last], bounds[t] + start[last + 1]
                before = traits[word[mark - 1]] if mark > token_bounds[t] else 0
                ends = _has_blank_line(characters, classes, gap_start, gap_end)
                ends = ends or _ends_sentence(before, traits[word[mark]], traits[word[last + 1]], gap_end > gap_start)
                is_first[last + 1] = ends
            mark = last + 1


@compiled
def _has_blank_line(characters, classes, low, high):
    """Whether a blank line is among `low … high - 1`, as the tokenizer's expression has it: after a line's end blanks
    and another, or two returns."""
    after_line, previous = False, 0
    for i in range(low, high):
        character = characters[i]
        if character == 10:
            if after_line:
                return True
            after_line = True
        elif character == 13:
            if after_line or previous == 13:
                return True
        elif not classes[character] & BLANK:
            after_line = False
        previous = character
    return False
