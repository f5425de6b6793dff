"""The interface of encoders: sentences of tokens in, one vector per token out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from spansieve.config import BUILTIN, ModelConfig
from spansieve.nn.word_vectors import WordVectors

if TYPE_CHECKING:
    from spansieve.nn.subwords import SubwordReader
    from spansieve.nn.word_features import WordReader


class Encoder(nn.Module):
    """An encoder in two halves: `features` runs on the host and may do so ahead of time, `forward` on the device."""

    size: int  # D: of a token's vector
    is_pretrained: bool = False  # it then learns at a rate of its own
    word_vectors: WordVectors | None = None  # pretrained, where it has such

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        """The features of B sentences, which `forward` takes. None of them is cut, whatever its length."""
        raise NotImplementedError

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """How much input each sentence is: its tokens, or its subwords where the encoder has such. Sentences of one
        batch should be alike in it."""
        return [len(sentence) for sentence in sentences]

    def reader(self) -> SubwordReader | WordReader | None:
        """The half that runs on the host, without torch, for threads and processes that prepare text ahead; None where
        there is none."""
        return None

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """The vector of each token, (B, L, D), zero beyond the end of a sentence."""
        raise NotImplementedError

    def padded(self, features: Mapping[str, Tensor], num_sentences: int, num_tokens: int) -> dict[str, Tensor] | None:
        """The features of a batch in one of few shapes, with empty sentences up to so many, each with so many tokens at
        most; None where there is no such shape."""
        return None

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights to build the same encoder again, into a folder of its own."""


def rounded(size: int, least_step: int = 8) -> int:
    """Round up to one of few sizes: multiples of 8, of 16 from 64 on, of 32 from 128 on, and so forth.

    >>> [rounded(size) for size in (1, 8, 9, 64, 65, 100, 130)]
    [8, 8, 16, 64, 80, 112, 160]
    """
    step = max(least_step, (1 << max(size - 1, 1).bit_length()) // 8)
    return -(-size // step) * step


def filled(tensor: Tensor, shape: Sequence[int], value: int = 0) -> Tensor:
    """Fill a tensor up to a shape."""
    result = tensor.new_full(tuple(shape), value)
    result[tuple(map(slice, tensor.shape))] = tensor
    return result


def build_encoder(config: ModelConfig, folder: Path | None = None) -> Encoder:
    """Build an encoder: with pretrained weights by name; without weights, yet, from the folder of a saved model."""
    if config.encoder.name == BUILTIN:
        from spansieve.nn.builtin_encoder import BuiltinEncoder

        return BuiltinEncoder(config.builtin, folder)
    from spansieve.nn.pretrained_encoder import PretrainedEncoder

    return PretrainedEncoder(config.encoder, folder)
