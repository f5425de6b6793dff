"""Models with drawn weights, which find something everywhere, and sentences to find it in."""

from __future__ import annotations

import random

import torch
from torch import nn

from spansieve.config import BuiltinConfig, EncoderConfig, ModelConfig
from spansieve.models.filtered import FilteredHead
from spansieve.models.inference import readable_sentences
from spansieve.models.tagger import Tagger
from spansieve.segments import LabelSet
from tests.nn.heads import keep_half

SEEDS = range(6)  # of the sentences that models are asked for
ODD = ["\u200b", "", "[SEP]", "e\u0301", "👍🏽", "القاهرة", "\ud800", "a b", "x" * 70]
PLAIN = ["Paris", "the", "London", ".", "abc", "McGill", "UN", "1996-08-30", "of"]


def drawn_tagger(head: str, seed: int = 0, encoder: dict | None = None, context: str = "lstm", **settings) -> Tagger:
    torch.manual_seed(seed)
    builtin = BuiltinConfig(rows=50, feature_size=4, size=8, context=context, layers=2)
    config = ModelConfig(
        head=head, hidden_size=8, max_width=3, builtin=builtin, encoder=EncoderConfig(**encoder or {}), **settings
    )
    tagger = Tagger(config, LabelSet(["LOC", "ORG", "PER"])).eval()
    for parameter in tagger.head.parameters():
        nn.init.normal_(parameter, std=1.0)
    if getattr(tagger.encoder, "casing", None) is not None:
        nn.init.normal_(tagger.encoder.casing.weight)
    if isinstance(tagger.head, FilteredHead):
        sentences = [sentence for seed in SEEDS for sentence in drawn_sentences(seed)]
        batch = tagger.batch(readable_sentences(sentences))  # all that are asked for: of none is a tie
        with torch.no_grad():
            keep_half(tagger.head, tagger.vectors(batch), batch.lengths.tolist())
    return tagger


def drawn_sentences(seed: int = 0, count: int = 30, longest: int = 25) -> list[list[str]]:
    """Empty ones among them."""
    chance = random.Random(seed)
    words = PLAIN * 4 + ODD
    return [[chance.choice(words) for _ in range(chance.randrange(longest))] for _ in range(count)] + [[], ["\u200b"]]
