"""How fast the pipeline is from raw text to entities with probabilities, stage by stage, and which stage bounds it.

Three things run side by side: processes that prepare text, the device, and the process that starts the device's work
and decides. Each is measured alone, then all together: the whole cannot be faster than the slowest of the three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import seconds_of
from spansieve.data.example import Example
from spansieve.decoding.decoders import Decoded
from spansieve.integrations.hub import load
from spansieve.models.inference import PreparedBatch
from spansieve.models.storage import load_model
from spansieve.models.tagger import Batch
from spansieve.prediction.feature_workers import CHARACTERS_IN_CHUNK, TEXTS_IN_CHUNK, Prepared, PreparedAhead, Preparer
from spansieve.prediction.pipeline import ChunkOfTexts, Pipeline, Precision
from spansieve.prediction.text_predictor import chunks_of

SENTENCES_IN_TEXT = 10
SAMPLE = 200_000  # words that single stages are measured on
ROUNDS = 3
Row = dict[str, object]


@dataclass(frozen=True)
class Setting:
    device: str = "cuda"
    precision: Precision = "bf16"
    workers: int = 12
    batch_tokens: int | None = None
    words: int = 4_000_000


@dataclass(frozen=True)
class Measured:
    rows: list[Row]
    words_per_second: float  # end to end
    profile: str  # of the device's kernels, where it has such


class _Rates:
    """Rows of a table, shown as they come."""

    def __init__(self, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self._on_row = on_row

    def add(self, stage: str, where: str, words: int, seconds: float) -> float:
        rate = words / seconds
        self.rows.append({"stage": stage, "where": where, "words/s": f"{rate:,.0f}", "µs/word": f"{1e6 / rate:.2f}"})
        self._on_row(self.rows[-1])
        return rate


def run_bulk_speed(
    model: Path, examples: Sequence[Example], setting: Setting, on_row: Callable[[Row], None] = lambda row: None
) -> Measured:
    """Measure each stage alone, then all together; `on_row` is called with each row as soon as it is measured."""
    device, rates = setting.device, _Rates(on_row)
    texts, sample = texts_of(examples, setting.words), texts_of(examples, min(setting.words, SAMPLE))
    num_words = count_words(texts)
    tagger = load_model(model, device)
    with Pipeline(tagger, setting.workers, setting.precision, batch_tokens=setting.batch_tokens) as pipeline:
        stages = _Stages(pipeline, sample)
        _measure_preparing(stages, rates, texts_of(examples, 1, repeated=False))
        of_device, of_host = _measure_alone(stages, rates, device)
        preparing, of_transfer = _measure_processes(pipeline, texts, rates, setting.workers)
        of_host += of_transfer * stages.num_words / num_words
        reading = rates.add("all of the device's work", device, stages.num_words, of_device)
        hosting = rates.add("all of this process's work", "this process", stages.num_words, of_host)
        bound, by = min((preparing, "preparing"), (reading, "the device"), (hosting, "this process"))
        rates.add(f"the slowest of these: {by}", "", num_words, num_words / bound)
        seconds = _best(lambda: _drain(pipeline.stream(texts)))
        whole = rates.add("end to end", f"{device}, {setting.precision}", num_words, seconds)
        profile = stages.profile() if device != "cpu" else ""
    _measure_predictor(model, sample, rates, device)
    return Measured(rates.rows, whole, profile)


def bulk_page(measured: Measured, data: str, device: str) -> ResultPage:
    profile = [f"```\n{measured.profile}\n```"] if measured.profile else []
    title = f"From text to entities, stage by stage, on {data}"
    return ResultPage(f"bulk_{device}", title, [Table(measured.rows), *profile], device=device)


def _measure_preparing(stages: _Stages, rates: _Rates, once: Sequence[str]) -> None:
    """What one process does; `once`: the corpus, of which a process that has just started knows no word."""
    words = stages.num_words
    rates.add("tokens and sentences", "one process", words, _best(stages.tokenize))
    rates.add("subwords and batches", "one process", words, _best(stages.read))
    seconds = min(_seconds_of_new_process(stages.pipeline.preparer, once) for _ in range(ROUNDS))
    rates.add("all of it, of words never seen before", "one process", count_words(once), seconds)


def _seconds_of_new_process(preparer: Preparer, texts: Sequence[str]) -> float:
    """Seconds until a process of the pipeline's own, which has just started, has prepared texts and sent them."""
    ahead = PreparedAhead(preparer, workers=1)
    try:
        _drain(ahead(["."]))  # it is there, and its kernels are compiled
        return seconds_of(partial(_drain, ahead(texts)))
    finally:
        ahead.close()


def _measure_processes(pipeline: Pipeline, texts: Sequence[str], rates: _Rates, workers: int) -> tuple[float, float]:
    """The rate at which all processes prepare, and the seconds of this process that it takes."""
    num_words = count_words(texts)
    for _ in range(2):  # now every process has started, and knows the words
        _drain(pipeline.prepared(texts))
    times = []
    for _ in range(ROUNDS):
        begin, begin_here = time.perf_counter(), time.process_time()
        _drain(pipeline.prepared(texts))
        times.append((time.perf_counter() - begin, time.process_time() - begin_here))
    seconds, here = min(times)
    rate = rates.add("all preparing", f"{workers} processes" if workers else "a thread", num_words, seconds)
    if workers:
        rates.add("sending texts, taking batches over", "this process", num_words, here)
    return rate, here if workers else 0.0


