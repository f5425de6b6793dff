"""Subwords of a Hugging Face encoder, in NumPy and without torch: tokens to windows of subwords, and back to tokens.

Axes: B sentences, L tokens, T tokens in all, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_CACHED = 200_000  # tokens, some two hundred bytes each
WORDS_AT_ONCE = 1_000  # that are cut
TOKENS_IN_BLOCK = 100  # which the tokenizer sees as one sentence: token by token takes it 1.2 to 1.5 times as long
LOWER, UPPER, TITLE, MIXED, NUMBER, OTHER = range(1, 7)
NUM_CASINGS = 7  # 0 stands for what is no token
Array = TypeVar("Array", bound=Any)  # of NumPy or of torch


# ---- Tokens to subwords ----------------------------------------------------------------------------------------------


class SubwordCache:
    """The subwords of tokens, cut once and looked up from then on: text repeats itself.

    A tokenizer that is given a sentence as tokens cuts each of them by itself, so that the subwords of a token are the
    same in every sentence. With BPE dropout they are drawn anew each time, and nothing is cached. Threads may share a
    cache; a copy in another process starts empty.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.is_random = bool(getattr(tokenizer.model, "dropout", None))
        self._known: dict[str, list[int]] = {}

    def __call__(self, tokens: Sequence[str]) -> list[list[int]]:
        """The ids of each token's subwords; none for a token that the tokenizer drops, as it does zero-width ones."""
        if self.is_random:
            return self.cut(tokens)
        return list(map(self._with(tokens).__getitem__, tokens))

    def counts(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """How many subwords each sentence has: what batches must be sorted by to hold little padding. Sorted by
        tokens, two fifths of what an encoder reads of CoNLL-2003's test set would be padding."""
        known = self._with(chain.from_iterable(sentences))
        return [sum(len(known[token]) or 1 for token in sentence) for sentence in sentences]

    def _with(self, tokens: Iterable[str]) -> dict[str, list[int]]:
        """The cache with these tokens in it."""
        known, distinct = self._known, set(tokens)
        if len(known) + len(distinct) > MAX_CACHED:
            known = self._known = {}  # a new one: other threads may be reading
        unknown = [token for token in distinct if token not in known]
        if unknown:
            known.update(zip(unknown, self.cut(unknown)))
        return known

    def cut(self, tokens: Sequence[str]) -> list[list[int]]:
        """The ids of each token's subwords, from the tokenizer and not from the cache."""
        tokenizer = self._tokenizer
        # The last call of transformers' wrapper may have left these on.
        if tokenizer.truncation is not None:
            tokenizer.no_truncation()
        if tokenizer.padding is not None:
            tokenizer.no_padding()
        blocks = [tokens[i : i + TOKENS_IN_BLOCK] for i in range(0, len(tokens), TOKENS_IN_BLOCK)]
        encodings = tokenizer.encode_batch(blocks, is_pretokenized=True, add_special_tokens=False)
        cuts: list[list[int]] = []
        for block, encoding in zip(blocks, encodings):
            ids, token = encoding.ids, np.array(encoding.word_ids, np.int64)
            bounds = np.searchsorted(token, range(len(block) + 1)).tolist()
            cuts += [ids[start:end] for start, end in pairwise(bounds)]
        return cuts

    def __reduce__(self) -> tuple[Callable[..., SubwordCache], tuple[Tokenizer, bool]]:
        return _cache_of, (self._tokenizer, self._tokenizer.encode_special_tokens)


def _cache_of(tokenizer: Tokenizer, encode_special_tokens: bool) -> SubwordCache:
    tokenizer.encode_special_tokens = encode_special_tokens  # which pickling loses
    return SubwordCache(tokenizer)


class SubwordsOfTokens(NamedTuple):
    """The subwords of tokens, in one row; none is without."""

    subwords: np.ndarray  # (P,)
    counts: np.ndarray  # (T,)

    @classmethod
    def of(cls, cuts: Iterable[Sequence[int]], unknown: int) -> SubwordsOfTokens:
        """Put the ids of each token in one row; a token without any is read as the unknown one."""
        filled = [cut or (unknown,) for cut in cuts]
        counts = np.fromiter(map(len, filled), np.int64, len(filled))
        return cls(np.fromiter(chain.from_iterable(filled), np.int64, counts.sum()), counts)


@dataclass(frozen=True)
class SubwordLayout:
    """How subwords are laid out for the encoder: what stands around a window, how much it holds, what fills it up."""

    before: tuple[int, ...]  # special subwords
    after: tuple[int, ...]
    padding: int
    unknown: int
    capacity: int  # subwords in a window beside the special ones
    overlap: float
    casing: bool

    def features(self, sentences: Sequence[Sequence[str]], subwords_of: SubwordCache) -> dict[str, np.ndarray]:
        """The input of an encoder. A token without subwords is read as the unknown one."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        tokens = list(chain.from_iterable(sentences))
        cuts = SubwordsOfTokens.of(subwords_of(tokens), self.unknown)
        casing = np.fromiter(map(casing_of, tokens), np.int64, len(tokens)) if self.casing else None
        return self.arrays(cuts, casing, lengths)

    def arrays(self, cuts: SubwordsOfTokens, casing: np.ndarray | None, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The input of an encoder, from the subwords and the casing of the tokens of sentences of these lengths."""
        subwords, counts = cuts
        bounds = _bounds(counts)
        casings = None if casing is None else np.repeat(casing, counts)
        arrays = self._windows(subwords, casings, bounds[_bounds(lengths)])
        # For every token its first and last subword among those kept, which are in order.
        arrays["first"], arrays["last"] = padded(bounds[:-1], lengths), padded(bounds[1:] - 1, lengths)  # (B, L)
        arrays["num_tokens"] = lengths
        return arrays

    def features_of_one(self, sentence: Sequence[str], subwords_of: SubwordCache) -> dict[str, np.ndarray] | None:
        """The same as `features` gives of a single sentence, soon: by lists, of which arrays are made in the end. None
        where it does not fit into one window."""
        cuts = [cut or (self.unknown,) for cut in subwords_of(sentence)]
        ends = list(accumulate(map(len, cuts)))
        size = ends[-1] if ends else 0
        if not 0 < size <= self.capacity:
            return None
        before, width = len(self.before), len(self.before) + size + len(self.after)
        arrays: dict[str, np.ndarray] = {
            "input_ids": np.array([[*self.before, *chain.from_iterable(cuts), *self.after]], np.int64),
            "attention_mask": np.ones((1, width), np.int64),
            "kept": np.arange(before, before + size),
        }
        if self.casing:
            arrays["casing"] = np.zeros((1, width), np.int64)
            casings = [casing_of(token) for token, cut in zip(sentence, cuts) for _ in cut]
            arrays["casing"][0, before : before + size] = casings
        last = np.array([ends], np.int64)
        arrays["first"], arrays["last"] = last - [[len(cut) for cut in cuts]], last - 1
        arrays["num_tokens"] = np.array([len(cuts)], np.int64)
        return arrays

    def _windows(self, subwords: np.ndarray, casings: np.ndarray | None, bounds: np.ndarray) -> dict[str, np.ndarray]:
        """What the model reads, and where each subword stands in it; `bounds` are the sentences' among the subwords."""
        start, end, num_kept = self._window_bounds(bounds)
        before, num_windows = len(self.before), len(start)
        width = before + (end - start).max(initial=0) + len(self.after) if num_windows else 0
        position = np.arange(width) - before + start[:, None]  # (W, S): among the subwords
        is_subword = (position >= start[:, None]) & (position < end[:, None])
        ids = np.full((num_windows, width), self.padding)
        ids[:, :before] = self.before
        ids[is_subword] = subwords[position[is_subword]]
        lengths = before + end - start
        for offset, special in enumerate(self.after):
            ids[np.arange(num_windows), lengths + offset] = special
        mask = (np.arange(width) < lengths[:, None] + len(self.after)).astype(np.int64)
        # What the windows keep follows one another through the subwords, each of them once.
        window = np.repeat(np.arange(num_windows), num_kept)
        kept = window * width + before + np.arange(len(subwords)) - start[window]
        arrays = {"input_ids": ids, "attention_mask": mask, "kept": kept}  # (W, S), (W, S), (P,)
        if casings is not None:
            arrays["casing"] = np.zeros_like(ids)
            arrays["casing"][is_subword] = casings[position[is_subword]]
        return arrays

    def _window_bounds(self, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start and end of each window among the subwords, and how many of them it keeps; (W,) each."""
        start, end, sizes = bounds[:-1], bounds[1:], np.diff(bounds)
        if sizes.max(initial=0) <= self.capacity:  # as nearly always: every sentence is one window
            is_there = sizes > 0
            return start[is_there], end[is_there], sizes[is_there]
        windows = [
            (low + window.start, low + window.end, window.keep_end - window.keep_start)
            for low, high in zip(start.tolist(), end.tolist())
            for window in windows_over(high - low, self.capacity, self.overlap)
        ]
        return tuple(np.array(windows, np.int64).T)


class SubwordReader:
    """The half of a Hugging Face encoder that works on the host, for the words of a vocabulary: they are named by
    number, and their subwords are looked up in arrays. A copy in another process knows no words."""

    def __init__(self, layout: SubwordLayout, subwords_of: SubwordCache) -> None:
        self.layout, self._subwords_of = layout, subwords_of
        self.clear()

    def __reduce__(self) -> tuple[type[SubwordReader], tuple[SubwordLayout, SubwordCache]]:
        return SubwordReader, (self.layout, self._subwords_of)

    def clear(self) -> None:
        self._words: list[str] = []
        self._known = SubwordsOfTokens.of((), self.layout.unknown)
        self._first = self._casing = np.zeros(0, np.int64)

    def learn(self, words: Sequence[str]) -> None:
        """Take over the next words of the vocabulary."""
        if not self._subwords_of.is_random:
            # Not all at once: a list per word would have the garbage collector go through all there is in the process.
            parts = [words[i : i + WORDS_AT_ONCE] for i in range(0, len(words), WORDS_AT_ONCE)]
            new = (SubwordsOfTokens.of(self._subwords_of.cut(part), self.layout.unknown) for part in parts)
            self._known = SubwordsOfTokens(*(np.concatenate(columns) for columns in zip(self._known, *new)))
            self._first = _bounds(self._known.counts)[:-1]
        if self.layout.casing:
            self._casing = np.concatenate((self._casing, np.fromiter(map(casing_of, words), np.int64, len(words))))
        self._words += words

    def sizes(self, word: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The size of each sentence as input, special subwords included, (B,); `word`: the tokens of all, (T,)."""
        counts = self._cuts(word).counts if self._subwords_of.is_random else self._known.counts[word]
        num_special = len(self.layout.before) + len(self.layout.after)
        return num_special + np.diff(_bounds(counts)[_bounds(lengths)])

    def features(self, word: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The features of sentences of these lengths, which the encoder takes."""
        return self.layout.arrays(self._cuts(word), self._casing[word] if self.layout.casing else None, lengths)

    def _cuts(self, word: np.ndarray) -> SubwordsOfTokens:
        if self._subwords_of.is_random:
            return SubwordsOfTokens.of(self._subwords_of([self._words[i] for i in word.tolist()]), self.layout.unknown)
        counts = self._known.counts[word]
        shift = self._first[word] - _bounds(counts)[:-1]  # from a subword's place here to that among all known
        return SubwordsOfTokens(self._known.subwords[np.arange(counts.sum()) + np.repeat(shift, counts)], counts)


def _bounds(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], counts.cumsum()))


class Window(NamedTuple):
    """A window: positions `start … end - 1` are read together, and the vectors of `keep_start … keep_end - 1` kept."""

    start: int
    end: int
    keep_start: int
    keep_end: int


def windows_over(length: int, capacity: int, overlap: float) -> list[Window]:
    """Windows of at most `capacity` positions over `length`: each position is kept once, and in the middle of an
    overlap the one window hands over to the next.

    >>> windows_over(10, 6, 0.34)
    [Window(start=0, end=6, keep_start=0, keep_end=5), Window(start=4, end=10, keep_start=5, keep_end=10)]
    """
    if length <= capacity:
        return [Window(0, length, 0, length)] if length else []
    shared = min(int(capacity * overlap), capacity - 1)
    starts = [*range(0, length - capacity, capacity - shared), length - capacity]
    windows, reached = [], 0
    for start, following in zip(starts, [*starts[1:], None]):
        end = start + capacity
        keep_end = length if following is None else (following + end + 1) // 2
        windows.append(Window(start, end, reached, keep_end))
        reached = keep_end
    return windows


def padded(flat: ArrayLike, lengths: np.ndarray) -> np.ndarray:
    """Rows of these lengths, which follow one another in `flat`, as one array (B, L).

    >>> padded([1, 2, 3], np.array([2, 0, 1])).tolist()
    [[1, 2], [0, 0], [3, 0]]
    """
    rows = np.zeros((len(lengths), lengths.max(initial=0)), np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = flat
    return rows


@lru_cache(maxsize=1 << 16)
def casing_of(word: str) -> int:
    """How a word is written, which an uncased encoder loses, as a small integer.

    >>> [casing_of(word) for word in ("paris", "UN", "Paris", "McGill", "1996-08-30", "…")] == [1, 2, 3, 4, 5, 6]
    True
    """
    if word.islower():
        return LOWER
    if word.isupper():
        # One capital may begin a name as well as be one: "A" is written as a title is.
        return UPPER if len(word) > 1 else TITLE
    if word[:1].isupper() and word[1:].islower():
        return TITLE
    if any(character.isupper() for character in word):
        return MIXED
    return NUMBER if any(character.isdigit() for character in word) else OTHER


# ---- Vectors of subwords to vectors of tokens ------------------------------------------------------------------------


def pooled(
    subwords: Array, first: Array, last: Array, pooling: str, prefix_sums: Callable[[Array], Array] | None = None
) -> Array:
    """One vector per token, (B, L, D), from those of its subwords, (P, D): the first, the last or their mean.

    With Σᵢ the sum of the vectors before subword i, the mean over subwords f … l is (Σₗ₊₁ − Σ_f) / (l + 1 − f). These
    sums run over the whole batch, and are therefore in double precision. `prefix_sums`: torch's, for its tensors.
    """
    if pooling == "first":
        return subwords[first]
    if pooling == "last":
        return subwords[last]
    sums = (prefix_sums or _prefix_sums)(subwords)  # (P + 1, D)
    return (sums[last + 1] - sums[first]) / (last + 1 - first)[..., None]


def _prefix_sums(vectors: np.ndarray) -> np.ndarray:
    sums = np.zeros((len(vectors) + 1, vectors.shape[1]))
    np.cumsum(vectors, axis=0, dtype=np.float64, out=sums[1:])
    return sums
