"""An exported model over texts.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import prod
from pathlib import Path
from textwrap import shorten
from zipfile import ZipFile

import numpy as np

from spansieve.crf.kernels import ScoreError
from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.decoding.constraints import Constraints, Rules
from spansieve.decoding.decoders import Decoded, Decoder, DecoderSettings, decoder_shapes
from spansieve.decoding.prediction import Prediction, Probability, check_probability
from spansieve.models.inference import PreparedBatch, predict_with
from spansieve.persistence.manifest import ModelError, refusing
from spansieve.prediction.onnx.folder import BESIDE, DECODER, ENCODER, SCORERS, Description, read_description
from spansieve.prediction.onnx.graph_validation import check_graph
from spansieve.prediction.onnx.session import Session, openmp_threads
from spansieve.prediction.onnx.token_vectors import Encoder, encoder_of
from spansieve.prediction.promises import promise_for
from spansieve.prediction.text_predictor import TextPredictor

MAX_HEADER = 4_096  # bytes that an array takes in a file beside its numbers
BLOCK = 256  # tokens whose spans are scored at once: the hidden layer over them stays in the cache


def load(
    folder: str | Path,
    threads: int | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
    guarantee: str | None = None,
    objective: str = "probability",
) -> OnnxPredictor:
    """Load a model that `spansieve export` wrote, on so many threads of the CPU, by default OMP_NUM_THREADS or one for
    each core. Needs no network and no torch, and runs no code from the folder. With a `guarantee` that `spansieve
    calibrate` left there, such as miss=0.01, predictions are under that promise; the `objective` f1 predicts the set
    with the largest expected F1 in place of the most probable one."""
    check_probability(probability)
    folder, threads = Path(folder), threads or openmp_threads()
    promise = None if guarantee is None else promise_for(folder, guarantee)
    description = read_description(folder)
    with refusing(f"{folder / DECODER} cannot be used"):
        arrays = _decoder_arrays(folder / DECODER, decoder_shapes(description.decoder, description.labels))
        decoder = Decoder(description.decoder, description.labels, arrays, threads, probability == "with-filter")

    def backend(is_trial: bool) -> OnnxBackend:
        encoder = encoder_of(folder, description, threads, is_trial)
        return OnnxBackend(description, encoder, Session(folder / SCORERS, threads, is_trial), decoder)

    check_graph(folder / ENCODER, ENCODER + BESIDE if (folder / (ENCODER + BESIDE)).is_file() else None)
    check_graph(folder / SCORERS)
    with refusing(f"{folder} holds a model that does not run"):
        predict_with(backend(is_trial=True), [["a", "b", "c"], ["a"]], with_probabilities=True)
    predictor = OnnxPredictor(description, backend(is_trial=False), tokenizer, batch_tokens, probability)
    return predictor.under(promise).with_objective(objective)


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
        backend = self.backend.decoded_by(self.decoded_by(constraints))
        return predict_with(backend, sentences, probabilities, constraints, self.batch_tokens)

    def cover_tokens(self, sentences: Sequence[Sequence[str]], margin: float = 0.0) -> list[Prediction]:
        backend = self.backend.decoded_by(self.covered_by(margin))
        return predict_with(backend, sentences, True, batch_tokens=self.batch_tokens)


class OnnxBackend:
    """A model run by ONNX Runtime on the CPU, as the batch loop takes it."""

    depth = 0

    def __init__(self, description: Description, encoder: Encoder, scorers: Session, decoder: Decoder) -> None:
        self.support = description.decoder.support(description.labels)
        self.sizes, self.features = encoder.sizes, encoder.features
        self._encoder, self._scorers, self._decoder = encoder, scorers, decoder
        # Spans that start in one block of tokens end in the next.
        self._beyond = (self.support.max_width or 1) - 1

    def decoded_by(self, make: Callable[[Decoder], Decoder] | None) -> OnnxBackend:
        """Return the same model with another decoder, made of its own."""
        if make is None:
            return self
        backend = copy(self)
        backend._decoder = make(self._decoder)
        return backend

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        scores = self._scores(self._encoder.vectors(batch.features))
        try:
            decoded = self._decoder(scores, batch.lengths, with_probabilities, rules)
        except ScoreError as error:
            raise ModelError(f"the export's graphs give no scores to decode: {error}") from error
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
                if any(part.shape[:2] != block.shape[:2] for part in parts):  # the decoder checks the rest of the shape
                    shapes = ", ".join(str(part.shape) for part in parts)
                    raise ModelError(f"{SCORERS} must give scores of {block.shape[:2]} tokens, got {shapes}")
                # No span is wider than the sentence.
                parts = [part if part.ndim < 4 else part[:, :, : max(num_tokens, 1)] for part in parts]
                if block.shape[:2] == vectors.shape[:2]:
                    return parts
                if not scores:
                    scores = [np.empty((num_sentences, num_tokens, *part.shape[2:]), part.dtype) for part in parts]
                for all_scores, part in zip(scores, parts):
                    all_scores[b : b + rows, low : low + BLOCK] = part[:, :BLOCK]
        return scores


def _decoder_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Read the arrays of these shapes, and no others: a file may say that they are far larger than itself."""
    with refusing(f"{path} must hold plain arrays"), path.open("rb") as file:
        size = path.stat().st_size
        if size > (most := sum(4 * prod(shape) + MAX_HEADER for shape in shapes.values())):
            raise ModelError(f"{path} must have at most {most:,} bytes, for the labels of the model, got {size:,}")
        with ZipFile(file) as archive:
            names = [name for name in shapes if f"{name}.npy" in archive.namelist()]
            return {name: _array(archive, name, shapes[name]) for name in names}


def _array(archive: ZipFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read an array after its header, which comes before memory is taken for it."""
    with archive.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        given, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if given != shape or dtype != np.float32 or is_fortran:
            raise ModelError(f"{name} must be numbers of shape {shape}, got {dtype} of shape {shorten(str(given), 40)}")
        return np.frombuffer(file.read(4 * prod(shape)), np.float32).reshape(shape)
