"""The same with little to do: what a page types is run as it stands, on small data, with small models, for moments.

`LESS` and `NEEDED` are all that is typed beyond the page: options of commands that measure for minutes, or that want
more data, each by what the command begins with.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

from benchmarks import active_learning, service_load
from benchmarks.cli import plan_options
from spansieve import config
from spansieve.data import sample
from spansieve.training import run
from tests.docs.pages import ROOT

LESS = {
    "python examples/segment_a_signal.py": "--steps 2",
    "python examples/bilstm_layers.py": "--sentences 32 --epochs 1",
    "python -m benchmarks audit": "--folds 2 --set training.epochs=1",
    "python -m benchmarks onnx": "--rounds 1 --threads 1",
    "python -m benchmarks service": "--clients 3 --seconds 1 --requests 60 --threads 1",
    "python -m benchmarks all-corpora": "--jobs 1 --seeds 1",
    "python -m benchmarks complexity": "--seconds 0.02 --longest 100",
    "python -m benchmarks table1": "--jobs 1",
    "python -m benchmarks table2": "--seconds 0.02",
    "python -m benchmarks throughput": "--rounds 1 --steps 1",
}
NEEDED = {  # the pool has 18 sentences and not 1,600; nine sentences allow no small promise
    "python -m benchmarks active-learning": "--size 6 --size 12 --seed 0 --set training.epochs=1",
    "spansieve calibrate": "--miss 0.9",
}
LENGTHS = (96, 8, 8)  # of the sample corpus: enough for a filter that does not keep nearly everything
SETTINGS = {"epochs": 1, "batch_size": 8}  # of every preset
PROGRAM = """#!{python}
import sys

sys.path.insert(0, {root!r})

from pathlib import Path

from tests.docs.in_small import smaller

for module, name, value in smaller({folder!r} and Path({folder!r})):
    setattr(module, name, value)

from spansieve.cli import main

main()
"""


def is_shortened(command: str) -> bool:
    return command.startswith(tuple(f"{begin} " for begin in LESS))


def with_options(command: str, more: dict[str, str]) -> str:
    for begin, options in more.items():
        if command.startswith(f"{begin} "):
            return f"{shlex.join(shlex.split(command, comments=True))} {options}"
    return command


def smaller(folder: Path | None) -> list[tuple[Any, str, Any]]:
    """What is to be set, of which module: the shipped presets, written to the folder, with an encoder that is soon
    written to disk and one epoch; the sample corpus; and how much is measured. Without a folder, the last alone."""
    measured = [
        (service_load, "WARM_UP", 20),
        (active_learning, "LEAST_STEPS", 1),
        (plan_options, "SMALL_SETTINGS", plan_options.SMALL_SETTINGS | {"training.epochs": 1}),
    ]
    if folder is None:
        return measured
    folder.mkdir(parents=True, exist_ok=True)
    small = {}
    for name, path in config.presets().items():
        text = path.read_text(encoding="utf-8")
        for setting, value in SETTINGS.items():
            text = re.sub(rf"^{setting} = \d+$", f"{setting} = {value}", text, flags=re.MULTILINE)
        rows = "[model.builtin]\nrows = 64\n"
        text = text.replace("[model.builtin]\n", rows) if "[model.builtin]" in text else f"{text}\n{rows}"
        small[name] = folder / path.name
        small[name].write_text(text, encoding="utf-8")
    return [
        (config, "presets", lambda: small),
        (run, "draw_curves", lambda history, path: None),  # which takes longer than such a run
        (sample, "LENGTHS", LENGTHS),
        *measured,
    ]


def write_program(path: Path, folder: Path | None) -> None:
    """The command `spansieve` as a program, which has little to do with a folder for small presets."""
    place = None if folder is None else str(folder)
    path.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT), folder=place), encoding="utf-8")
    path.chmod(0o755)
