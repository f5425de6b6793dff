"""How fast texts become entities on the CPU, beside the bare encoder and beside others on the same encoder.

All contenders get the same sentences and take turns, a round after the other. Sentences are in the order of the file:
to sort them by length is part of a contender's time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import timed_in_rounds
from spansieve.config import EncoderConfig, ModelConfig
from spansieve.data.batching import batches_by_length
from spansieve.data.example import Example
from spansieve.decoding.prediction import Prediction
from spansieve.models.inference import MAX_SENTENCES, MAX_TOKENS, PreparedBatch
from spansieve.models.storage import CONFIG, load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import TorchBackend
from spansieve.prediction.predictor import Predictor

BARE = "encoder alone, same batches"
PREPARED = "spansieve, batches prepared"
PARTS = "with a look at the clock"
TOKENS = "spansieve, from tokens"
TEXT = "spansieve, from text"
PIPELINE = "transformers pipeline, from text, batch"
SPANMARKER = "SpanMarker, from tokens, batch"
BATCH_SIZES = (1, 8, 32)
SPANMARKER_SIZES = (4, 32)  # its default, and one that is faster
SPANMARKER_SENTENCES = 30  # it reads so many, and its time is scaled to all of them by the number of tokens


class Took(NamedTuple):
    """By the clock, and by what the processor did, which other work on the machine does not change."""

    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, run: Callable[[], object]) -> Took:
        begin = cls.now()
        run()
        now = cls.now()
        return cls(now.seconds - begin.seconds, now.cpu_seconds - begin.cpu_seconds)

    @classmethod
    def now(cls) -> Took:
        return cls(time.perf_counter(), time.process_time())


@dataclass
class Shares:
    """How long the parts of prediction take."""

    encoder: list[Took] = field(default_factory=list)
    scores: list[Took] = field(default_factory=list)  # of spans or tags
    decoding: list[Took] = field(default_factory=list)  # the best segmentation, probabilities, names


def run_prediction_speed(
    source: str,
    examples: Sequence[Example],
    rounds: int = 3,
    spanmarker_python: Path | None = None,
    batch_tokens: int = MAX_TOKENS,
) -> list[dict[str, object]]:
    """One row per contender: sentences per second, and its time and CPU time as multiples of the bare encoder's."""
    tagger = _tagger(source, examples)
    tokens = [list(example.tokens) for example in examples]
    texts = [" ".join(sentence) for sentence in tokens]
    predictor, shares = Predictor(tagger, batch_tokens=batch_tokens), Shares()
    batches = _batches(tagger, tokens, batch_tokens)
    contenders: dict[str, Callable[[], Any]] = {
        BARE: lambda: _read(tagger, batches),
        PREPARED: lambda: _predict(tagger, batches),
        PARTS: lambda: _predict_by_parts(tagger, batches, shares),
        TOKENS: lambda: predictor.predict_tokens(tokens, probabilities=True),
        TEXT: lambda: predictor.predict(texts),
        **_pipelines(tagger, texts),
    }
    took = timed_in_rounds(contenders, rounds, Took.of)
    if spanmarker_python is not None:
        took |= _spanmarker(tagger, tokens, spanmarker_python)
    bare = took[BARE]
    rows = [_row(name, times, bare, len(examples)) for name, times in took.items() if name != PARTS]
    return rows + _share_rows(shares, rounds, len(examples), bare)


def _tagger(source: str, examples: Sequence[Example]) -> Tagger:
    """A trained model, or a model without training on an encoder, whose filter keeps what chance has it keep."""
    if (Path(source) / CONFIG).is_file() and "spansieve" in (Path(source) / CONFIG).read_text(encoding="utf-8"):
        return load_model(source)
    torch.manual_seed(0)
    return Tagger.for_data(ModelConfig(encoder=EncoderConfig(name=source)), examples).eval()


def _batches(tagger: Tagger, tokens: list[list[str]], batch_tokens: int) -> list[PreparedBatch]:
    plan = batches_by_length(tagger.encoder.sizes(tokens), batch_tokens, MAX_SENTENCES)
    words = [[tokens[i] for i in indices] for indices in plan]
    return [PreparedBatch(tagger.encoder.features(some), np.array(list(map(len, some))), ()) for some in words]


# ---- Contenders ------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def _read(tagger: Tagger, batches: Sequence[PreparedBatch]) -> None:
    """The model below the encoder and nothing else, where there is one."""
    bare = getattr(tagger.encoder, "model", None)
    for batch in batches:
        if bare is None:
            tagger.encoder(batch.features)
        else:
            bare(input_ids=batch.features["input_ids"], attention_mask=batch.features["attention_mask"])


@torch.inference_mode()
def _predict(tagger: Tagger, batches: Sequence[PreparedBatch]) -> list[Prediction]:
    """What `predict` does with batches."""
    backend, names = TorchBackend(tagger), ("", *tagger.labels)
    return [one for batch in batches for one in backend.launch(batch, True, None)().predictions(names, batch.lengths)]


