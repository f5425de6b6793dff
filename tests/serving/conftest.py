from __future__ import annotations

import pytest

from spansieve.prediction.predictor import Predictor
from tests.serving.running import Running, running
from tests.serving.tiny import trained
from tests.single_thread import one_thread as one_thread


@pytest.fixture(scope="package")
def predictor(one_thread) -> Predictor:
    return trained()


@pytest.fixture(scope="package")
def server(predictor):
    """With the usual limits, for tests that leave it as they found it."""
    with running(predictor) as served:
        yield served


__all__ = ["Running"]
