"""How much input each sentence is to the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from spansieve.nn.encoder import Encoder
from spansieve.nn.subword_counts import SubwordCounts

_counts: WeakKeyDictionary[Encoder, SubwordCounts] = WeakKeyDictionary()  # forgotten with the encoder


def sizes_of(encoder: Encoder, sentences: Sequence[Sequence[str]]) -> list[int]:
    """The subwords of each sentence where the encoder has such, otherwise its tokens."""
    if not encoder.is_pretrained:
        return [len(sentence) for sentence in sentences]
    counts = _counts.get(encoder)
    if counts is None:
        counts = _counts[encoder] = SubwordCounts(cast(Any, encoder.tokenizer).backend_tokenizer)
    return counts(sentences)
