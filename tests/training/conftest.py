"""One thread, so that runs can be compared to the last bit, and no plots where nobody looks at them."""

from __future__ import annotations

import pytest

from spansieve.training import run
from tests.single_thread import one_thread as one_thread


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
