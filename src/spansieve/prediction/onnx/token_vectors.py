"""Sentences to a vector per token, by an exported encoder.

Axes: B sentences, L tokens, U distinct words, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spansieve.nn.subwords import SubwordCache, SubwordLayout, pooled
from spansieve.nn.word_features import WordFeatures
from spansieve.nn.word_vectors import WordVectors
from spansieve.persistence.manifest import ModelError, refusing
from spansieve.prediction.onnx.folder import ENCODER, TOKENIZER, Description
from spansieve.prediction.onnx.session import Session

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MOST_SUBWORDS = 16_384  # read at once, padding included


def encoder_of(folder: Path, description: Description, threads: int, is_trial: bool = False) -> Encoder:
    session = Session(folder / ENCODER, threads, is_trial)
    if description.layout is None:
        with refusing(f"{folder} has word vectors that cannot be used"):
            vectors = WordVectors.load(folder) if description.model.builtin.vectors is not None else None
        return WordEncoder(session, WordFeatures(description.model.builtin.rows, vectors))
    from tokenizers import Tokenizer

    with refusing(f"{folder / TOKENIZER} is no tokenizer"):  # tokenizers may even panic
        tokenizer = Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
        tokenizer.encode_special_tokens = description.splits_special
    return SubwordEncoder(session, tokenizer, description.layout, description.model.encoder.pooling)


class WordEncoder:
    """The built-in encoder: hashed features of each distinct word."""

    def __init__(self, session: Session, words: WordFeatures) -> None:
        self._session, self.features = session, words.of_sentences

    def vectors(self, features: dict[str, np.ndarray]) -> np.ndarray:
        """Compute the vectors of tokens, (B, L, D)."""
        arrays = dict(features)
        counts = np.diff(arrays["gram_offsets"], append=len(arrays["grams"]))  # (U,): the pieces of each word
        arrays |= {"gram_counts": counts, "gram_words": np.repeat(np.arange(len(counts)), counts)}
        return _vectors(self._session(arrays), arrays["words"].shape)

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """The size of each sentence as input: sentences of one batch should be alike in it."""
        return [len(sentence) for sentence in sentences]


class SubwordEncoder:
    """A Hugging Face encoder: windows of subwords, of which each keeps the vector that is its best-centred one."""

    def __init__(self, session: Session, tokenizer: Tokenizer, layout: SubwordLayout, pooling: str) -> None:
        self._session, self._layout, self._pooling = session, layout, pooling
        self._cache = SubwordCache(tokenizer)
        self.sizes = self._cache.counts

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self._layout.features(sentences, self._cache)

    def vectors(self, features: dict[str, np.ndarray]) -> np.ndarray:
        first, last = features["first"], features["last"]
        subwords = self._subwords(features)
        vectors = pooled(subwords, first, last, self._pooling).astype(subwords.dtype, copy=False)
        vectors[np.arange(first.shape[1]) >= features["num_tokens"][:, None]] = 0.0
        return vectors

    def _subwords(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """(P, D): what the windows keep, which is in order. A few windows at a time, so that a text of any length takes
        no more memory than a batch does."""
        names: tuple[str, ...] = ("input_ids", "attention_mask", "casing")
        inputs = {name: arrays[name] for name in names if name in arrays}
        kept = arrays["kept"]
        num_windows, width = arrays["input_ids"].shape
        most = max(1, MOST_SUBWORDS // width)
        parts = []
        for low in range(0, num_windows, most):
            part = {name: array[low : low + most] for name, array in inputs.items()}
            read = _vectors(self._session(part), part["input_ids"].shape)  # (W, S, D)
            here = kept[np.searchsorted(kept, low * width) : np.searchsorted(kept, (low + most) * width)]
            parts.append(read.reshape(-1, read.shape[-1])[here - low * width])
        return np.concatenate(parts)


def _vectors(outputs: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Check that a graph has computed one vector for each of what it was given."""
    if len(outputs) != 1 or outputs[0].ndim != 3 or outputs[0].shape[:2] != shape or outputs[0].dtype != np.float32:
        shapes = ", ".join(f"{array.shape} {array.dtype}" for array in outputs)
        raise ModelError(f"{ENCODER} must give float32 vectors of shape {(*shape, 'D')}, got {shapes}")
    return outputs[0]


Encoder = WordEncoder | SubwordEncoder
