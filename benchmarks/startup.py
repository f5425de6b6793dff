"""How long a command takes to start: the prediction of one sentence and the help, of this tree and of an earlier one.

Each run is a process of its own, and the trees take turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.result_page import ResultPage, Table, git
from benchmarks.timings import seconds_of, timed_in_rounds
from spansieve.cli import THREAD_VARIABLES, WAIT_VARIABLES
from spansieve.config import preset
from spansieve.data.sample import sample_corpus
from spansieve.models.storage import save_model
from spansieve.models.tagger import Tagger
from spansieve.prediction.onnx.export import export_model

SENTENCE = "Ada Lovelace met Charles Babbage in London."
ROOT = Path(__file__).parents[1]
OWN_VARIABLES = {"PYTHONDONTWRITEBYTECODE", *THREAD_VARIABLES, *WAIT_VARIABLES}
TORCH = "import torch"
EXPORTED, HELP = "predict, exported", "--help"
# Seconds that a command may take, or that it may take longer than torch's import.
MORE_THAN_TORCH, ALLOWED = 1.0, {EXPORTED: 0.8, HELP: 0.5}
ABOUT = """From the start of the process to its end, files in the machine's cache, modules and kernels compiled before:
a first round is not counted. The model has the demo's settings, the built-in encoder and new weights; the exported one
runs without torch. Each run is a process of its own, all take turns, and the medians count."""


def run_startup(before: str, rounds: int) -> list[dict[str, object]]:
    """One row per command, with the seconds of the revision `before` and of this tree."""
    with tempfile.TemporaryDirectory() as room:
        trees = {"before": extracted(before, Path(room) / "before"), "after": ROOT / "src"}
        commands = _commands(Path(room))
        runs = {(name, tree): (arguments, tree) for name, arguments in commands.items() for tree in trees}
        runs[TORCH, "after"] = (["-c", TORCH], "after")
        contenders = {
            run: partial(run_command, arguments, {"PYTHONPATH": str(trees[tree])})
            for run, (arguments, tree) in runs.items()
        }
        times = {run: median(some) for run, some in timed_in_rounds(contenders, rounds, seconds_of).items()}
    torch = times[TORCH, "after"]
    rows: list[dict[str, object]] = [{"command": TORCH, "before": "", "after": f"{torch:.2f} s", "allowed": ""}]
    for name in commands:
        seconds_of_trees = {tree: f"{times[name, tree]:.2f} s" for tree in trees}
        allowed = ALLOWED.get(name, torch + MORE_THAN_TORCH)
        rows.append({"command": name, **seconds_of_trees, "allowed": f"{allowed:.2f} s"})
    return rows


def startup_page(rows: Sequence[dict[str, object]], before: str) -> ResultPage:
    title = f"Seconds of a command that predicts one sentence, before ({before}) and after"
    return ResultPage("startup_cpu", title, [ABOUT, Table(rows)], csv=rows)


def _commands(room: Path) -> dict[str, list[str]]:
    tagger = Tagger.for_data(preset("demo").model, sample_corpus().train).eval()
    save_model(tagger, room / "model")
    export_model(tagger, room / "export")
    command = ["-m", "spansieve"]
    return {
        "predict, built-in": [*command, "predict", str(room / "model"), SENTENCE],
        EXPORTED: [*command, "predict", str(room / "export"), SENTENCE],
        HELP: [*command, "--help"],
    }


def extracted(revision: str, folder: Path) -> Path:
    """The sources of a revision, in a folder of their own."""
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", folder=ROOT)
    if not commit:
        raise ValueError(f"--before must be a revision of this repository, got {revision!r}")
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


def run_command(arguments: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run Python with these arguments in a process of its own, as a user would start it: with all cores, and modules
    compiled once."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    done = subprocess.run(
        [sys.executable, *arguments], env={**kept, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
