"""One thread, so that runs can be compared to the last bit, and no plots where nobody looks at them."""

from __future__ import annotations

import pytest
import torch

from spansieve.training import run


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def no_curves(request, monkeypatch):
    if "curves" not in request.fixturenames:
        monkeypatch.setattr(run, "draw_curves", lambda history, path: None)


@pytest.fixture
def curves():
    """Draw them."""


@pytest.fixture(scope="package")
def unbroken(tmp_path_factory, one_thread):
    """The folder of a run that nothing happened to, and that nobody changes."""
    from tests.training.runs import run as train

    folder = tmp_path_factory.mktemp("unbroken") / "run"
    train(folder)
    return folder
