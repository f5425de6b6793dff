"""The built-in encoder with word vectors beside spaCy with the same: trained on the same data, tagging in turns.

spaCy has its own command line make each step: the vectors, by lower-case words as files of GloVe have them; the
configurations that it recommends, both with `include_static_vectors`; the training, stopped by dev.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.experiment import Splits, drawn, scores_on
from benchmarks.process_usage import processor_seconds
from benchmarks.result_page import ResultPage, Row, Table, percent
from benchmarks.tagging_speed import spacy_contenders, spansieve_contenders
from benchmarks.timings import one_thread, seconds_of, timed_in_rounds
from spansieve.config import BUILTIN, preset, with_settings
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.integrations.hub import load
from spansieve.models.storage import load_model, save_model
from spansieve.nn.word_vectors import WordVectors
from spansieve.segments import NamedSegment
from spansieve.training.run import train
from spansieve.training.run_folder import MODEL

OPTIMIZE = ("efficiency", "accuracy")  # what spaCy's configurations are for
TRAINED = "trained.json"
OURS, WITH = "spansieve", "spansieve, vectors"
MANY, FEW = 500, 20  # sentences that a turn takes; few of them with a pretrained encoder
MOST_STARTS = 5
LARGE = 400_000  # rows of a table of vectors
SENTENCE = "Ada Lovelace met Charles Babbage in London ."


class Trained(NamedTuple):
    """A model that was trained, and what that took."""

    name: str
    folder: Path
    dev: float
    test: float
    minutes: float
    processor_minutes: float  # of all threads: other work on the machine does not count

    @property
    def megabytes(self) -> float:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file()) / 1e6

    def row(self) -> dict[str, object]:
        return {
            "tagger": self.name,
            "dev F1": percent(self.dev),
            "test F1": percent(self.test),
            "minutes": f"{self.minutes:.1f}",
            "processor minutes": f"{self.processor_minutes:.1f}",
            "MB": f"{self.megabytes:.0f}",
        }


# ---- Training --------------------------------------------------------------------------------------------------------


def train_ours(splits: Splits, vectors: Path | None, settings: dict[str, Any], folder: Path) -> Trained:
    """Train preset `builtin` on the CPU; a model that stands in the folder is not trained again."""
    name = OURS if vectors is None else WITH
    run = folder / ("none" if vectors is None else "vectors")
    wanted = settings | {"model.builtin.vectors": vectors and str(vectors)}

    def fit() -> None:
        train(with_settings(preset("builtin"), wanted), splits.train, splits.dev, run, resume=True, use_cpu=True)

    def f1(examples: Sequence[Example]) -> float:
        return scores_on(load_model(run / MODEL), examples).f1

    return _trained(name, run, run / MODEL, fit, f1, splits)


def train_spacy(splits: Splits, vectors: Path, optimize: str, settings: Sequence[str], folder: Path) -> Trained:
    """Train a pipeline with `ner` by spaCy's commands; one that stands in the folder is not trained again."""
    run, config = folder / optimize, folder / f"{optimize}.cfg"
    data = {name: folder / f"{name}.spacy" for name in ("train", "dev")}
    if not (run / TRAINED).exists():
        folder.mkdir(parents=True, exist_ok=True)
        _spacy("init", "vectors", "en", vectors, folder / "vectors", "--attr", "LOWER")
        _spacy("init", "config", config, "--lang", "en", "--pipeline", "ner", "--optimize", optimize, "--force")
        for name, path in data.items():
            write_docs(getattr(splits, name), path)

    def fit() -> None:
        own = [f"--paths.{name}={path}" for name, path in data.items()]
        own += [f"--paths.vectors={folder / 'vectors'}", *(f"--{one}" for one in settings)]
        own.append("--components.tok2vec.model.embed.include_static_vectors=true")
        _spacy("train", config, "--output", run, *own)

    best = run / "model-best"
    return _trained(f"spaCy, {optimize}, vectors", run, best, fit, lambda some: spacy_f1(best, some), splits)


