"""A corpus of a few sentences for the experiments, and settings with which a run takes a moment."""

from __future__ import annotations

import pytest

from benchmarks.experiment import Splits
from spansieve.data.formats import write_examples
from tests.training.runs import DEV, SMALL, TRAIN

SPLITS = Splits(tuple(TRAIN), tuple(DEV), tuple(DEV))
FAST = SMALL | {"training.epochs": 1}
FLAGS = [part for name, value in FAST.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{name}.jsonl" for name in ("train", "dev", "test")]
    for path, examples in zip(paths, SPLITS):
        write_examples(examples, path)
    return [str(path) for path in paths]
