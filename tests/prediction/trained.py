"""Models of a few weights that know their few sentences by heart."""

from __future__ import annotations

from pathlib import Path

import torch

from spansieve.config import BuiltinConfig, EncoderConfig, ModelConfig
from spansieve.data.example import Example
from spansieve.models.tagger import Tagger
from spansieve.prediction.predictor import Predictor
from tests.training.encoders import tiny_encoder

# A token is told by itself and its neighbours, so that how long the text is makes no difference.
BUILTIN = BuiltinConfig(rows=300, feature_size=8, size=16, context="conv", dropout=0.0)
EXAMPLES = [
    Example.of("we went to Paris yesterday", [(3, 4, "LOC")]),
    Example.of("Ada Lovelace lives in New York .", [(0, 2, "PER"), (4, 6, "LOC")]),
    Example.of("in القاهرة today", [(1, 2, "LOC")]),
    Example.of("Cafe\u0301 Paris 👍🏽 Ada Lovelace", [(0, 2, "LOC"), (3, 5, "PER")]),
    Example.of("word word word word"),
    Example.of("to the word and , is . 👍🏽"),
]
FAMILIAR = ["we went to Paris yesterday", "Ada Lovelace", "New York", "word", ".", "in", "the", "lives", "Paris", "Ada"]


def trained(head: str = "fsemicrf", encoder: EncoderConfig | None = None, steps: int = 80) -> Predictor:
    torch.manual_seed(0)
    config = ModelConfig(head=head, hidden_size=16, dropout=0.0, builtin=BUILTIN, encoder=encoder or EncoderConfig())
    tagger = Tagger.for_data(config, EXAMPLES).train()
    batch = tagger.batch([e.tokens for e in EXAMPLES], [tagger.training_segments(e)[0] for e in EXAMPLES])
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        sum(loss.sum() for loss in tagger(batch).values()).backward()
        optimizer.step()
    return Predictor(tagger.eval())


def trained_pretrained(folder: Path, head: str = "fsemicrf", **settings) -> Predictor:
    """On a Hugging Face encoder that holds 32 subwords at once."""
    name = str(tiny_encoder(folder / "encoder"))
    return trained(head, EncoderConfig(name=name, **settings), steps=40)
