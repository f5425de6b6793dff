"""A long text: others have their turn while it is read, and it is given up when nobody waits for it any more."""

from __future__ import annotations

import json
import threading
import time

import pytest

from spansieve.data.tokenizer import tokens_of_text
from spansieve.models.inference import between_batches
from spansieve.models.torch_backend import TorchBackend
from spansieve.prediction.onnx.export import export_model
from spansieve.prediction.onnx.onnx_predictor import OnnxBackend, load
from spansieve.serving import schema
from spansieve.serving.limits import Limits
from spansieve.serving.queue import Batcher, Metrics, State, Task
from spansieve.serving.worker import Worker
from tests.serving.running import problem, running, until

SENTENCE = "we went to Paris yesterday\n\n"
SENTENCES = 600  # a batch each
SECONDS_EACH = 0.005


@pytest.fixture(scope="module")
def exported(predictor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_model(predictor.tagger, folder)
    return folder


@pytest.fixture(params=["torch", "onnx"])
def slow(request, predictor, exported, monkeypatch):
    """A predictor that reads sentence by sentence and takes its time for each, and the number of those so far."""
    if request.param == "onnx":
        model, backend = load(exported, threads=1, batch_tokens=1), OnnxBackend
    else:
        model, backend = type(predictor)(predictor.tagger, batch_tokens=1), TorchBackend
    launched: list[int] = []
    launch = backend.launch

    def slow_launch(self, batch, *options):
        launched.append(len(batch.lengths))
        time.sleep(SECONDS_EACH)
        return launch(self, batch, *options)

    monkeypatch.setattr(backend, "launch", slow_launch)
    return model, launched


def test_a_batch_past_its_time_is_given_up_between_sentences(slow):
    model, launched = slow
    with running(lambda: model, seconds=0.5) as served:
        launched.clear()
        problem(served.predict(SENTENCE * SENTENCES), 504, "too_slow")
        begin = time.monotonic()
        until(lambda: served.predict("word").status_code == 200)
        assert len(launched) < SENTENCES / 2
        assert time.monotonic() - begin < SENTENCES * SECONDS_EACH / 2
        assert "spansieve_failed_texts_total 0.0" in served.client.get("/metrics").text


def test_an_answer_becomes_json_piece_by_piece(predictor, monkeypatch):
    """None of its pieces holds up the other threads for long."""
    pieces: list[int] = []
    whole = schema.ResponseModel.model_dump_json

    def piece(self):
        pieces.append(len(whole(self)))
        return whole(self)

    monkeypatch.setattr(schema.ResponseModel, "model_dump_json", piece)
    (answer,) = Worker(predictor, Metrics())([Task(SENTENCE * 100, alternatives=2, graph=True)])
    assert len(pieces) == 200  # an entity and a sentence each
    assert 50 * max(pieces) < len(answer)


def test_others_have_their_turn_while_a_long_text_is_read(slow):
    model, launched = slow
    with running(lambda: model, batch_characters=len(SENTENCE) * SENTENCES // 2) as served:
        launched.clear()
        long: list = []
        thread = threading.Thread(target=lambda: long.append(served.predict(SENTENCE * SENTENCES, "word")))
        thread.start()
        until(lambda: len(launched) > 5)
        for _ in range(3):
            assert served.results("we went to Paris yesterday")[0]["entities"]
            assert len(launched) < SENTENCES
        thread.join(60)
        first, second = long[0].json()["results"]
        assert len(first["entities"]) == SENTENCES
        assert second["entities"] == []


def test_a_request_that_is_being_read_has_no_turn_of_its_own(slow):
    """Its texts are answered in their order."""
    model, _ = slow
    batcher = Batcher(lambda: Worker(model, Metrics()), Limits(batch_characters=300), Metrics())
    batcher.start()
    until(lambda: batcher.state is State.READY)
    texts = [SENTENCE * 100, "word", SENTENCE, "", SENTENCE * 2]
    job = batcher.submit([Task(text) for text in texts])
    assert [len(json.loads(result)["entities"]) for result in job.future.result(30)] == [100, 0, 1, 0, 2]
    batcher.close(20)


def test_what_is_called_between_batches_may_give_up(predictor):
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    model = type(predictor)(predictor.tagger, batch_tokens=1)
    with between_batches(call), pytest.raises(TimeoutError):
        model.predict(SENTENCE * 9)
    assert len(model.predict(SENTENCE * 9)) == 9
    assert len(calls) == 3


def test_sentences_that_are_explained_go_a_few_at_a_time(predictor):
    calls: list[int] = []
    text = SENTENCE * 200  # 1,000 tokens: one batch, were they not explained
    with between_batches(lambda: calls.append(1)):
        (answer,) = Worker(predictor, Metrics())([Task(text, alternatives=2)])
    assert len(calls) >= 5
    result = schema.Result.model_validate_json(answer)
    assert answer == result.model_dump_json()
    assert all(one.alternatives and one.entropy is not None for one in result.sentences)
    assert len(result.sentences) == 200
    assert len(result.entities) == 200


def test_others_have_their_turn_while_a_long_text_is_cut_into_tokens(predictor):
    calls: list[int] = []
    seen: list[int] = []  # calls while the text was being cut

    def slow_tokenizer(text):
        time.sleep(0.5)
        seen.append(len(calls))
        return tokens_of_text(text)

    model = type(predictor)(predictor.tagger, tokenizer=slow_tokenizer)
    with between_batches(lambda: calls.append(1)):
        Worker(model, Metrics())([Task(SENTENCE * 1_200)])
    assert seen[0] >= 3