def _trained(
    name: str,
    run: Path,
    model: Path,
    fit: Callable[[], None],
    f1: Callable[[Sequence[Example]], float],
    splits: Splits,
) -> Trained:
    """What stands in the folder of a run or, where nothing does, is trained now."""
    if not (run / TRAINED).exists():
        begin, before = time.perf_counter(), _processor_seconds()
        fit()
        minutes, processor = time.perf_counter() - begin, _processor_seconds() - before
        figures = {"dev": f1(splits.dev), "test": f1(splits.test)}
        figures |= {"minutes": minutes / 60, "processor_minutes": processor / 60}
        (run / TRAINED).write_text(json.dumps(figures) + "\n", encoding="utf-8", newline="\n")
    return Trained(name, model, **json.loads((run / TRAINED).read_text(encoding="utf-8")))


def _spacy(*arguments: object) -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], env=environment, check=True)


def _processor_seconds() -> float:
    """Of this process and of those that it has started, once they have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def write_docs(examples: Sequence[Example], path: Path) -> None:
    """Write sentences in spaCy's form, each a document of its own."""
    import spacy
    from spacy.tokens import Doc, DocBin, Span

    vocab, docs = spacy.blank("en").vocab, DocBin()
    for example in examples:
        if len(example):
            doc = Doc(vocab, words=list(example.tokens))
            doc.ents = [Span(doc, one.start, one.end, one.label) for one in example.segments]
            docs.add(doc)
    docs.to_disk(path)


def spacy_f1(pipeline: Path, examples: Sequence[Example]) -> float:
    """F1 of a pipeline from tokens, by our scorer."""
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(pipeline)
    docs = nlp.pipe(Doc(nlp.vocab, words=list(example.tokens)) for example in examples)
    found = [tuple(NamedSegment(entity.start, entity.end, entity.label_) for entity in doc.ents) for doc in docs]
    return evaluate([example.segments for example in examples], found).f1


# ---- Speed -----------------------------------------------------------------------------------------------------------


def speed_rows(
    models: Sequence[Trained], others: Mapping[str, Path], examples: Sequence[Example], rounds: int
) -> list[Row]:
    """Words per second of processor time of each on one thread, in turns, and the ratio to our own without vectors,
    round by round. Models on pretrained encoders, which are slow, read fewer sentences."""
    examples = drawn(examples, MANY)
    with one_thread():
        contenders: dict[tuple[str, str], Callable[[], Any]] = {}
        for model in models:
            if model.name in (OURS, WITH):
                contenders |= spansieve_contenders(model.name, load(model.folder), examples)
            else:
                contenders |= spacy_contenders(model.name, model.folder, examples)
        read = {model.name: examples for model in models}
        for name, folder in others.items():
            predictor = load(folder)
            is_builtin = predictor.tagger.config.encoder.name == BUILTIN
            read[name] = examples if is_builtin else drawn(examples, FEW)
            contenders |= spansieve_contenders(name, predictor, read[name])
        contenders = {key: run for key, run in contenders.items() if key[0] in read}
        times = timed_in_rounds(contenders, rounds, processor_seconds)
    rates = {key: [sum(map(len, read[key[0]])) / seconds for seconds in some] for key, some in times.items()}
    sizes = {model.name: model.megabytes for model in models}
    sizes |= {name: Trained(name, folder, 0, 0, 0, 0).megabytes for name, folder in others.items()}
    rows: list[Row] = []
    for given in ("tokens", "text"):
        for name, size in sizes.items():
            own = rates[name, given]
            ratio = statistics.median(a / b for a, b in zip(own, rates[OURS, given]))
            cells = {"words/s": f"{statistics.median(own):,.0f}", "to spansieve without vectors": f"{ratio:.3g}"}
            rows.append({"tagger": name, "input": given} | cells | {"MB": f"{size:.0f}"})
    return rows


