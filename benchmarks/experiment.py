"""One run of an experiment on the CPU: trained, loaded, and scored on test."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spansieve.config import Config
from spansieve.data.example import Example
from spansieve.data.sample import Splits as Splits
from spansieve.evaluation.scores import Scores, evaluate
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.training.run import TrainingResult, train


class Fitted(NamedTuple):
    """A trained model, its scores on test and what its training left."""

    tagger: Tagger
    test: Scores
    result: TrainingResult


def fit(config: Config, splits: Splits, folder: Path, keep: bool = False) -> Fitted:
    """Train, load and score on test.

    With `keep`, what was trained before in the folder is not trained again; otherwise nothing is left there.
    """
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    result = train(config, splits.train, splits.dev, folder, resume=True, use_cpu=True)
    tagger = load_model(result.model)
    test = scores_on(tagger, splits.test)
    if not keep:
        shutil.rmtree(folder)
    return Fitted(tagger, test, result)


def scores_on(tagger: Tagger, examples: Sequence[Example]) -> Scores:
    found = predict_segments(tagger, [example.tokens for example in examples])
    return evaluate([example.segments for example in examples], [one.segments for one in found])


def drawn(examples: Sequence[Example], most: int) -> tuple[Example, ...]:
    """Draw so many of the sentences by chance, the same ones every time."""
    return tuple(random.Random(0).sample(list(examples), min(most, len(examples))))
