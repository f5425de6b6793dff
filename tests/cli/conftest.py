from __future__ import annotations

import pytest

from spansieve.data.formats import write_examples
from spansieve.training.run import train
from tests.cli.terminal import Terminal
from tests.single_thread import one_thread as one_thread
from tests.training import runs


@pytest.fixture
def terminal(monkeypatch, capsys):
    return Terminal(monkeypatch, capsys)


@pytest.fixture(scope="package")
def model(tmp_path_factory, one_thread):
    """A model that finds all of what it was trained on."""
    folder, settings = tmp_path_factory.mktemp("trained") / "run", runs.config(training__epochs=12, **runs.STILL)
    result = train(settings, runs.TRAIN, runs.TRAIN, folder, use_cpu=True)
    assert result.dev["micro"]["f1"] == 1
    return result.model


@pytest.fixture(scope="package")
def other_model(tmp_path_factory, one_thread):
    return runs.run(tmp_path_factory.mktemp("other") / "run", training__epochs=2, model__head="crf").model


@pytest.fixture
def corpus(tmp_path):
    """train.conll and dev.conll."""
    write_examples(runs.TRAIN, tmp_path / "train.conll")
    write_examples(runs.DEV, tmp_path / "dev.conll")
    return tmp_path
