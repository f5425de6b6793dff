"""An exported model over texts.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.decoding.constraints import Constraints, Rules
from spansieve.decoding.decoders import Decoded, Decoder, DecoderSettings
from spansieve.decoding.prediction import Prediction, Probability, check_probability
from spansieve.models.inference import PreparedBatch, predict_with
from spansieve.persistence.manifest import ModelError
from spansieve.prediction.onnx.folder import DECODER, SCORERS, Description, read_description
from spansieve.prediction.onnx.session import Session, usable_cores
from spansieve.prediction.onnx.token_vectors import Encoder, encoder_of
from spansieve.prediction.text_predictor import TextPredictor

BLOCK = 256  # tokens whose spans are scored at once: the hidden layer over them stays in the cache


def load(
    folder: str | Path,
    threads: int | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> OnnxPredictor:
    """Load a model that `spansieve export` wrote, on so many threads of the CPU, by default one for each core. Needs no
    network and no torch, and runs no code from the folder."""
    check_probability(probability)
    folder, threads = Path(folder), threads or usable_cores()
    description = read_description(folder)
    try:
        arrays = _decoder_arrays(folder / DECODER)
        decoder = Decoder(description.decoder, description.labels, arrays, threads, probability == "with-filter")
    except ValueError as error:
        raise ModelError(f"{folder / DECODER} cannot be used: {error}") from error
    encoder, scorers = encoder_of(folder, description, threads), Session(folder / SCORERS, threads)
    backend = OnnxBackend(description, encoder, scorers, decoder)
    return OnnxPredictor(description, backend, tokenizer, batch_tokens, probability)


class OnnxPredictor(TextPredictor):
    """A predictor with onnxruntime, without torch."""

    def __init__(
        self,
        description: Description,
        backend: OnnxBackend,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
    ) -> None:
        super().__init__(tokenizer, batch_tokens, probability)
        self.description, self.backend = description, backend

    @property
    def labels(self) -> tuple[str, ...]:
        return self.description.labels.names

    @property
    def head(self) -> str:
        return self.description.model.head

    @property
    def decoder_settings(self) -> DecoderSettings:
        return self.description.decoder

    def predict_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        probabilities: bool = False,
        constraints: Sequence[Constraints | None] | None = None,
    ) -> list[Prediction]:
        """Predict sentences that are tokens already; constraints, one per sentence, are in tokens."""
        return predict_with(self.backend, sentences, probabilities, constraints, self.batch_tokens)


class OnnxBackend:
    """A model run by ONNX Runtime on the CPU, as the batch loop takes it."""

    depth = 0

    def __init__(self, description: Description, encoder: Encoder, scorers: Session, decoder: Decoder) -> None:
        self.support = description.decoder.support(description.labels)
        self.sizes, self.features = encoder.sizes, encoder.features
        self._encoder, self._scorers, self._decoder = encoder, scorers, decoder
        # Spans that start in one block of tokens end in the next.
        self._beyond = (self.support.max_width or 1) - 1

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        scores = self._scores(self._encoder.vectors(batch.features))
        decoded = self._decoder(scores, batch.lengths, with_probabilities, rules)
        return lambda: decoded

    def _scores(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Compute the scores, (B, L, …) each, a block of tokens at a time: no text is too long for the hidden layer."""
        num_sentences, num_tokens, _ = vectors.shape
        rows = max(1, BLOCK // num_tokens)
        scores: list[np.ndarray] = []
        for b in range(0, num_sentences, rows):
            for low in range(0, num_tokens, BLOCK):
                block = vectors[b : b + rows, low : low + BLOCK + self._beyond]
                parts = self._scorers({"tokens": block})
                if not scores:
                    scores = [np.empty((num_sentences, num_tokens, *part.shape[2:]), part.dtype) for part in parts]
                for all_scores, part in zip(scores, parts):
                    all_scores[b : b + rows, low : low + BLOCK] = part[:, :BLOCK]
        return scores


def _decoder_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ModelError(f"{path} must hold plain arrays: {error}") from error