def start_rows(models: Sequence[Trained], rounds: int) -> list[Row]:
    """Seconds of a process that finds the names in one sentence, from its start to its end, in turns."""
    with tempfile.TemporaryDirectory() as room:
        commands = {model.name: _start(model) for model in models}
        (ours,) = (model for model in models if model.name == WITH)
        large = Path(room) / "model"
        with_table(ours.folder, large, LARGE)
        commands[f"{WITH}, a table of {LARGE:,} rows"] = _start(ours._replace(folder=large))
        starts = {name: _process(command) for name, command in commands.items()}
        times = timed_in_rounds(starts, min(rounds, MOST_STARTS), seconds_of)
    return [{"tagger": name, "seconds": f"{statistics.median(some):.2f}"} for name, some in times.items()]


def _start(model: Trained) -> list[str]:
    if model.name in (OURS, WITH):
        return [sys.executable, "-m", "spansieve", "predict", str(model.folder), SENTENCE]
    program = f"import spacy; print([e.text for e in spacy.load({str(model.folder)!r})({SENTENCE!r}).ents])"
    return [sys.executable, "-c", program]


def _process(command: Sequence[str]) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def with_table(model: Path, folder: Path, rows: int) -> None:
    """Write a model again with a table of so many rows: rows of nobody's words are added."""
    tagger = load_model(model)
    own: Any = tagger.encoder.word_vectors
    missing = rows - len(own.table)
    random = np.random.default_rng(0)
    new = np.setdiff1d(random.integers(0, 2**63, 2 * missing, np.uint64), own.hashes)[:missing]
    order = np.argsort(hashes := np.concatenate([own.hashes, new]))
    at = np.concatenate([own.rows, np.arange(len(own.table), rows, dtype=np.int32)])
    table = np.concatenate([own.table, random.integers(-127, 128, (missing, own.size)).astype(np.int8)])
    scales = np.concatenate([own.scales, np.full(missing, own.scales.mean(), np.float32)])
    tagger.encoder.word_vectors = WordVectors(hashes[order], at[order], table, scales)
    save_model(tagger, folder)


# ---- The page --------------------------------------------------------------------------------------------------------

ABOUT = (
    "Preset `builtin` without and with word vectors, and spaCy's `tok2vec` and `ner` with the same vectors "
    "(`include_static_vectors`, looked up by the lower-case word) in the configurations that `spacy init config` "
    "recommends for a CPU, trained until dev no longer improves (spaCy's `patience`); seed 0. F1 is exact match, "
    "micro, from tokens, by one scorer. Minutes are those of training, dev scored included; processor minutes are the "
    "sum over threads, without what else ran on the machine. MB are those of the model's folder."
)
ABOUT_SPEED = (
    f"Words per second of processor time on one thread, of {MANY} test sentences drawn by chance ({FEW} of them with a "
    "pretrained encoder), all taggers in turns in one process, another one first in every round; medians. The ratio is "
    "the median over the rounds. From tokens, and from text with each tagger's own tokenizer."
)
ABOUT_START = (
    "Seconds from the start of a process to its end, for one sentence: `spansieve predict`, and a program that loads "
    "spaCy's pipeline; in turns, medians. The last has the model with rows added to its table of vectors."
)


def spacy_page(models: Sequence[Trained], speed: Sequence[Row], start: Sequence[Row], note: str = "") -> ResultPage:
    rows = [model.row() for model in models]
    speed_table, start_table = Table(speed, "Speed", ABOUT_SPEED), Table(start, "Start", ABOUT_START)
    parts: list[str | Table] = [ABOUT, *filter(None, [note]), Table(rows), speed_table, start_table]
    title = "Word vectors on a CPU: the built-in encoder beside spaCy"
    return ResultPage("spacy_vectors_cpu", title, parts, csv=rows, more_csv={"speed": speed, "start": start})