@torch.inference_mode()
def _predict_by_parts(tagger: Tagger, batches: Sequence[PreparedBatch], shares: Shares) -> None:
    """The same with the clock read in between."""
    spent, backend, names = [Took(0.0, 0.0)] * 3, TorchBackend(tagger), ("", *tagger.labels)
    for prepared in batches:
        batch = backend.on_device(prepared)
        marks = [Took.now()]
        vectors = tagger.vectors(batch)
        marks.append(Took.now())
        scores = tagger.head.scores(vectors)
        marks.append(Took.now())
        backend.decode(scores, batch.lengths, prepared.lengths, True, None)().predictions(names, prepared.lengths)
        marks.append(Took.now())
        parts = [[b - a for a, b in zip(*both)] for both in zip(marks, marks[1:])]
        spent = [Took(*map(sum, zip(total, part))) for total, part in zip(spent, parts)]
    shares.encoder.append(spent[0])
    shares.scores.append(spent[1])
    shares.decoding.append(spent[2])


def _pipelines(tagger: Tagger, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """The Hugging Face pipeline on the same weights, at its default batch size of 1 and at larger ones."""
    encoder: Any = tagger.encoder
    if not encoder.is_pretrained:
        return {}
    from transformers import AutoModelForTokenClassification, pipeline

    model = AutoModelForTokenClassification.from_config(encoder.model.config).eval()
    model.base_model.load_state_dict(encoder.model.state_dict(), strict=False)
    run = pipeline("token-classification", model=model, tokenizer=encoder.tokenizer, aggregation_strategy="simple")

    def at(size: int) -> Callable[[], Any]:
        return lambda: run(texts, batch_size=size)

    return {f"{PIPELINE} {size}": at(size) for size in BATCH_SIZES}


def _spanmarker(tagger: Tagger, tokens: list[list[str]], python: Path) -> dict[str, list[Took]]:
    """Once at each batch size, in a process of its own, after the others."""
    from benchmarks import spanmarker_speed

    read = tokens[:SPANMARKER_SENTENCES]
    part = sum(map(len, read)) / sum(map(len, tokens))
    with TemporaryDirectory() as place:
        encoder: Any = tagger.encoder
        encoder.save(Path(place))
        encoder.model.save_pretrained(place)
        sentences = Path(place) / "sentences.json"
        sentences.write_text(json.dumps(read), encoding="utf-8", newline="\n")
        script, threads = str(spanmarker_speed.__file__), str(torch.get_num_threads())
        command = [str(python), script, place, str(sentences), threads, *map(str, SPANMARKER_SIZES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"SpanMarker could not be run by {python}: {done.stderr.strip().splitlines()[-1]}")
    measured = json.loads(done.stdout.splitlines()[-1])
    return {f"{SPANMARKER} {size}": [Took(*(value / part for value in both))] for size, both in measured.items()}


# ---- Rows ------------------------------------------------------------------------------------------------------------


def _row(name: str, took: Sequence[Took], bare: Sequence[Took], num_sentences: int) -> dict[str, object]:
    seconds = statistics.median(one.seconds for one in took)
    return {
        "what": name,
        "seconds": f"{seconds:.2f}",
        "sentences/s": f"{num_sentences / seconds:,.0f}",
        "time": f"{_ratio([t.seconds for t in took], [t.seconds for t in bare]):.3f}",
        "CPU time": f"{_ratio([t.cpu_seconds for t in took], [t.cpu_seconds for t in bare]):.3f}",
    }


def _ratio(times: Sequence[float], bare: Sequence[float]) -> float:
    """The median over rounds where the rounds are the same, otherwise that of the medians."""
    if len(times) == len(bare):
        return statistics.median(a / b for a, b in zip(times, bare))
    return statistics.median(times) / statistics.median(bare)


def _share_rows(shares: Shares, rounds: int, num_sentences: int, bare: Sequence[Took]) -> list[dict[str, object]]:
    parts = {
        "of which the encoder": shares.encoder,
        "of which scores of spans": shares.scores,
        "of which decoding with probabilities": shares.decoding,
    }
    return [_row(name, took[-rounds:], bare, num_sentences) for name, took in parts.items()]


def prediction_page(
    rows: Sequence[dict[str, object]], num_sentences: int, data: str, rounds: int, threads: int, note: str = ""
) -> ResultPage:
    """`note` is one more sentence for the page."""
    about = (
        f"Medians of {rounds} rounds in turns. *time* and *CPU time* are multiples of the bare encoder's; where other "
        "work ran on the machine, look at the second, on one thread."
    )
    title = f"Text to entities: {num_sentences:,} sentences of {data}, {threads} CPU threads"
    return ResultPage("prediction_cpu", title, [about, *filter(None, [note]), Table(rows)], csv=rows)
