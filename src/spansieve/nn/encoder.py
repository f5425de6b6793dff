"""The interface of encoders: sentences of tokens in, one vector per token out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from spansieve.config import BUILTIN, ModelConfig
from spansieve.nn.word_vectors import WordVectors


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

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """The vector of each token, (B, L, D), zero beyond the end of a sentence."""
        raise NotImplementedError

    def replay_in_training(self) -> None:
        """Read by CUDA graphs in training; `GraphReplay` says what that asks of training. Refused otherwise."""
        raise ValueError("training.cuda_graphs needs a pretrained encoder, got the built-in one")

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights to build the same encoder again, into a folder of its own."""


def build_encoder(config: ModelConfig, folder: Path | None = None) -> Encoder:
    """Build an encoder: with pretrained weights by name; without weights, yet, from the folder of a saved model."""
    if config.encoder.name == BUILTIN:
        from spansieve.nn.builtin_encoder import BuiltinEncoder

        return BuiltinEncoder(config.builtin, folder)
    from spansieve.nn.pretrained_encoder import PretrainedEncoder

    return PretrainedEncoder(config.encoder, folder)
