"""What a Hugging Face encoder reads, in NumPy and without torch: sentences to windows of subwords.

Axes: B sentences, L tokens, W windows, S subwords in a window, P subwords in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Encoding

from spansieve.nn.casing import casing_of
from spansieve.nn.padding import padded
from spansieve.nn.windows import windows_over

Encode = Callable[[list[list[str]]], Sequence[Encoding]]  # sentences of tokens, each at least one; no special subwords


@dataclass(frozen=True)
class SubwordLayout:
    """How subwords are laid out for the encoder: what stands around a window, how much it holds, what fills it up."""

    before: tuple[int, ...]  # special subwords
    after: tuple[int, ...]
    padding: int
    unknown: int
    room: int  # subwords in a window beside the special ones
    overlap: float
    casing: bool

    def features(self, sentences: Sequence[Sequence[str]], encode: Encode) -> dict[str, np.ndarray]:
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        subwords, owner = self._subwords(sentences, lengths, encode)  # (P,) each
        counts = np.bincount(owner, minlength=lengths.sum())  # the subwords of each token
        ends = counts.cumsum()
        by_sentence = np.concatenate(([0], ends))[np.concatenate(([0], lengths.cumsum()))]
        arrays = self._windows(subwords, self._casings(sentences, owner), by_sentence)
        # For every token its first and last subword among those kept, which are in order.
        arrays["first"], arrays["last"] = padded(ends - counts, lengths), padded(ends - 1, lengths)  # (B, L)
        arrays["num_tokens"] = lengths
        return arrays

    def _subwords(
        self, sentences: Sequence[Sequence[str]], lengths: np.ndarray, encode: Encode
    ) -> tuple[np.ndarray, np.ndarray]:
        """The subwords of all sentences, and which of all tokens each belongs to. A token without any, such as a lone
        zero-width character, is the unknown one."""
        if not lengths.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        found = encode([list(sentence) for sentence in sentences if sentence])
        is_read = lengths > 0
        counts = np.fromiter(map(len, found), np.int64, is_read.sum())
        subwords = np.fromiter(chain.from_iterable(one.ids for one in found), np.int64, counts.sum())
        owner = np.fromiter(chain.from_iterable(one.word_ids for one in found), np.int64, counts.sum())
        owner += np.repeat((lengths.cumsum() - lengths)[is_read], counts)
        missing = np.flatnonzero(np.bincount(owner, minlength=lengths.sum()) == 0)
        if missing.size:
            subwords = np.concatenate((subwords, np.full(missing.size, self.unknown)))
            owner = np.concatenate((owner, missing))
            order = owner.argsort(kind="stable")
            subwords, owner = subwords[order], owner[order]
        return subwords, owner

    def _casings(self, sentences: Sequence[Sequence[str]], owner: np.ndarray) -> np.ndarray | None:
        """How the token of each subword is written, (P,)."""
        if not self.casing:
            return None
        return np.array([casing_of(token) for sentence in sentences for token in sentence], np.int64)[owner]

    def _windows(self, subwords: np.ndarray, casings: np.ndarray | None, bounds: np.ndarray) -> dict[str, np.ndarray]:
        """What the model reads, and where each subword stands in it; `bounds` are the sentences' among the subwords."""
        windows = [
            (low + window.start, low + window.end, window.keep_end - window.keep_start)
            for low, high in zip(bounds.tolist(), bounds[1:].tolist())
            for window in windows_over(high - low, self.room, self.overlap)
        ]
        start, end, num_kept = np.array(windows, np.int64).reshape(-1, 3).T
        before, num_windows = len(self.before), len(windows)
        width = before + (end - start).max(initial=0) + len(self.after) if num_windows else 0
        place = np.arange(width) - before + start[:, None]  # (W, S): which subword is there
        is_subword = (place >= start[:, None]) & (place < end[:, None])
        ids = np.full((num_windows, width), self.padding)
        ids[:, :before] = self.before
        ids[is_subword] = subwords[place[is_subword]]
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
            arrays["casing"][is_subword] = casings[place[is_subword]]
        return arrays
