"""Training and prediction beside a busy process, by how many threads there are and how they wait for one another.

Each run is the real command in a process of its own, and the settings take turns: quiet, then beside the neighbour.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import NamedTuple

from benchmarks.result_page import ResultPage, Table
from benchmarks.startup import ROOT, run_command
from benchmarks.timings import seconds_of
from spansieve.data.formats import write_examples
from spansieve.data.sample import sample_corpus
from spansieve.prediction.onnx.session import usable_cores

BUILTIN = "builtin"
ACTIVE, DEFAULT, ONE_THREAD = "active waiting", "the default", "--threads 1"
# What each setting adds to the environment and to the command. libgomp's own default is to go round 300,000 times.
SETTINGS: dict[str, tuple[dict[str, str], list[str]]] = {
    ACTIVE: ({"GOMP_SPINCOUNT": "300000", "OMP_NUM_THREADS": str(usable_cores())}, []),
    DEFAULT: ({}, []),
    ONE_THREAD: ({}, ["--threads", "1"]),
}
# Ends with the process that started it, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass"
MAX_BUSY, MAX_QUIET, MAX_DEMO = 1.3, 1.25, 1.5


class Size(NamedTuple):
    """How much a command has to do: some seconds' worth on one thread."""

    train: int  # sentences
    dev: int
    epochs: int
    texts: int


SIZES = {BUILTIN: Size(1_000, 100, 2, 10_000), "pretrained": Size(96, 16, 1, 600)}
ABOUT = f"""Seconds of the whole command, its start included, with nothing else on the machine and beside one process
that computes without a pause. *{ACTIVE}* is what torch does where nothing else is set: all cores, and threads that wait
for others run in a loop. *{DEFAULT}* is what a command sets: they sleep, and the built-in encoder is trained with one
thread. The last two columns are what the default may take: beside the busy process at most {MAX_BUSY} times what one
thread takes on a quiet machine, and on a quiet machine at most {MAX_QUIET} times what it takes with {ACTIVE}. Each run
is a process of its own, and the settings take turns."""
ABOUT_DEMO = """Seconds of the whole command as `make demo` starts it, with nothing else on the machine and beside one
process that computes without a pause."""


def run_neighbours(encoder: Path, rounds: int, on_row: Callable[[dict[str, object]], None]) -> list[dict[str, object]]:
    """One row per command and setting. A first run of each command, which may compile, is not counted."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as room:
        for name, command in _commands(Path(room), encoder).items():
            runs = {
                setting: partial(_run, [*command, *options], variables)
                for setting, (variables, options) in SETTINGS.items()
            }
            runs[DEFAULT]()
            quiet = _medians(runs, rounds)
            with busy_process():
                busy = _medians(runs, rounds)
            for setting in SETTINGS:
                rows.append({"command": name, "threads": setting} | _figures(setting, quiet, busy))
                on_row(rows[-1])
    return rows


def run_demo() -> list[dict[str, object]]:
    """One row: `spansieve demo` on the quiet machine and beside the busy process."""
    with tempfile.TemporaryDirectory() as room:
        demo = partial(_run, ["demo", "--output", str(Path(room) / "demo")], {})
        quiet = seconds_of(demo)
        with busy_process():
            busy = seconds_of(demo)
    ratio = f"{busy / quiet:.2f} of at most {MAX_DEMO}"
    return [{"command": "demo", "quiet": f"{quiet:.1f} s", "busy": f"{busy:.1f} s", "busy / quiet": ratio}]


def neighbours_page(rows: Sequence[dict[str, object]], encoder: str) -> ResultPage:
    title = f"Commands beside a busy process, with the built-in encoder and {encoder}"
    return ResultPage("neighbours_cpu", title, [ABOUT, Table(rows)], csv=rows)


def demo_page(rows: Sequence[dict[str, object]]) -> ResultPage:
    return ResultPage("neighbours_demo_cpu", "The demo beside a busy process", [ABOUT_DEMO, Table(rows)], csv=rows)


@contextmanager
def busy_process() -> Iterator[subprocess.Popen[bytes]]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _medians(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds_of(run))
    return {name: median(some) for name, some in times.items()}


def _figures(setting: str, quiet: Mapping[str, float], busy: Mapping[str, float]) -> dict[str, object]:
    is_default = setting == DEFAULT
    return {
        "quiet": f"{quiet[setting]:.1f} s",
        "busy": f"{busy[setting]:.1f} s",
        "busy / quiet": f"{busy[setting] / quiet[setting]:.2f}",
        f"busy / quiet of {ONE_THREAD}": f"{busy[setting] / quiet[ONE_THREAD]:.2f}" if is_default else "",
        f"quiet / quiet of {ACTIVE}": f"{quiet[setting] / quiet[ACTIVE]:.2f}" if is_default else "",
    }


def _commands(room: Path, encoder: Path) -> dict[str, list[str]]:
    """Training on the sample corpus, and prediction of its sentences by the model that training left."""
    corpus = sample_corpus()
    commands = {}
    for kind, name in ((BUILTIN, BUILTIN), ("pretrained", str(encoder))):
        folder, size, shown = room / kind, SIZES[kind], Path(name).name
        folder.mkdir()
        write_examples(corpus.train[: size.train], folder / "train.conll")
        write_examples(corpus.dev[: size.dev], folder / "dev.conll")
        texts = islice(cycle(" ".join(example.tokens) for example in corpus.train), size.texts)
        (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8", newline="\n")
        data = [str(folder / "train.conll"), str(folder / "dev.conll"), "--output", str(folder / "run")]
        options = ["--encoder", name, "--epochs", str(size.epochs), "--set=run.cpu=true"]
        commands[f"train, {shown}"] = ["train", *data, *options]
        files = ["--file", str(folder / "texts.txt"), "--output", str(folder / "found.jsonl")]
        commands[f"predict, {shown}"] = ["predict", str(folder / "run" / "model"), *files]
    return commands


def _run(command: Sequence[str], variables: Mapping[str, str]) -> None:
    if command[0] == "train":
        rmtree(command[command.index("--output") + 1], ignore_errors=True)
    run_command(["-m", "spansieve", *command], {"PYTHONPATH": str(ROOT / "src"), **variables})