def _measure_alone(stages: _Stages, rates: _Rates, device: str) -> tuple[float, float]:
    """Seconds that the device has to do with the sample, and this process."""
    words = stages.num_words
    with torch.inference_mode():
        starting, encoding = stages.encode()
        rates.add("encoder", device, words, encoding)
        starting_scores, scoring, decoding = stages.score()
        rates.add("scores and decoding", device, words, scoring)
        rates.add("reading what was decoded", "this process", words, decoding)
    listing = _best(stages.list_entities)
    rates.add("entities", "this process", words, listing)
    rates.add("starting the device's work", "this process", words, starting + starting_scores)
    return encoding + scoring, starting + starting_scores + decoding + listing


def _measure_predictor(model: Path, sample: Sequence[str], rates: _Rates, device: str) -> None:
    """All of it one after the other, in one process."""
    predictor = load(model, device)
    few = sample[: max(1, len(sample) // 4)]
    seconds = _best(lambda: predictor.predict(few))
    rates.add("Predictor.predict", f"{device}, fp32", count_words(few), seconds)


def texts_of(examples: Sequence[Example], words: int, repeated: bool = True) -> list[str]:
    """Texts of ten sentences, blank lines between them, over and over until there are as many words; or all of them
    once."""
    sentences = [example.tokens for example in examples if example.tokens]
    if not sentences:
        raise ValueError("data must hold at least one sentence with tokens, got none")
    texts: list[str] = []
    found = 0
    while found < words:
        for low in range(0, len(sentences), SENTENCES_IN_TEXT):
            part = sentences[low : low + SENTENCES_IN_TEXT]
            texts.append("\n\n".join(map(" ".join, part)))
            found += sum(map(len, part))
            if repeated and found >= words:
                break
    return texts


def count_words(texts: Sequence[str]) -> int:
    """As the corpus has them: punctuation counts."""
    return sum(len(text.split()) for text in texts)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    return chunks_of(texts, TEXTS_IN_CHUNK, CHARACTERS_IN_CHUNK)


def _drain(stream: Iterable[Any]) -> None:
    for _ in stream:
        pass


def _best(run: Callable[[], Any]) -> float:
    """Of a few rounds, after one that may compile."""
    run()
    return min(seconds_of(run) for _ in range(ROUNDS))


class _Stages:
    """Each stage alone, on what the one before it has made of the sample."""

    def __init__(self, pipeline: Pipeline, texts: Sequence[str]) -> None:
        self.pipeline, self.texts = pipeline, texts
        self.num_words = count_words(texts)
        preparer = pipeline.preparer
        self.chunks: list[tuple[list[str], Prepared]] = [(part, preparer(part)) for part in _chunks(texts)]
        self.blocks = [preparer.tokens(part) for part, _ in self.chunks]
        self.batches: list[tuple[PreparedBatch, Batch]] = [
            (batch, pipeline.backend.on_device(batch)) for _, prepared in self.chunks for batch in prepared.batches
        ]
        self.vectors: list[Tensor] = []
        self.decoded: list[Decoded] = []

    def tokenize(self) -> None:
        _drain(map(self.pipeline.preparer.tokens, (part for part, _ in self.chunks)))

    def read(self) -> None:
        _drain(map(self.pipeline.preparer.batches, self.blocks))

    def encode(self) -> tuple[float, float]:
        """Seconds until all is started, and until all is done."""
        tagger = self.pipeline.backend.tagger

        def run() -> None:
            self.vectors.clear()
            self.vectors.extend(tagger.vectors(batch).float() for _, batch in self.batches)

        return min(self._seconds_on_device(run) for _ in range(ROUNDS + 1))[::-1]

    def score(self) -> tuple[float, float, float]:
        """Seconds until all is started and until all is done, and of this process to read what the device has found."""
        backend, times, reading = self.pipeline.backend, [], []
        waits: list[Callable[[], Decoded]] = []

        def run() -> None:
            pairs = zip(self.vectors, self.batches)
            scores = backend.tagger.head.scores
            waits.extend(backend.decode(scores(x), b.lengths, p.lengths, True, None) for x, (p, b) in pairs)

        for _ in range(ROUNDS + 1):
            waits.clear()
            times.append(self._seconds_on_device(run))
            begin = time.perf_counter()
            self.decoded = [wait() for wait in waits]
            reading.append(time.perf_counter() - begin)
        return (*min(times)[::-1], min(reading))

    def _seconds_on_device(self, run: Callable[[], None]) -> tuple[float, float]:
        """Seconds until all is done, and until all is started."""
        self._wait()
        begin = time.perf_counter()
        run()
        started = time.perf_counter() - begin
        self._wait()
        return time.perf_counter() - begin, started

    def _wait(self) -> None:
        if self.pipeline.backend.device.type == "cuda":
            torch.cuda.synchronize()

    def list_entities(self) -> None:
        decoded = iter(self.decoded)
        for texts, prepared in self.chunks:
            nests = self.pipeline.backend.support.takes_nested
            chunk = ChunkOfTexts(texts, prepared, self.pipeline.names, nests, threshold=0.0)
            for batch in prepared.batches:
                chunk.add(batch, next(decoded), with_probabilities=True)
            _drain(chunk.entities())

    def profile(self, batches: int = 8) -> str:
        """Where the device's time goes, and the host's that starts it."""
        from torch.profiler import ProfilerActivity, profile

        some = self.batches[:batches]
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            for prepared, _ in some:
                self.pipeline.backend.launch(prepared, True, None)()
            self._wait()
        averages = profiled.key_averages()
        return "\n".join(
            averages.table(sort_by=f"self_{side}_time_total", row_limit=14, max_name_column_width=60)
            for side in ("cuda", "cpu")
        )
