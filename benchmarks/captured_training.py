"""Training as CUDA graphs: whole steps of our models and of a token softmax, kernel by kernel and captured, and runs
from the start of the process to the saved model."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.plots import OTHER_COLOUR, OURS_COLOUR, Figure, bar_names, panels
from benchmarks.result_page import ResultPage, Row, Spread, Table, percent
from benchmarks.timings import seconds_of, timed_in_rounds
from benchmarks.training_speed import SOFTMAX, contender
from spansieve.config import preset, with_settings
from spansieve.data.example import Example
from spansieve.training.run_folder import RESULTS
from spansieve.training.step_graphs import MEGABYTE

CONTENDERS = {  # name on the page: preset and head
    SOFTMAX: ("pretrained", SOFTMAX),
    "FSemiCRF, the paper's loss": ("paper-conll2003", "fsemicrf"),
    "FSemiCRF, the preset's loss": ("pretrained", "fsemicrf"),
}
ROUNDS, STEPS = 15, 12
EAGER, CAPTURED = "ms/step by kernels", "ms/step as graph"
TIMES_EAGER, OF_CAPTURED = "× the softmax by kernels", "of the softmax as graph"
QUARTILES = "quartiles"  # of that ratio
WAYS = {"graphs": "none", "kernels": "false"}  # by the value of training.cuda_graphs
ABOUT_STEPS = (
    "Whole training steps in bf16 autocast: encoder, loss, gradient, clipping, fused AdamW (Adam for the paper's "
    "recipe). All contenders have a copy of the encoder and the same batches, and take turns; medians of {rounds} "
    "rounds of {steps} steps. Ratios are taken round by round; quartiles far apart mean that something else ran. By "
    "kernels, the batches are on the device already, and not padded. As graphs, they are padded to one of few shapes, "
    "and each step copies its batch to the device; the softmax is captured by the same code. The paper's loss is that "
    "of its whole recipe, features included. Memory is what the graphs took of the device: their pool and their "
    "inputs; `training.graph_memory` bounds it."
)
ABOUT_RUNS = (
    "`spansieve train` as a process of its own, from its start to its end: imports, reading, training, scores on dev "
    "after each epoch, the best model saved, scores on dev and test. Kernels that Triton compiles are in its cache, as "
    "after any first run. The first run had the machine to itself, and the others ran side by side: their F1 counts, "
    "and their times do not."
)


# ---- Steps -----------------------------------------------------------------------------------------------------------


def run_steps(
    encoder: str, examples: Sequence[Example], batch_sizes: Sequence[int], rounds: int = ROUNDS, steps: int = STEPS
) -> list[dict[str, object]]:
    """One row per contender and batch size, on a GPU."""
    rows: list[dict[str, object]] = []
    for batch_size in batch_sizes:
        ways: dict[tuple[str, str], Any] = {}
        about = {}
        for name, (preset_name, head) in CONTENDERS.items():
            settings = {"model.encoder.name": encoder, "training.precision": "bf16"}
            config = with_settings(preset(preset_name), settings)
            made = contender(head, examples, batch_size, "cuda", steps, config)
            ways[name, EAGER] = made.by_kernels("cuda")
            ways[name, CAPTURED], about[name] = made.by_graphs(batch_size)
        times = timed_in_rounds(ways, rounds, partial(seconds_of, device="cuda"))
        medians = {way: statistics.median(some) / steps for way, some in times.items()}
        for name, graphs in about.items():
            captured = medians[name, CAPTURED]
            of_captured = _ratios(times[SOFTMAX, CAPTURED], times[name, CAPTURED])
            low, middle, high = statistics.quantiles(of_captured, n=4, method="inclusive")
            rows.append(
                {
                    "batch": batch_size,
                    "model": name,
                    EAGER: f"{1000 * medians[name, EAGER]:.2f}",
                    CAPTURED: f"{1000 * captured:.2f}",
                    "steps/s as graph": f"{1 / captured:.0f}",
                    TIMES_EAGER: f"{statistics.median(_ratios(times[SOFTMAX, EAGER], times[name, CAPTURED])):.1f}",
                    OF_CAPTURED: f"{middle:.2f}",
                    QUARTILES: f"{low:.2f}–{high:.2f}",
                    "shapes": graphs.num_shapes,
                    "memory, MB": f"{graphs.memory / MEGABYTE:,.0f}",
                }
            )
        del ways, about
        torch.cuda.empty_cache()
    return rows


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Divide times round by round: what slows a whole round down is in both."""
    return [a / b for a, b in zip(ours, theirs)]


# ---- Runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    way: str
    seed: int
    seconds: float  # from the start of the process to its end
    training_seconds: float
    dev: float
    test: float
    is_alone: bool


