"""A small encoder that is trained from scratch: nothing to download, and at home on two CPU cores.

Axes: B sentences, L tokens, U distinct words, D features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from spansieve.config import BuiltinConfig
from spansieve.nn.encoder import Encoder
from spansieve.nn.word_features import FIELDS, IDENTITY, WordFeatures


class BuiltinEncoder(Encoder):
    """Hashed features of each word, mixed, then read in both directions."""

    def __init__(self, config: BuiltinConfig) -> None:
        super().__init__()
        self._words = WordFeatures(config.rows)
        self.unseen_rate = config.unseen_rate
        self.tables = nn.ModuleList(nn.Embedding(config.rows, config.feature_size) for _ in FIELDS)
        self.grams = nn.EmbeddingBag(config.rows, config.feature_size, mode="mean")
        self.mix = nn.Sequential(
            nn.Linear((len(FIELDS) + 1) * config.feature_size, config.size), nn.GELU(), nn.LayerNorm(config.size)
        )
        self.dropout = nn.Dropout(config.dropout)
        context = LstmContext if config.context == "lstm" else ConvContext
        self.context: LstmContext | ConvContext = context(config.size, config.layers, config.dropout)
        self.size = self.context.size

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        place: dict[str, int] = {}
        longest = max(map(len, sentences), default=0)
        words = torch.zeros(len(sentences), longest, dtype=torch.int64)
        for b, sentence in enumerate(sentences):
            words[b, : len(sentence)] = torch.tensor([place.setdefault(word, len(place)) for word in sentence])
        rows = self._words(list(place))
        return {
            "words": words,  # (B, L): which of the distinct words each token is
            "fields": torch.from_numpy(rows.fields),  # (U, F)
            "grams": torch.from_numpy(rows.grams),
            "gram_offsets": torch.from_numpy(rows.gram_offsets),  # (U,)
            "num_tokens": torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64),
        }

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        if not features["words"].numel():
            return self.grams.weight.new_zeros(*features["words"].shape, self.size)
        words = self.dropout(self._distinct(features))[features["words"]]  # (B, L, D)
        return self.context(words, features["num_tokens"])

    def _distinct(self, features: Mapping[str, Tensor]) -> Tensor:
        """The vector of each distinct word, (U, D)."""
        rows = features["fields"]
        if self.training and self.unseen_rate:
            is_hidden = torch.rand(len(rows), 1, device=rows.device) < self.unseen_rate
            is_identity = torch.arange(rows.shape[1], device=rows.device) < IDENTITY
            rows = rows.masked_fill(is_hidden & is_identity, 0)
        parts = [table(rows[:, i]) for i, table in enumerate(self.tables)]
        return self.mix(torch.cat([*parts, self.grams(features["grams"], features["gram_offsets"])], dim=-1))


class LstmContext(nn.Module):
    def __init__(self, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.size = 2 * size
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(size, size, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, words: Tensor, num_tokens: Tensor) -> Tensor:
        # A sentence without tokens is read as one of padding, and its vectors are left out again.
        packed = pack_padded_sequence(words, num_tokens.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        read, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.shape[1])
        return read.masked_fill(_is_beyond(words, num_tokens), 0.0)


class ConvContext(nn.Module):
    """Each layer sees one more neighbour on either side."""

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
