"""What is attempted in a child, and which errors it may have."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import torch

from spansieve.data.example import DataError
from spansieve.data.formats import read_examples
from spansieve.decoding.constraints import Constraints
from spansieve.models.storage import load_model, save_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.manifest import ModelError
from spansieve.prediction import onnx
from spansieve.training.run_folder import TrainingError
from tests.hostile.children import permitted
from tests.hostile.requests import hostile_requests
from tests.serving.running import running
from tests.serving.tiny import trained
from tests.training import runs

SENTENCES = [["Ada", "works", "in", "New", "York", "."], ["Bob"], ["x"] * 30]
DOCUMENTED = {200, 400, 408, 409, 413, 415, 422, 429}  # a request that fails otherwise is the service's fault


def prepare() -> None:
    """Prepare the process that forks: threads do not survive that."""
    import accelerate  # noqa: F401
    import matplotlib.figure  # noqa: F401

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def model(folder: str) -> tuple[str, str]:
    """Load a model, and predict with it."""

    def attempt() -> None:
        tagger = load_model(folder)
        predict_segments(tagger, SENTENCES, with_probabilities=True)
        known = [Constraints(forbidden=[(0, 1)]), None, None]
        predict_segments(tagger, SENTENCES, constraints=known)

    return permitted((ModelError,), attempt)


def export(folder: str) -> tuple[str, str]:
    """Load an export, and predict with it."""
    return permitted((ModelError,), lambda: onnx.load(folder, threads=1).predict_tokens(SENTENCES, probabilities=True))


def resume(folder: str) -> tuple[str, str]:
    """Go on with a run."""
    return permitted((ModelError, TrainingError), lambda: runs.run(Path(folder), resume=True))


def data_file(path: str, format: str) -> tuple[str, str]:
    """Read a data file."""
    return permitted((DataError,), lambda: read_examples(path, format))


def wide_model(folder: str, head: str, features: str, max_width: int) -> tuple[str, str]:
    """Save, load and use a model of segments of any width."""

    def attempt() -> None:
        settings = {"model__head": head, "model__features": features, "model__max_width": max_width}
        save_model(Tagger.for_data(runs.config(**settings).model, runs.TRAIN), Path(folder) / "model")
        tagger = load_model(Path(folder) / "model")
        predict_segments(tagger, SENTENCES * 100, with_probabilities=True)

    return permitted((), attempt)


def without_descriptors(folder: str, kind: str) -> tuple[str, str]:
    """Load a model or an export while no file can be opened, and again when some can."""
    load: Callable[[str], object] = load_model if kind == "model" else lambda path: onnx.load(path, threads=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held, outcomes = [], []
    with suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    for freed in (0, 1, 1, 1, 2, 4, 40):
        for _ in range(freed):
            os.close(held.pop())
        outcomes.append(permitted((ModelError, OSError), lambda: load(folder)))
    wrong = [outcome for outcome in outcomes if outcome[0] == "wrong"]
    if wrong or outcomes[-1][0] != "done" or outcomes[0][0] != "refused":
        return "wrong", str(wrong or outcomes)
    return "refused", outcomes[0][1]


def requests(seed: int, count: int) -> tuple[str, str]:
    """Send requests to the service, none of which may be answered in a way that is not documented; then a good one."""
    with running(trained()) as service:
        for name, content in hostile_requests(seed, count):
            headers = {"Content-Type": "application/json"}
            try:
                status = service.client.post("/predict", content=content, headers=headers).status_code
            except httpx.NetworkError:  # refused before it was read
                if len(content) <= 1_000_000:
                    raise
                continue
            if status not in DOCUMENTED:
                return "wrong", f"{name}: {status}"
        answer = service.client.post("/predict", json={"texts": ["we went to Paris yesterday"]})
        return ("done", "") if answer.status_code == 200 else ("wrong", f"a good request: {answer.status_code}")


ACTIONS: dict[str, Callable[..., tuple[str, str]]] = {
    action.__name__: action for action in (model, export, resume, data_file, wide_model, without_descriptors, requests)
}
