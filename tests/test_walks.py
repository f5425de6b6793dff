"""The walks of CONTRIBUTING.md are the files that run."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import torch

from spansieve.config import preset, with_settings
from spansieve.crf import FilteredSemiMarkov
from spansieve.data.formats import write_examples
from spansieve.models.storage import save_model
from tests.cli.conftest import terminal as terminal
from tests.prediction.trained import trained_pretrained
from tests.serving.running import running
from tests.training import runs

ROOT = Path(__file__).parents[1]
HOME = str(ROOT / "src" / "spansieve") + "/"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAX_FILES = 15
# Beside the way from a text to its entities: what any head has, and the compiled code behind the scores and the sums.
BESIDE = {
    *("models/head.py", "crf/losses.py", "nn/span_hidden_layer.py"),
    *("crf/kernels/__init__.py", "crf/kernels/cpu/jit.py", "crf/kernels/cpu/filtered_sweeps.py"),
}
# What a command does before and after: options and output, loading, checks, compiling.
OF_COMMAND = {
    *("_lazy.py", "cli/__init__.py", "cli/inputs.py", "cli/options.py", "config.py", "segments.py"),
    *("integrations/hub.py", "persistence/atomic.py", "persistence/manifest.py", "models/storage.py"),
    *("prediction/onnx/folder.py", "models/heads.py", "models/filtered.py", "nn/encoder.py"),
    "models/captured_prediction.py",  # which is for a GPU
    *("decoding/constraints.py", "decoding/coverage.py", "decoding/prediction.py"),
    *("data/alignment.py", "data/formats/files.py", "data/formats/jsonl.py"),
    "crf/kernels/cpu/simd.py",
}


def walk(title: str) -> list[str]:
    """The files of the walk under a bold title."""
    text = CONTRIBUTING.split(f"**{title}")[1].split("\n**")[0].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)


def files_run(action: Callable[[], object]) -> set[str]:
    """Run, and return the files of the package that had a function called, in any thread that starts meanwhile."""
    files: set[str] = set()

    def note(frame, event, _) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
            files.add(code.co_filename[len(HOME) :])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    return trained_pretrained(tmp_path_factory.mktemp("walks"))


def test_predict(terminal, predictor, tmp_path):
    save_model(predictor.tagger, tmp_path / "model")
    expected = walk("`spansieve predict MODEL TEXT`**")
    files = files_run(lambda: terminal("predict", str(tmp_path / "model"), "we went to Paris"))
    assert len(expected) <= MAX_FILES
    assert set(expected) <= files
    assert files - set(expected) <= BESIDE | OF_COMMAND


def test_predict_by_a_loaded_model(predictor):
    predictor.predict("we met")  # which imports, and may compile
    files = files_run(lambda: predictor.predict("we went to Paris"))
    assert files == {*walk("`spansieve predict MODEL TEXT`**"), *BESIDE} - {"cli/predict.py"}


def test_train(tmp_path, terminal):
    for name, examples in (("train", runs.TRAIN), ("dev", runs.DEV)):
        write_examples(examples, tmp_path / f"{name}.jsonl")
    config = with_settings(preset("builtin"), {"training.epochs": 1})
    assert config.model.head == "fsemicrf"
    paths = [str(tmp_path / f"{name}.jsonl") for name in ("train", "dev")]
    files = files_run(lambda: terminal("train", *paths, "--output", str(tmp_path / "run"), "--epochs", "1"))
    expected = walk("`spansieve train TRAIN DEV`**")
    assert len(expected) <= MAX_FILES
    assert set(expected) <= files


def test_a_request(predictor):
    expected = walk("A request to `spansieve serve`**")

    def request() -> None:
        with running(predictor) as service:
            answer = httpx.post(f"{service.address}/predict", json={"texts": ["we went to Paris"], "alternatives": 2})
            assert answer.status_code == 200

    assert set(expected) <= files_run(request)
    assert len(expected) <= MAX_FILES


def test_log_partition():
    torch.manual_seed(0)
    local_scores, global_scores = torch.randn(2, 2, 6, 3, 4)
    inputs = (local_scores, global_scores, torch.zeros(4, 4), torch.tensor([6, 4]))
    files = files_run(lambda: FilteredSemiMarkov.from_scores(*inputs).log_partition)
    expected = walk("`FilteredSemiMarkov.from_scores(…).log_partition`**")
    assert set(expected) <= files
    compiling = {"_lazy.py", "crf/kernels/cpu/jit.py", "crf/kernels/cpu/simd.py"}
    assert files - set(expected) <= {"crf/candidates.py", "crf/validation.py", *compiling}
