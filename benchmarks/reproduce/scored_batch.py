"""Scoring and decoding apart: what a model computes of a sentence, and what is then made of its scores.

Scoring is the encoder and the head's scores of all spans or tokens. Decoding is all that follows, as prediction does
it: the checks of the scores, the filter where there is one, the best path, the probabilities of its segments, and all
that as Python values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import Distribution
from spansieve.data.example import Example
from spansieve.decoding.prediction import Prediction
from spansieve.models.captured_prediction import CapturedPrediction
from spansieve.models.inference import PreparedBatch
from spansieve.models.tagger import Batch, Tagger
from spansieve.models.torch_backend import TorchBackend
from spansieve.prediction.predictor import CUDA_GRAPH_MEGABYTES


@dataclass(frozen=True, eq=False)
class Scored:
    """A batch and its scores, on the device."""

    tagger: Tagger
    prepared: PreparedBatch  # the same on the host
    batch: Batch
    backend: TorchBackend
    vectors: Tensor  # (B, L, D)
    scores: tuple[Tensor, ...]  # as the head has them

    @classmethod
    def of(cls, tagger: Tagger, sentences: Sequence[Sequence[str]], backend: TorchBackend | None = None) -> Scored:
        lengths = np.array([len(tokens) for tokens in sentences])
        prepared = PreparedBatch(tagger.encoder.features(sentences), lengths, range(len(sentences)))
        backend = backend or TorchBackend(tagger)
        with torch.inference_mode():
            batch = backend.on_device(prepared)
            vectors = tagger.vectors(batch)
            scores = tagger.head.scores(vectors)
            return cls(tagger, prepared, batch, backend, vectors, scores)

    @property
    def lengths(self) -> np.ndarray:
        """(B,), on the host."""
        return self.prepared.lengths

    def score(self) -> tuple[Tensor, ...]:
        with torch.inference_mode():
            return self.tagger.head.scores(self.tagger.vectors(self.batch))

    def distribution(self) -> Distribution:
        """A new distribution, of which nothing is computed yet."""
        with torch.inference_mode():
            return self._head.distribution(self.vectors, self.batch.lengths)

    def decode(self) -> list[Prediction]:
        return self._decoded(self.scores)

    def predict(self) -> list[Prediction]:
        """Score and decode, kernel by kernel."""
        return self._decoded(self.score())

    def replay(self) -> list[Prediction]:
        """Send the batch to the device, score and decode it: as a CUDA graph, once it was captured."""
        return self.backend.launch(self.prepared, True, None)().predictions(self._names, self.lengths)

    def _decoded(self, scores: tuple[Tensor, ...]) -> list[Prediction]:
        with torch.inference_mode():
            decoded = self.backend.decode(scores, self.batch.lengths, self.lengths, True, None)()
            return decoded.predictions(self._names, self.lengths)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return ("", *self.tagger.labels)

    @property
    def _head(self) -> Any:
        """The head with its scores known."""
        head = copy.copy(self.tagger.head)
        head.scores = lambda vectors: self.scores  # type: ignore[method-assign]
        return head


def batches_of(tagger: Tagger, examples: Sequence[Example], batch_size: int) -> list[Scored]:
    """Sentences of like length together, as a predictor has them."""
    ordered = sorted((example.tokens for example in examples), key=len)
    backend = TorchBackend(tagger, captured=CapturedPrediction(tagger, CUDA_GRAPH_MEGABYTES))
    return [Scored.of(tagger, ordered[i : i + batch_size], backend) for i in range(0, len(ordered), batch_size)]


def over(runs: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """One after the other."""

    def run() -> None:
        for one in runs:
            one()

    return run
