from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spansieve.models.storage import save_model
from spansieve.models.tagger import Tagger
from spansieve.prediction.onnx.export import export_model
from tests.hostile.children import Children
from tests.single_thread import one_thread as one_thread
from tests.training import runs
from tests.training.encoders import tiny_encoder


@pytest.fixture(scope="package")
def children(request):
    """Attempts in children; at the end it is shown how many they were, and what they took at most."""
    started = Children()
    yield started
    started.close()
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nhostile: {started.summary()}")
    (Path(request.config.rootpath) / "build").mkdir(exist_ok=True)
    with (Path(request.config.rootpath) / "build" / "hostile.txt").open("a") as file:
        print(started.summary(), file=file)


def tagger(**settings) -> Tagger:
    torch.manual_seed(0)
    return Tagger.for_data(runs.config(**settings).model, runs.TRAIN).eval()


@pytest.fixture(scope="package")
def builtin(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("builtin") / "model"
    save_model(tagger(model__features="mean", model__skip=True, model__labels_per_span=2), folder)
    return folder


@pytest.fixture(scope="package")
def encoder(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("encoder")
    save_model(tagger(model__encoder__name=str(tiny_encoder(home / "bert"))), home / "model")
    return home / "model"


@pytest.fixture(scope="package")
def words(one_thread, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("words") / "export"
    export_model(tagger(model__head="semicrf", model__max_width=3), folder)
    return folder


@pytest.fixture(scope="package")
def subwords(one_thread, tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("subwords")
    export_model(tagger(model__encoder__name=str(tiny_encoder(home / "bert"))), home / "export")
    return home / "export"


@pytest.fixture(scope="package")
def run(one_thread, tmp_path_factory) -> Path:
    """A run that was interrupted: two checkpoints, and no result."""
    folder = tmp_path_factory.mktemp("run") / "run"
    runs.run(folder)
    (folder / "results.json").unlink(missing_ok=True)
    return folder
