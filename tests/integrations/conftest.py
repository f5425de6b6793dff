import pytest

from spansieve.models.storage import save_model
from spansieve.prediction.predictor import Predictor
from tests.prediction.trained import trained
from tests.single_thread import one_thread as one_thread


@pytest.fixture(scope="package")
def predictor(one_thread) -> Predictor:
    return trained()


@pytest.fixture(scope="package")
def folder(predictor, tmp_path_factory):
    """The model on disk."""
    place = tmp_path_factory.mktemp("stored") / "model"
    save_model(predictor.tagger, place, "a card")
    return place
