"""How soon a GPU has the entities of a few sentences, and how many words of a list of texts it reads in a second: with
CUDA graphs and kernel by kernel, in turns, from text to entities with probabilities."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.bulk_speed import count_words, texts_of
from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import timed_in_rounds
from spansieve.data.example import Example
from spansieve.integrations.hub import load
from spansieve.models.inference import PreparedBatch
from spansieve.models.torch_backend import TorchBackend
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.text_predictor import TextPredictor, entities_of, words_of

AT_ONCE = (1, 2, 8, 32)  # sentences
CALLS = 500  # of one sentence each; of more sentences fewer
WORDS = 300_000
MEGABYTES = 256  # that the graphs may take
GRAPHS, KERNELS = "CUDA graphs", "kernel by kernel"
Row = dict[str, object]


@dataclass(frozen=True)
class Measured:
    latency: list[Row]
    parts: list[Row]
    throughput: list[Row]
    memory: list[Row]


def run_prediction_cuda(
    model: Path,
    examples: Sequence[Example],
    rounds: int = 3,
    device: str = "cuda",
    calls: int = CALLS,
    words: int = WORDS,
) -> Measured:
    """Measure on single sentences of the examples, each a text, and on a list of longer texts."""
    predictor = load(model, device, cuda_graph_megabytes=MEGABYTES)
    plain = Predictor(predictor.tagger, cuda_graph_megabytes=0)
    plain.predict("Ada Lovelace met Charles Babbage in London.")
    memory = _warmed_up(predictor)
    texts = [" ".join(example.tokens) for example in examples if len(example)]
    latency = [row for size in AT_ONCE for row in _latency(predictor, plain, texts, size, max(8, calls // size))]
    parts = _parts(predictor, texts[:calls])
    memory.append(
        {"what": "shapes captured in the end", "": len(predictor.captured.shapes) if predictor.captured else 0}
    )
    memory.append({"what": "MB that they take", "": _megabytes(predictor)})
    return Measured(latency, parts, _throughput(predictor, texts_of(examples, words), rounds), memory)


def _megabytes(predictor: Predictor) -> str:
    return f"{predictor.captured.bytes / 2**20 if predictor.captured else 0:.0f}"


def _warmed_up(predictor: Predictor) -> list[Row]:
    """What a service does before it is ready, its time and its memory."""
    captured = predictor.captured
    assert captured is not None
    free = _free_bytes()
    begin = time.perf_counter()
    predictor.warm_up()
    seconds = time.perf_counter() - begin
    taken = free - _free_bytes()
    return [
        {"what": "MB of device memory that the graphs may take", "": f"{captured.max_bytes / 2**20:.0f}"},
        {"what": "seconds of warming up, of at most 5", "": f"{seconds:.1f}"},
        {"what": "shapes captured by then", "": len(captured.shapes)},
        {"what": "MB that they take", "": _megabytes(predictor)},
        {
            "what": "MB that are missing on the device, with kernels that were loaded meanwhile",
            "": f"{taken / 2**20:.0f}",
        },
    ]


def _free_bytes() -> int:
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def _latency(predictor: Predictor, plain: Predictor, texts: Sequence[str], size: int, calls: int) -> list[Row]:
    """Sentences that come `size` at once; the two ways take turns, call by call."""
    groups = [list(texts[low : low + size]) for low in range(0, len(texts) - size + 1, size)][:calls]
    contenders = {KERNELS: plain, GRAPHS: predictor}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    differing = 0
    for is_timed in (False, True):
        for group in groups:
            found = {}
            for name, contender in contenders.items():
                begin = time.perf_counter()
                found[name] = contender.predict(group)
                times[name] += [time.perf_counter() - begin] if is_timed else []
            differing += is_timed and not _are_alike(found[KERNELS], found[GRAPHS])
    return [
        {
            "sentences at once": size,
            "how": name,
            "median, ms": f"{1e3 * statistics.median(took):.3f}",
            "99th percentile, ms": f"{1e3 * np.percentile(took, 99):.3f}",
            "median a sentence, ms": f"{1e3 * statistics.median(took) / size:.3f}",
            "calls": len(groups),
            "with other entities": differing if name == GRAPHS else "",
        }
        for name, took in times.items()
    ]


def _are_alike(found: Sequence[Sequence[tuple]], others: Sequence[Sequence[tuple]]) -> bool:
    return [[entity[:3] for entity in own] for own in found] == [[entity[:3] for entity in own] for own in others]


def _parts(predictor: Predictor, texts: Sequence[str]) -> list[Row]:
    """Where the time of one sentence goes: what `predict` does, with a look at the clock in between."""
    backend = TorchBackend(predictor.tagger, captured=predictor.captured)
    names = ("", *predictor.labels)
    stages = ("tokens and sentences", "subwords", "starting the device", "waiting for it", "entities")
    spent: list[list[float]] = [[] for _ in stages]
    for text in texts:
        marks = [time.perf_counter()]
        pieces = predictor.pieces([text], True)
        words = words_of(pieces)
        marks.append(time.perf_counter())
        if len(pieces) != 1:
            continue
        batch = PreparedBatch(backend.features(words), np.array([len(words[0])]), [0])
        marks.append(time.perf_counter())
        wait = backend.launch(batch, True, None)
        marks.append(time.perf_counter())
        decoded = wait()
        marks.append(time.perf_counter())
        entities_of(text, pieces[0].tokens, decoded.predictions(names, batch.lengths)[0])
        marks.append(time.perf_counter())
        for times, begin, end in zip(spent, marks, marks[1:]):
            times.append(end - begin)
    return [{"part": stage, "median, ms": f"{1e3 * statistics.median(took):.3f}"} for stage, took in zip(stages, spent)]


def _throughput(predictor: Predictor, texts: Sequence[str], rounds: int) -> list[Row]:
    """A list of texts by what `predict` does with it, and by the loop that does one thing after the other."""
    num_words = count_words(texts)
    contenders: dict[str, Callable[[], object]] = {
        "predict": lambda: predictor.predict(texts),
        "the loop over batches, which takes constraints": lambda: TextPredictor.predict_in_batches(
            predictor, texts, [None] * len(texts), probabilities=True, sentences=True, threshold=0.0
        ),
    }

    def clock(run: Callable[[], object]) -> float:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    return [
        {"what": name, "words/s": f"{num_words / statistics.median(took):,.0f}"}
        for name, took in timed_in_rounds(contenders, rounds, clock).items()
    ]


def prediction_cuda_page(
    measured: Measured, data: str, words: int = WORDS, note: str = "", device: str = "cuda"
) -> ResultPage:
    """`note` is one more sentence for the page."""
    about = (
        "From text to entities with probabilities, in single precision. Every sentence comes twice, and counts the "
        "second time; the two ways take turns, call by call."
    )
    return ResultPage(
        "prediction_cuda",
        f"Text to entities on a GPU: {data}",
        [
            *filter(None, [note]),
            Table(measured.latency, "A few sentences", about),
            Table(measured.parts, "Where the time of one sentence goes", "With CUDA graphs, and a look at the clock."),
            Table(measured.throughput, "A list of texts", f"{words:,} words in texts of ten sentences; medians."),
            Table(measured.memory, "Memory of the graphs, and warming up"),
        ],
        csv=measured.latency,
        device=device,
    )
