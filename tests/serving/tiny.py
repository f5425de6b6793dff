"""A model that has learned a handful of sentences by heart, and one of them in two ways."""

from __future__ import annotations

import torch

from spansieve.config import BuiltinConfig, ModelConfig
from spansieve.data.example import Example
from spansieve.models.tagger import Tagger
from spansieve.prediction.predictor import Predictor

BUILTIN = BuiltinConfig(rows=300, feature_size=8, size=16, context="conv", dropout=0.0)
EXAMPLES = [
    Example.of("we went to Paris yesterday", [(3, 4, "LOC")]),
    Example.of("Ada Lovelace lives in New York .", [(0, 2, "PER"), (4, 6, "LOC")]),
    Example.of("سافرنا إلى القاهرة أمس", [(2, 3, "LOC")]),
    Example.of("👍🏽 Ada Lovelace 🇫🇷 Paris", [(1, 3, "PER"), (4, 5, "LOC")]),
    Example.of("the Bank of York", [(1, 4, "ORG")]),
    Example.of("the Bank of York", [(3, 4, "LOC")]),
    Example.of("word word word word"),
    Example.of("to the word and , is . 👍🏽"),
]


def trained(head: str = "fsemicrf") -> Predictor:
    torch.manual_seed(0)
    tagger = Tagger.for_data(ModelConfig(head=head, hidden_size=16, dropout=0.0, builtin=BUILTIN), EXAMPLES).train()
    batch = tagger.batch([e.tokens for e in EXAMPLES], [tagger.training_segments(e)[0] for e in EXAMPLES])
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.02)
    for _ in range(80):
        optimizer.zero_grad()
        sum(loss.sum() for loss in tagger(batch).values()).backward()
        optimizer.step()
    return Predictor(tagger.eval())
