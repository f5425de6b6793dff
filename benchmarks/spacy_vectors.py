"""The built-in encoder with word vectors beside spaCy with the same: trained on the same data, tagging in turns.

spaCy has its own command line make each step: the vectors, by lower-case words as files of GloVe have them; the
configuration that it recommends, with `include_static_vectors`; the training, stopped by dev.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.experiment import Splits
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.segments import NamedSegment

OPTIMIZE = ("accuracy", "efficiency")  # what spaCy's configurations are for
TRAINED = "trained.json"


class SpacyRun(NamedTuple):
    """A pipeline that spaCy trained."""

    optimize: str
    seed: int
    pipeline: Path
    minutes: float  # of training
    processor_minutes: float  # of them, what was computed: less where other work had the machine


def train_spacy(splits: Splits, vectors: Path, optimize: str, seed: int, folder: Path) -> SpacyRun:
    """Train a pipeline with `ner` in a folder; one that stands there is not trained again."""
    run = folder / f"{optimize}-{seed}"
    if not (run / TRAINED).exists():
        folder.mkdir(parents=True, exist_ok=True)
        table, config = folder / "vectors", folder / f"{optimize}.cfg"
        if not (table / "config.cfg").exists():
            _spacy("init", "vectors", "en", vectors, table, "--attr", "LOWER")
        for name in ("train", "dev"):
            if not (folder / f"{name}.spacy").exists():
                write_docs(getattr(splits, name), folder / f"{name}.spacy")
        _spacy("init", "config", config, "--lang", "en", "--pipeline", "ner", "--optimize", optimize, "--force")
        settings = {f"--paths.{name}": folder / f"{name}.spacy" for name in ("train", "dev")}
        settings |= {"--paths.vectors": table, "--system.seed": seed}
        settings["--components.tok2vec.model.embed.include_static_vectors"] = "true"
        begin, before = time.perf_counter(), _processor_seconds()
        _spacy("train", config, "--output", run, *(word for setting in settings.items() for word in setting))
        took = {"seconds": time.perf_counter() - begin, "processor_seconds": _processor_seconds() - before}
        (run / TRAINED).write_text(json.dumps(took) + "\n")
    took = json.loads((run / TRAINED).read_text())
    return SpacyRun(optimize, seed, run / "model-best", took["seconds"] / 60, took["processor_seconds"] / 60)


def _spacy(*arguments: object) -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-m", "spacy", *map(str, arguments)], env=environment, check=True)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_docs(examples: Sequence[Example], path: Path) -> None:
    """Write sentences in spaCy's form, each a document of its own."""
    import spacy
    from spacy.tokens import Doc, DocBin, Span

    vocab, bin = spacy.blank("en").vocab, DocBin()
    for example in examples:
        if len(example):
            doc = Doc(vocab, words=list(example.tokens))
            doc.ents = [Span(doc, one.start, one.end, one.label) for one in example.segments]
            bin.add(doc)
    bin.to_disk(path)


def spacy_f1(pipeline: Path, examples: Sequence[Example]) -> float:
    """F1 of a pipeline from tokens, by our scorer."""
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(pipeline)
    docs = nlp.pipe(Doc(nlp.vocab, words=list(example.tokens)) for example in examples)
    found = [tuple(NamedSegment(entity.start, entity.end, entity.label_) for entity in doc.ents) for doc in docs]
    return evaluate([example.segments for example in examples], found).f1
