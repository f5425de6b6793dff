"""What the guarantees are checked on: of each token of held-out text whether it is gold, and how sure models are of it.

Computed once for each corpus, encoder and model, and kept in small arrays, so that hundreds of draws of calibration
data cost seconds.

Axes: B sentences, T tokens of all sentences, M predicted entities.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.reproduce.all_corpora import CORPORA as ALL
from benchmarks.reproduce.corpora import files_in, read_corpus
from benchmarks.reproduce.runs import limited_threads
from benchmarks.result_page import this_machine
from spansieve.config import BUILTIN, Config, preset, with_settings
from spansieve.data.example import Example
from spansieve.decoding.prediction import Prediction
from spansieve.models.filtered import FilterOnly
from spansieve.models.head import HeadGold
from spansieve.models.heads import register_head
from spansieve.models.storage import load_model
from spansieve.models.torch_backend import Scored, predict_segments
from spansieve.prediction.predictor import Predictor
from spansieve.training.run import train

OURS, SIGMOIDS = "fsemicrf", "sigmoid-spans"
SMALLEST, LARGEST = 1e-30, 1 - 1e-12  # of a probability that is kept as its log-odds


class SigmoidSpans(FilterOnly):
    """The rival: a sigmoid of each label of each span, learned by its own binary cross-entropy and by nothing else, as
    zero-shot span taggers and spancat have them. Same encoder, same span features, same weight of what is no entity as
    the filter of our model. What is predicted are the spans above one half, less what overlaps something better."""

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        logits, labels = self.scores(vectors)[0][..., 1:], gold.labels()  # (B, L, K, Y - 1), (B, L, K)
        is_label = labels[..., None] == torch.arange(1, len(self.labels), device=labels.device)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, is_label.float(), reduction="none").sum(-1)
        weight = torch.where(labels == 0, self.beta, 1.0).masked_fill(labels < 0, 0.0)
        return {"filtering": (weight * loss).sum((1, 2))}

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The log-odds of each label of each span, twice, null at 0."""
        scores = self.scorer.dense(self.scorer(vectors)).float()
        logits = torch.cat((torch.zeros_like(scores[..., :1]), scores[..., 1:]), -1)
        return logits, logits


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out text under one model."""

    lengths: np.ndarray  # (B,)
    document: np.ndarray  # (B,): its number; all different where there are no documents
    is_gold: np.ndarray  # (T,): whether the token is part of a gold entity
    scores: np.ndarray  # (ways, T): the ways to score a token, as log-odds
    is_predicted: np.ndarray  # (T,): whether it is part of a predicted entity
    sentence: np.ndarray  # (M,): of each predicted entity
    probability: np.ndarray  # (M,)
    is_correct: np.ndarray  # (M,)
    num_gold: np.ndarray  # (B,): gold entities
    f1: np.ndarray  # (1,)
    machine: np.ndarray  # (1,): what the model was trained and run on

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load(cls, path: Path) -> HeldOut:
        with np.load(path) as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})


WAYS = {OURS: ("given candidates", "all spans"), SIGMOIDS: ("largest", "noisy or")}  # of scoring a token


CORPORA = ("conll2003", "wnut17", "bionlp13cg", "genia", "germeval2014", "newsfane")
LARGE = ("conll2003", "germeval2014")  # those of them that take longest
EPOCHS = {"builtin": 12, "pretrained": 5}
MAX_TRAIN, MAX_DEV = 10_000, 500  # sentences: two corpora have more, and dev only chooses the epoch
SIZES = {"train": MAX_TRAIN, "dev": MAX_DEV, **EPOCHS}


@dataclass(frozen=True)
class Model:
    """A model whose scores are wanted: a head on an encoder, trained on a corpus."""

    corpus: str
    encoder: str  # builtin, or a folder
    head: str

    @property
    def file(self) -> str:
        return f"{self.corpus}_{Path(self.encoder).name}_{self.head}.npz"

    def config(self) -> Config:
        """The shipped settings for the encoder, in batches of 32, with another head."""
        name = "builtin" if self.encoder == BUILTIN else "pretrained"
        settings = {"model.head": self.head, "training.epochs": EPOCHS[name], "training.batch_size": 32}
        if name == "pretrained":
            settings |= {"model.encoder.name": self.encoder, "model.encoder.casing": True}
            settings |= {"training.encoder_learning_rate": 1e-4}
        if self.head == SIGMOIDS:
            settings |= {"model.margin": 0.0, "model.global_loss": "filtered", "model.skip": False}
        return with_settings(preset(name), settings)


def machines_of(scores: Path, models: Sequence[Model]) -> str:
    """Name the machines that the models were trained and run on, each once, and the corpora whose scores are kept with
    half the digits, as they once were: there the least probable tokens are as one."""
    found = {model: HeldOut.load(scores / model.file) for model in models}
    machines = dict.fromkeys(str(held.machine[0]) for held in found.values())
    rough = dict.fromkeys(model.corpus for model, held in found.items() if held.scores.dtype == np.float16)
    note = f". Of {', '.join(rough)} all tokens below a probability of 1e-6 are covered together" if rough else ""
    return "Models trained and run on: " + "; and ".join(machines) + note


def missing_models(scores: Path, corpora: Sequence[str], encoders: Sequence[str]) -> list[Model]:
    """List the models of which there are no scores yet, those that take longest first."""
    by_length = sorted(corpora, key=lambda name: name not in LARGE)
    models = [
        Model(corpus, encoder, head)
        for corpus in by_length
        for encoder in reversed(encoders)
        for head in (OURS, SIGMOIDS)
    ]
    return [model for model in models if not (scores / model.file).is_file()]


def train_and_score(models: Sequence[Model], data: Path, scores: Path, device: str, jobs: int) -> Iterator[str]:
    """Train each model, score held-out text with it and keep the scores; yield a line of each."""
    options = (data, scores, device)
    if jobs == 1:
        yield from (held_out(model, *options) for model in models)
        return
    with limited_threads(1), ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for future in as_completed([pool.submit(held_out, model, *options) for model in models]):
            error = future.exception()
            yield future.result() if error is None else f"failed: {error!r:.300}"


def held_out(model: Model, data: Path, scores: Path, device: str) -> str:
    """Train a model, score dev and test with it, and leave nothing but the scores."""
    register_head(SIGMOIDS, SigmoidSpans)  # in this process, which is the benchmark's own
    corpus = read_corpus(files_in(data / model.corpus), model.corpus)
    if {one.name: one for one in ALL}[model.corpus].is_nested:
        corpus = corpus.outermost()
    with TemporaryDirectory() as folder:
        splits = corpus.train[:MAX_TRAIN], corpus.dev[:MAX_DEV]
        result = train(model.config(), *splits, Path(folder) / "run", use_cpu=device == "cpu")
        predictor = Predictor(load_model(result.model, device))
        begin = time.perf_counter()
        parts = {"dev": corpus.dev, "test": corpus.test}
        held = [(name, example) for name, part in parts.items() for example in part]
        scored = score(predictor, this_machine(device), held)
    scored.save(scores / model.file)
    took = f"{result.seconds:.0f} s to train, {time.perf_counter() - begin:.0f} s to score"
    return f"{model.file}: F1 {100 * scored.f1[0]:.1f}, {took}"


def score(predictor: Predictor, machine: str, held: Sequence[tuple[str, Example]]) -> HeldOut:
    """Score sentences, each with the part of the corpus that it is from: documents of two parts are not the same."""
    examples = [example for _, example in held]
    sentences = [example.tokens for example in examples]
    if predictor.head == SIGMOIDS:
        predictions, ways = _of_sigmoids(predictor, sentences)
    else:
        predictions = predictor.cover_tokens(sentences, np.inf)
        both = (predictor.cover_tokens(sentences), predictions)
        ways = [np.concatenate([cast(np.ndarray, one.coverage).sum(1) for one in some]) for some in both]
    names = [(part, example.document or i) for i, (part, example) in enumerate(held)]
    documents = {name: number for number, name in enumerate(dict.fromkeys(names))}
    segments = [one.segments for one in predictions]
    gold = [set(example.segments) for example in examples]
    right = [[segment in own for segment in found] for own, found in zip(gold, segments)]
    num_right, num_found = sum(map(sum, right)), sum(map(len, right))
    return HeldOut(
        lengths=np.array([len(example) for example in examples], np.int32),
        document=np.array([documents[name] for name in names], np.int32),
        is_gold=np.concatenate([_tokens(example.segments, len(example)) for example in examples]),
        scores=np.stack([_log_odds(way) for way in ways]),
        is_predicted=np.concatenate([_tokens(found, len(e)) for found, e in zip(segments, examples)]),
        sentence=np.repeat(np.arange(len(examples)), list(map(len, segments))).astype(np.int32),
        probability=np.array([p for one in predictions for p in one.probabilities or ()], np.float32),
        is_correct=np.array([one for own in right for one in own], bool),
        num_gold=np.array([len(own) for own in gold], np.int32),
        f1=np.array([2 * num_right / max(1, num_found + sum(map(len, gold)))]),
        machine=np.array([machine]),
    )


def _of_sigmoids(predictor: Predictor, sentences: Sequence[Sequence[str]]) -> tuple[list[Prediction], list[np.ndarray]]:
    """What is predicted, each entity with its sigmoid, and two ways to score a token by the sigmoids of the spans over
    it: the largest of them, and the noisy or, which is P(any of them) were they independent."""
    logits: dict[int, np.ndarray] = {}  # (L, K, Y) of each sentence

    def on_batch(indices: Sequence[int], scored: Scored) -> None:
        batch = scored.scores[0].cpu().numpy()
        logits.update((i, batch[row, :length]) for row, (i, length) in enumerate(zip(indices, scored.lengths.tolist())))

    predictions = predict_segments(predictor.tagger, sentences, False, on_batch)
    names, sure = predictor.tagger.labels, []
    for i, one in enumerate(predictions):
        own = [logits[i][s.start, s.end - s.start - 1, names.id(s.label)] for s in one.segments]
        sure.append(one._replace(probabilities=(1 / (1 + np.exp(-np.array(own)))).tolist()))
    largest, log_none = [], []
    for i in range(len(sentences)):
        of_labels = logits[i][..., 1:].astype(np.float64)
        largest.append(_over_tokens(of_labels.max(-1), largest=True))
        log_none.append(_over_tokens(-np.logaddexp(0, of_labels).sum(-1), largest=False))
    return sure, [1 / (1 + np.exp(-np.concatenate(largest))), -np.expm1(np.concatenate(log_none))]


def _over_tokens(values: np.ndarray, largest: bool) -> np.ndarray:
    """Take the largest, or the sum, of the values (L, K) of the spans over each token."""
    length = len(values)
    tokens = np.full(length, -np.inf) if largest else np.zeros(length)
    for width in range(1, min(values.shape[1], length) + 1):
        own = values[: length - width + 1, width - 1]  # those that end within the sentence
        for offset in range(width):
            part = tokens[offset : offset + len(own)]
            part[:] = np.maximum(part, own) if largest else part + own
    return tokens


def _tokens(segments: Sequence[tuple[int, int, str]], length: int) -> np.ndarray:
    is_inside = np.zeros(length, bool)
    for start, end, _ in segments:
        is_inside[start:end] = True
    return is_inside


def _log_odds(probability: np.ndarray) -> np.ndarray:
    p = probability.astype(np.float64).clip(SMALLEST, LARGEST)
    return np.where(probability <= 0, -np.inf, np.log(p) - np.log1p(-p)).astype(np.float32)
