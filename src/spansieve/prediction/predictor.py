"""A trained model at work: text to entities, whatever its length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import overload

import torch

from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.models.constraints import Constraints
from spansieve.models.found import Found, Probability
from spansieve.models.predicting import predict_segments
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.prediction.analysing import Analysis, analyse_tokens, analysis_of
from spansieve.prediction.text_predictor import TextPredictor, listed, words_of


def load(
    folder: str | Path,
    device: str | torch.device = "cpu",
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> Predictor:
    """Load a model that `spansieve train` left in a folder. Needs no network and runs no code from the folder."""
    return Predictor(load_model(folder, device), tokenizer, batch_tokens, probability)


class Predictor(TextPredictor):
    """A predictor with torch, on the tagger's device. At most `batch_tokens` are read at once, or one sequence; what
    comes out does not depend on it.

    Under a model that filters, an entity's probability is its marginal given the candidates, or `with-filter` that
    times the filter's probability of the span's label: not a marginal of one distribution, but nearer to how often such
    entities are right, since what is left after a good filter is often a single reading.
    """

    def __init__(
        self,
        tagger: Tagger,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
    ) -> None:
        super().__init__(tokenizer)
        self.tagger, self.batch_tokens, self.probability = tagger, batch_tokens, probability

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tagger.labels.names

    def predict_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        probabilities: bool = False,
        constraints: Sequence[Constraints | None] | None = None,
    ) -> list[Found]:
        """The segments of sentences that are tokens already; constraints, one per sentence, are in tokens."""
        return predict_segments(
            self.tagger,
            sentences,
            probabilities,
            batch_tokens=self.batch_tokens,
            probability=self.probability,
            constraints=constraints,
        )

    @overload
    def analyse(  # type: ignore[overload-overlap]
        self, texts: str, top_k: int = 1, sentences: bool = True
    ) -> list[Analysis]: ...

    @overload
    def analyse(self, texts: Collection[str], top_k: int = 1, sentences: bool = True) -> list[list[Analysis]]: ...

    def analyse(self, texts, top_k=1, sentences=True):
        """How sure the model is of each sentence of a text: its `top_k` (k-best) readings, and the entropy."""
        if isinstance(texts, str):
            return self.analyse([texts], top_k, sentences)[0]
        texts = listed(texts)
        pieces = self.pieces(texts, sentences)
        found: list[list[Analysis]] = [[] for _ in texts]
        for piece, one in zip(pieces, analyse_tokens(self.tagger, words_of(pieces), top_k, self.batch_tokens)):
            found[piece.text].append(analysis_of(texts[piece.text], piece.tokens, one))
        return found
