"""What is exported of a model: modules of tensors alone, in operations that ONNX has for any number of sentences and
tokens.

Axes: B sentences, L tokens, U distinct words, G pieces of words, W windows, S subwords in a window, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from spansieve.models.head import Head
from spansieve.nn.builtin_encoder import BuiltinEncoder, LstmContext
from spansieve.nn.pretrained_encoder import PretrainedEncoder

try:
    from torch.onnx import ops
except ImportError:  # before torch 2.8, which cannot be exported from
    ops = None  # type: ignore[assignment]


class Scorers(nn.Module):
    """Vectors of tokens to the scores that the head's distribution is made of."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        return tuple(scores.contiguous() for scores in self.head.scores(tokens))


class SubwordEncoder(nn.Module):
    """Windows of subwords to their vectors, (W, S, D)."""

    def __init__(self, encoder: PretrainedEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor, casing: Tensor | None = None) -> Tensor:
        return self.encoder.read_at_once(input_ids, attention_mask, casing)


class WordEncoder(nn.Module):
    """The built-in encoder, (B, L, D): its mean over pieces of words and its LSTM as the operations that ONNX has."""

    def __init__(self, encoder: BuiltinEncoder) -> None:
        super().__init__()
        self.tables, self.grams, self.mix = encoder.tables, encoder.grams, encoder.mix
        self.pretrained = encoder.pretrained
        self.corrections = encoder.corrections
        context = encoder.context
        self.context = OnnxLstm(context) if isinstance(context, LstmContext) else context

    def forward(
        self,
        words: Tensor,
        fields: Tensor,
        grams: Tensor,
        gram_words: Tensor,
        gram_counts: Tensor,
        num_tokens: Tensor,
        word_vectors: Tensor | None = None,
    ) -> Tensor:
        parts = [table(fields[:, i]) for i, table in enumerate(self.tables)]
        pieces = self._means(nn.functional.embedding(grams, self.grams.weight), gram_words, gram_counts)
        pretrained = [] if word_vectors is None else self.pretrained({"fields": fields, "word_vectors": word_vectors})
        distinct = self.mix(torch.cat([*parts, pieces, *pretrained], dim=-1))  # (U, D)
        return self.context(nn.functional.embedding(words, distinct), num_tokens)

    def _means(self, pieces: Tensor, words: Tensor, counts: Tensor) -> Tensor:
        """The mean of the pieces (G, D) of each word, (U, D)."""
        nothing = pieces.new_zeros(counts.shape[0], pieces.shape[1])
        inputs = (nothing, words[:, None], pieces)
        sums = ops.symbolic("ScatterND", inputs, {"reduction": "add"}, dtype=pieces.dtype, shape=nothing.shape)
        return sums / counts[:, None]


class OnnxLstm(nn.Module):
    """An `LstmContext` by ONNX's operator, which reads in both directions, each sentence within its length."""

    def __init__(self, context: LstmContext) -> None:
        super().__init__()
        self.hidden_size = context.size // 2
        layers = list(zip(context.rightward, context.leftward))
        for i, both in enumerate(layers):
            parts = [_in_order(lstm.state_dict()) for lstm in both]
            for name in ("input", "hidden", "bias"):
                self.register_buffer(f"{name}_{i}", torch.stack([part[name] for part in parts]))
        self.num_layers = len(layers)

    def forward(self, words: Tensor, num_tokens: Tensor) -> Tensor:
        num_sentences, longest, _ = words.shape
        lengths, read = num_tokens.to(torch.int32), words.transpose(0, 1)  # (L, B, D)
        attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": self.hidden_size}
        for i in range(self.num_layers):
            weights = [getattr(self, f"{name}_{i}") for name in ("input", "hidden", "bias")]
            both = ops.symbolic(
                "LSTM",
                (read, *weights, lengths),
                attributes,
                dtype=read.dtype,
                shape=(longest, 2, num_sentences, self.hidden_size),
            )
            read = both.transpose(1, 2).flatten(2)
        return read.transpose(0, 1)  # zero beyond the end of a sentence, as ONNX has it


def encoder_graph(encoder: nn.Module) -> nn.Module:
    if isinstance(encoder, BuiltinEncoder):
        return WordEncoder(encoder)
    assert isinstance(encoder, PretrainedEncoder)
    return SubwordEncoder(encoder)


def _in_order(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gates of a layer: torch has input, forget, cell, output; ONNX has input, output, forget, cell."""

    def turned(name: str) -> Tensor:
        into, forget, cell, out = weights[name].chunk(4)
        return torch.cat((into, out, forget, cell))

    bias = torch.cat((turned("bias_ih_l0"), turned("bias_hh_l0")))
    return {"input": turned("weight_ih_l0"), "hidden": turned("weight_hh_l0"), "bias": bias}
