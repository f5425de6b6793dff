"""Torch beside ONNX, in full and in 8 bits: size, start-up, memory, speed, and whether the same is found.

Each run is a process of its own, and the runtimes take turns. What they find is compared over the whole of the data.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.result_page import ResultPage, Table, percent
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.models.storage import encoder_name, load_model
from spansieve.prediction.onnx.export import export_model
from spansieve.segments import NamedSegment

ABOUT = """Start-up is from the start of the process to the first sentence's answer, kernels compiled before. Peak
memory is the process's, after all sentences. Sentences/s is with probabilities, from tokens, as `predict_tokens`
batches them. Each run is a process of its own, the runtimes take turns, and the medians count. The last columns compare
with torch: how many sentences have other segments, and by how much probabilities differ where segments are the same."""
WORKER = "benchmarks.onnx_worker"


@dataclass(frozen=True)
class Contender:
    runtime: str
    precision: str
    folder: Path
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def segments(self) -> list[list[NamedSegment]]:
        return [[NamedSegment(*segment) for segment in segments] for segments, _ in self.runs[0]["found"]]

    @property
    def probabilities(self) -> list[list[float]]:
        return [probabilities for _, probabilities in self.runs[0]["found"]]

    def median(self, name: str) -> float:
        return statistics.median(run[name] for run in self.runs)


def run_onnx_table(model: Path, examples: Sequence[Example], rounds: int, threads: int) -> list[dict[str, object]]:
    """One row per runtime and precision. A first round, which compiles what is not compiled yet, is not counted."""
    with tempfile.TemporaryDirectory() as room:
        contenders, encoder = _contenders(model, Path(room))
        sentences = Path(room) / "sentences.json"
        sentences.write_text(json.dumps([example.tokens for example in examples]), encoding="utf-8", newline="\n")
        for turn in range(rounds + 1):
            for contender in contenders:
                run = _run(contender, sentences, threads)
                if turn:
                    contender.runs.append(run)
        return [{"encoder": encoder} | _row(contender, contenders[0], examples) for contender in contenders]


def onnx_page(rows: Sequence[dict[str, object]], num_sentences: int, data: str, threads: int) -> ResultPage:
    title = f"Torch and ONNX on the {num_sentences:,} sentences of {data}, {threads} CPU threads"
    return ResultPage("onnx_cpu", title, [ABOUT, Table(rows)], csv=rows)


def _contenders(model: Path, room: Path) -> tuple[list[Contender], str]:
    tagger = load_model(model)
    contenders = [Contender("torch", "fp32", model)]
    for precision in ("fp32", "int8"):
        export_model(tagger, room / precision, int8=precision == "int8")
        contenders.append(Contender("onnx", precision, room / precision))
    return contenders, encoder_name(tagger.config)


def _run(contender: Contender, sentences: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", WORKER, contender.runtime, str(contender.folder), str(sentences), str(threads)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        is_ready = process.stdout.readline()
        start_up = time.perf_counter() - begin
        rest = process.stdout.read()
    if process.returncode or not is_ready:
        raise RuntimeError(f"{contender.runtime} could not be measured: its process ended with {process.returncode}")
    return json.loads(rest) | {"start_up": start_up}


def _row(contender: Contender, torch: Contender, examples: Sequence[Example]) -> dict[str, object]:
    segments, expected = contender.segments, torch.segments
    gold, lengths = [example.segments for example in examples], [len(example) for example in examples]
    size = sum(path.stat().st_size for path in contender.folder.rglob("*") if path.is_file())
    return {
        "runtime": contender.runtime,
        "precision": contender.precision,
        "on disk": f"{size / 1e6:.1f} MB",
        "start-up": f"{contender.median('start_up'):.2f} s",
        "peak memory": f"{contender.median('bytes') / 1e6:,.0f} MB",
        "sentences/s": f"{len(examples) / contender.median('seconds'):,.0f}",
        "F1": percent(evaluate(gold, segments, lengths).micro.f1),
        "sentences that differ": sum(a != b for a, b in zip(segments, expected)),
        "probabilities differ by": f"{_largest_difference(contender, torch):.1g}",
        "imports torch": "yes" if contender.runs[0]["has_torch"] else "no",
    }


def _largest_difference(one: Contender, other: Contender) -> float:
    """Among the sentences in which both find the same."""
    pairs = zip(one.segments, other.segments, one.probabilities, other.probabilities)
    return max((abs(p - q) for a, b, ps, qs in pairs if a == b for p, q in zip(ps, qs)), default=0.0)
