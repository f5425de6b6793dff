import pytest

from spansieve.prediction.predictor import Predictor
from tests.prediction.trained import trained
from tests.single_thread import one_thread as one_thread


@pytest.fixture(scope="package")
def predictor(one_thread) -> Predictor:
    return trained()
