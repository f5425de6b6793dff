"""Every head under every preset learns the sample corpus, its labels and not only its spans.

What is under test are a preset's settings of the model. The encoder is a small built-in one in place of the preset's,
and how long and how fast to learn is set here: a preset's recipe is made for its own encoder and a whole corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import pytest
import torch

from spansieve.config import BUILTIN, ModelConfig, preset, presets, with_settings
from spansieve.data.example import Example
from spansieve.data.sample import sample_corpus
from spansieve.models.heads import HEADS
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments

SMALL = {
    "model.encoder.name": BUILTIN,
    "model.hidden_size": 32,
    "model.dropout": 0.0,
    "model.builtin.rows": 2000,
    "model.builtin.feature_size": 16,
    "model.builtin.size": 48,
    "model.builtin.dropout": 0.0,
    "model.builtin.word_dropout": 0.0,
}
LEARNED, NEW, BATCH_SIZE, EPOCHS, RATE = 200, 100, 16, 10, 0.03


class Score(NamedTuple):
    f1: float  # of spans with their labels
    labels_right: float  # the part of the spans found, and rightly so, that have the right label


@pytest.mark.parametrize("name", presets())
@pytest.mark.parametrize("head", sorted(HEADS))
def test_every_head_learns_the_sample_corpus_under_every_preset(head, name):
    model = with_settings(preset(name), {**SMALL, "model.head": head}).model
    learned, new = scores_of(model)
    assert learned.f1 > 0.75, learned
    assert learned.labels_right > 0.9, learned
    # Half of the names in the dev data are not in the training data: a dictionary does not get there.
    assert new.f1 > 0.35, new
    assert new.labels_right > 0.6, new


@cache  # presets that differ by what SMALL settles are one model
def scores_of(model: ModelConfig) -> tuple[Score, Score]:
    """Of the sentences that a model with this configuration has learned, and of others."""
    corpus = sample_corpus()
    learned, new = corpus.train[:LEARNED], corpus.dev[:NEW]
    tagger = trained_on(learned, model)
    return score(tagger, learned), score(tagger, new)


def trained_on(examples: Sequence[Example], model: ModelConfig) -> Tagger:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tagger = Tagger.for_data(model, examples).train()
    optimizer = torch.optim.Adam(tagger.parameters(), lr=RATE)
    parts = [examples[i : i + BATCH_SIZE] for i in range(0, len(examples), BATCH_SIZE)]
    batches = [tagger.batch([e.tokens for e in part], [tagger.training_segments(e)[0] for e in part]) for part in parts]
    steps = len(batches) * EPOCHS
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for batch in batches * EPOCHS:
        optimizer.zero_grad()
        sum(loss.mean() for loss in tagger.losses(batch).values()).backward()
        torch.nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
        optimizer.step()
        falling.step()
    return tagger.eval()


def score(tagger: Tagger, examples: Sequence[Example]) -> Score:
    predictions = predict_segments(tagger, [example.tokens for example in examples])
    gold = {(i, *segment) for i, example in enumerate(examples) for segment in example.segments}
    found = {(i, *segment) for i, prediction in enumerate(predictions) for segment in prediction.segments}
    right_spans = {segment[:3] for segment in gold} & {segment[:3] for segment in found}
    num_right = len(gold & found)
    return Score(2 * num_right / (len(gold) + len(found)), num_right / max(len(right_spans), 1))
