"""Timing side by side, and tables that say how they were made."""

from __future__ import annotations

import csv
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

TURN = 0.02  # seconds
PATIENCE = 30.0  # seconds: who takes longer for one call is called once
PACKAGES = (
    "spansieve", "torch", "numba", "triton", "transformers", "pytorch-crf", "torch-struct", "flash-semicrf", "spacy",
    "onnxruntime",
)  # fmt: skip


@dataclass(frozen=True)
class Contender:
    """Something to time."""

    task: str
    name: str
    run: Callable[[], object]
    note: str = ""


@dataclass(frozen=True)
class Timing:
    contender: Contender
    seconds: float  # median
    rounds: int


def timed_side_by_side(contenders: Sequence[Contender], seconds_each: float, device: str = "cpu") -> list[Timing]:
    """The median time of each. They take short turns, so that a noisy moment of the machine falls on everyone alike.

    A turn is as many calls as fill it, at least one. The first call is not counted, since it may compile, unless it
    took so long that there is no time for a second.
    """
    samples: list[list[float]] = [[] for _ in contenders]
    spent = [0.0] * len(contenders)
    repeats = [1] * len(contenders)
    for k, contender in enumerate(contenders):
        first = _timed(contender.run, 1, device)
        if first > PATIENCE:
            samples[k].append(first)
            spent[k] = first
        else:
            repeats[k] = max(1, round(TURN / _timed(contender.run, 1, device)))
    while any(s < seconds_each for s in spent):
        for k, contender in enumerate(contenders):
            if spent[k] < seconds_each:
                took = _timed(contender.run, repeats[k], device)
                samples[k].append(took / repeats[k])
                spent[k] += took
    return [Timing(c, statistics.median(s), len(s)) for c, s in zip(contenders, samples)]


def _timed(run: Callable[[], object], repeats: int, device: str) -> float:
    """Seconds for all repeats; on a GPU each is waited for."""
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
        if device == "cuda":
            torch.cuda.synchronize()
    return time.perf_counter() - begin


def provenance(command: str, device: str) -> list[str]:
    """The command, the versions and the machine, as lines for a page: of `cuda` the GPU, otherwise the processor."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    machine = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return [f"Made by `{command}`.", f"{machine}; Python {platform.python_version()}; {', '.join(versions)}."]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([str(row[c]) for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
