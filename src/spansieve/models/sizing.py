"""How much input each sentence is to the encoder."""

from __future__ import annotations

from collections.abc import Sequence

from spansieve.nn.encoder import Encoder


def sizes_of(encoder: Encoder, sentences: Sequence[Sequence[str]]) -> list[int]:
    """The subwords of each sentence where the encoder has such, otherwise its tokens."""
    return encoder.sizes(sentences)