def run_epochs(
    encoder: str,
    data: Sequence[Path],
    seeds: int,
    folder: Path,
    settings: Sequence[str] = (),
    epochs: int = 5,
    use_cpu: bool = False,
) -> list[Run]:
    """Train by the command, on (train, dev, test): one run of graphs alone, then all others side by side. Without
    seeds there are no others."""
    runs = [(way, seed) for way in WAYS for seed in range(seeds)] or [("graphs", 0)]
    arguments = [*map(str, data[:2]), "--encoder", encoder, "--epochs", str(epochs)]
    own_settings = (*settings, f"run.test={data[2]}", f"run.cpu={str(use_cpu).lower()}")
    arguments += [part for setting in own_settings for part in ("--set", setting)]

    def start(way: str, seed: int) -> subprocess.Popen[bytes]:
        own = [
            f"--set=training.cuda_graphs={WAYS[way]}",
            f"--set=training.seed={seed}",
            "--output",
            str(folder / f"{way}-{seed}"),
        ]
        command = [sys.executable, "-m", "spansieve", "train", *arguments, *own]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"}
        )

    def ended(begins: Mapping[tuple[str, int], float], processes: Mapping[tuple[str, int], Any]) -> list[Run]:
        seconds: dict[tuple[str, int], float] = {}
        while len(seconds) < len(processes):
            time.sleep(0.02)
            for run, process in processes.items():
                if run not in seconds and process.poll() is not None:
                    seconds[run] = time.perf_counter() - begins[run]
                    if process.returncode:
                        raise RuntimeError(f"the run of {run[0]} with seed {run[1]} failed")
        return [_run(folder, *run, seconds[run], is_alone=len(processes) == 1) for run in processes]

    made = []
    for some in (runs[:1], runs[1:]):
        begins, processes = {}, {}
        for run in some:
            begins[run] = time.perf_counter()
            processes[run] = start(*run)
        made += ended(begins, processes)
    return made


def _run(folder: Path, way: str, seed: int, seconds: float, is_alone: bool) -> Run:
    results = json.loads((folder / f"{way}-{seed}" / RESULTS).read_text(encoding="utf-8"))
    dev, test = (results[split]["micro"]["f1"] for split in ("dev", "test"))
    return Run(way, seed, seconds, results["seconds"], dev, test, is_alone)


def run_rows(runs: Sequence[Run]) -> list[Row]:
    rows: list[Row] = [
        {
            "steps": run.way,
            "seed": run.seed,
            "process, s": f"{run.seconds:.1f}" if run.is_alone else "",
            "training with scores, s": f"{run.training_seconds:.1f}" if run.is_alone else "",
            "dev F1": percent(run.dev),
            "test F1": percent(run.test),
        }
        for run in runs
    ]
    for way in dict.fromkeys(run.way for run in runs):
        some = [run for run in runs if run.way == way]
        dev, test = (Spread.of([getattr(run, split) for run in some]).percent() for split in ("dev", "test"))
        means = {"steps": way, "seed": "mean", "process, s": "", "training with scores, s": "", "dev F1": dev}
        rows.append(means | {"test F1": test})
    return rows


# ---- The page --------------------------------------------------------------------------------------------------------


def captured_page(
    steps: Sequence[dict[str, object]], runs: Sequence[Run], encoder: str, epochs: int = 5, note: str = ""
) -> ResultPage:
    about = ABOUT_STEPS.format(rounds=ROUNDS, steps=STEPS)
    parts: list[str | Table | Figure] = [*filter(None, [note]), Table(steps, "Steps", about), draw(steps)]
    if runs:
        alone = next(run for run in runs if run.is_alone)
        verdict = f"{epochs} epochs took {alone.seconds:.1f} s from the start of the process to its end."
        parts.append(Table(run_rows(runs), f"Runs of {epochs} epochs", f"{ABOUT_RUNS} {verdict}"))
    return ResultPage("training_cuda", f"Training as CUDA graphs on {encoder}", parts, csv=steps, device="cuda")


def draw(rows: Sequence[Mapping[str, object]]) -> Figure:
    """Draw the steps per second of each contender both ways, a panel for each batch size."""
    sizes = list(dict.fromkeys(row["batch"] for row in rows))
    figure, grid = panels(5.6 * len(sizes), 3.8, columns=len(sizes), sharey=True)
    for axes, size in zip(grid, sizes):
        some = [row for row in rows if row["batch"] == size]
        for offset, column, colour in ((-0.2, EAGER, OTHER_COLOUR), (0.2, CAPTURED, OURS_COLOUR)):
            for place, row in enumerate(some):
                rate = 1000 / float(str(row[column]))
                label = column.removeprefix("ms/step ") if place == 0 else None
                axes.bar(place + offset, rate, width=0.38, color=colour, label=label)
                axes.annotate(f"{rate:.0f}", (place + offset, rate), (0, 2), textcoords="offset points", ha="center")
        bar_names(axes, [str(row["model"]).replace("the ", "") for row in some])
        axes.set_title(f"batches of {size}", fontsize=10)
    grid[0].set_ylabel("training steps per second")
    grid[-1].legend(frameon=False, loc="upper right")
    return figure
