"""A small encoder that is trained from scratch: nothing to download, and fast on two CPU cores.

Axes: B sentences, L tokens, U distinct words, D features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from spansieve.config import BuiltinConfig
from spansieve.nn.encoder import Encoder, filled, rounded
from spansieve.nn.vector_files import read_vectors
from spansieve.nn.word_features import FIELDS, IDENTITY, NORM, WordFeatures, WordReader
from spansieve.nn.word_vectors import WordVectors

WORDS_STEP, GRAMS_STEP = 64, 1_024  # distinct words and their pieces are padded to multiples, so that few shapes occur


class BuiltinEncoder(Encoder):
    """The built-in encoder: hashed features of each word, and its pretrained vector where there is one, mixed, then
    read in both directions."""

    def __init__(self, config: BuiltinConfig, folder: Path | None = None) -> None:
        """Build it with new weights. Pretrained vectors are those in `folder`, which a saved model has, or are read."""
        super().__init__()
        vectors = None
        if config.vectors is not None:
            vectors = WordVectors.load(folder) if folder else read_vectors(config.vectors, config.max_vectors)
        self.word_vectors, self.word_features = vectors, WordFeatures(config.rows, vectors)
        num_inputs = (len(FIELDS) + 1) * config.feature_size + (vectors.size if vectors else 0)
        self.corrections: nn.Embedding | None = None
        if vectors and config.train_vectors:
            self.corrections = nn.Embedding(config.rows, vectors.size)
            nn.init.zeros_(self.corrections.weight)
        self.word_dropout = config.word_dropout
        self.tables = nn.ModuleList(nn.Embedding(config.rows, config.feature_size) for _ in FIELDS)
        self.grams = nn.EmbeddingBag(config.rows, config.feature_size, mode="mean")
        self.mix = nn.Sequential(nn.Linear(num_inputs, config.size), nn.GELU(), nn.LayerNorm(config.size))
        self.dropout = nn.Dropout(config.dropout)
        context = LstmContext if config.context == "lstm" else ConvContext
        self.context: LstmContext | ConvContext = context(config.size, config.layers, config.dropout)
        self.size = self.context.size

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array) for name, array in self.word_features.of_sentences(sentences).items()}

    def reader(self) -> WordReader:
        return WordReader(self.word_features)

    def padded(self, features: Mapping[str, Tensor], num_sentences: int, num_tokens: int) -> dict[str, Tensor] | None:
        # One word more than there are, which is in no sentence: the pieces that fill up are its own.
        num_words, num_grams = rounded(len(features["fields"]) + 1, WORDS_STEP), len(features["grams"])
        made = {
            name: filled(features[name], (num_words, *features[name].shape[1:]))
            for name in ("fields", "word_vectors")
            if name in features
        }
        made["words"] = filled(features["words"], (num_sentences, num_tokens))
        made["num_tokens"] = filled(features["num_tokens"], (num_sentences,))
        made["grams"] = filled(features["grams"], (rounded(num_grams, GRAMS_STEP),))
        made["gram_offsets"] = filled(features["gram_offsets"], (num_words,), num_grams)
        return made

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        if not features["words"].numel():
            return self.grams.weight.new_zeros(*features["words"].shape, self.size)
        words = nn.functional.embedding(features["words"], self.dropout(self._distinct(features)))  # (B, L, D)
        return self.context(words, features["num_tokens"])

    def _distinct(self, features: Mapping[str, Tensor]) -> Tensor:
        """The vector of each distinct word, (U, D)."""
        rows = features["fields"]
        if self.training and self.word_dropout:
            is_hidden = torch.rand(len(rows), 1, device=rows.device) < self.word_dropout
            is_identity = torch.arange(rows.shape[1], device=rows.device) < IDENTITY
            rows = rows.masked_fill(is_hidden & is_identity, 0)
        parts = [table(rows[:, i]) for i, table in enumerate(self.tables)]
        parts.append(self.grams(features["grams"], features["gram_offsets"]))
        return self.mix(torch.cat([*parts, *self.pretrained(features)], dim=-1))

    def pretrained(self, features: Mapping[str, Tensor]) -> list[Tensor]:
        """The pretrained vector of each distinct word, (U, D), where there are such, with what training changed."""
        if "word_vectors" not in features:
            return []
        vectors = features["word_vectors"]
        return [vectors if self.corrections is None else vectors + self.corrections(features["fields"][:, NORM])]

    def save(self, folder: Path) -> None:
        if self.word_vectors is not None:
            self.word_vectors.save(folder)


class LstmContext(nn.Module):
    """A bidirectional LSTM: each layer reads the sentence in both directions.

    The sentences are not packed: on the CPU that takes twice as long, and on a GPU it would synchronise the host.
    Turned around within its length instead, a sentence has its padding last in either direction.
    """

    def __init__(self, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.size = 2 * size
        sizes = [size, *[2 * size] * (layers - 1)]
        self.rightward = nn.ModuleList(nn.LSTM(read, size) for read in sizes)
        self.leftward = nn.ModuleList(nn.LSTM(read, size) for read in sizes)
        self.between = nn.Dropout(dropout)

    def forward(self, words: Tensor, num_tokens: Tensor) -> Tensor:
        turn = _turned(words, num_tokens)
        read = words.transpose(0, 1)  # (L, B, D)
        for layer, (rightward, leftward) in enumerate(zip(self.rightward, self.leftward)):
            read = self.between(read) if layer else read
            turned = leftward(_rows(read, turn))[0]
            read = torch.cat((rightward(read)[0], _rows(turned, turn)), dim=-1)
        return read.transpose(0, 1).masked_fill(_is_beyond(words, num_tokens), 0.0)


def _turned(words: Tensor, num_tokens: Tensor) -> Tensor:
    """(L·B,): where in the flattened (L, B) each position is found when every sentence is turned around."""
    num_sentences, longest, _ = words.shape
    position = torch.arange(longest, device=words.device)[:, None]
    other = torch.where(position < num_tokens, num_tokens - 1 - position, position)
    return (other * num_sentences + torch.arange(num_sentences, device=words.device)).flatten()


def _rows(read: Tensor, flat_index: Tensor) -> Tensor:
    return read.flatten(0, 1).index_select(0, flat_index).view_as(read)


class ConvContext(nn.Module):
    """A convolution: each layer takes in one more neighbour on either side."""

    def __init__(self, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.size = size
        self.layers = nn.ModuleList(nn.Conv1d(size, 2 * size, kernel_size=3, padding=1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Tensor, num_tokens: Tensor) -> Tensor:
        is_beyond = _is_beyond(words, num_tokens)
        read = words.masked_fill(is_beyond, 0.0)
        for layer, norm in zip(self.layers, self.norms):
            change = nn.functional.glu(layer(read.transpose(1, 2)), dim=1).transpose(1, 2)
            read = norm(read + self.dropout(change)).masked_fill(is_beyond, 0.0)
        return read


def _is_beyond(words: Tensor, num_tokens: Tensor) -> Tensor:
    """(B, L, 1): true after the end of a sentence."""
    return (torch.arange(words.shape[1], device=words.device) >= num_tokens[:, None])[..., None]
