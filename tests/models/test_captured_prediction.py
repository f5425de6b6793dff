"""Replayed predictions are those made kernel by kernel, within bounds of memory and time, of the weights as they are.

Without a GPU nothing is captured: the same run on the same inputs at a fixed place stands for its replay.
"""

from __future__ import annotations

import copy
import logging
import threading
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spansieve.config import EncoderConfig, ModelConfig
from spansieve.models import captured_prediction
from spansieve.models.captured_prediction import MIN_USES, Captured, CapturedPrediction, Shape
from spansieve.models.heads import HEADS
from spansieve.models.inference import PreparedBatch
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import TorchBackend
from spansieve.nn.cuda import graph_capture
from spansieve.prediction.predictor import Predictor
from tests.nn.tiny import bert_folder, roberta_folder
from tests.prediction.trained import EXAMPLES, trained

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
WORDS = ["in", "Paris", "Ada", "Lovelace", "word", "to", "the", "New", "York", ".", "👍🏽"]


class Rerun:
    """What stands for a recorder of CUDA graphs on a CPU."""

    bytes_each = 1 << 20
    error: Exception | None = None

    def __init__(self, device):
        self.device, self.bytes = device, 0

    def capture(self, run):
        if self.error is not None:
            raise self.error
        run()
        self.bytes += self.bytes_each
        return torch.inference_mode()(run)


@pytest.fixture(autouse=True)
def recorder(monkeypatch):
    made = type("Recorder", (Rerun,), {})
    monkeypatch.setattr(graph_capture, "MAX_LAG", inf)  # others may use the device
    if DEVICE == "cpu":
        monkeypatch.setattr(captured_prediction, "Recorder", made)
    return made


@pytest.fixture(scope="module")
def encoders(tmp_path_factory) -> dict[str, str]:
    folders = {"bert": bert_folder, "roberta": roberta_folder}
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in folders.items()}


def tagger_of(encoders, head="fsemicrf", kind="bert", **encoder) -> Tagger:
    torch.manual_seed(0)
    config = ModelConfig(head=head, hidden_size=16, encoder=EncoderConfig(name=encoders[kind], **encoder))
    return Tagger.for_data(config, EXAMPLES).eval().to(DEVICE)


def sentences_of(lengths, seed=0) -> list[list[str]]:
    random = np.random.default_rng(seed)
    return [random.choice(WORDS, length).tolist() for length in lengths]


def batch_of(tagger: Tagger, sentences) -> PreparedBatch:
    return PreparedBatch(tagger.encoder.features(sentences), np.array(list(map(len, sentences))), range(len(sentences)))


def eager_scores(tagger: Tagger, batch: PreparedBatch) -> list[torch.Tensor]:
    on_device = TorchBackend(tagger).on_device(batch)
    with torch.inference_mode():
        return [part.clone() for part in tagger.head.scores(tagger.vectors(on_device).float())]


def replayed_scores(captured: CapturedPrediction, batch: PreparedBatch, uses=MIN_USES):
    with torch.inference_mode():
        for _ in range(uses):
            found = captured._captured_for(batch, captured.tagger.device)
        if found is None:
            return None
        found.replay(batch)
        return found.scores_of(batch)[0]


def check_scores(found, expected, lengths) -> None:
    """Of the tokens, or the spans, that are within their sentence."""
    for ours, theirs in zip(found, expected, strict=True):
        for b, length in enumerate(lengths):
            for i in range(length):
                widths = slice(length - i) if ours.ndim == 4 else slice(None)
                torch.testing.assert_close(ours[b, i, widths], theirs[b, i, widths], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("head", HEADS)
def test_scores_are_those_of_the_batch_as_it_is(encoders, head):
    tagger = tagger_of(encoders, head)
    captured = CapturedPrediction(tagger, 100)
    for lengths in ([1], [9], [3, 1, 5], [2, 4, 1, 3, 3]):
        batch = batch_of(tagger, sentences_of(lengths))
        check_scores(replayed_scores(captured, batch), eager_scores(tagger, batch), lengths)


@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_of_every_encoder(encoders, kind, pooling):
    tagger = tagger_of(encoders, kind=kind, pooling=pooling, casing=True)
    captured = CapturedPrediction(tagger, 100)
    for seed in range(3):  # what the last batch has left in its place is gone
        lengths = [8 - seed, 3, 1, 1][seed:]
        batch = batch_of(tagger, sentences_of(lengths, seed))
        check_scores(replayed_scores(captured, batch), eager_scores(tagger, batch), lengths)


def test_a_batch_is_padded_to_one_of_a_few_shapes(encoders):
    tagger = tagger_of(encoders)  # of 64 positions
    captured = CapturedPrediction(tagger, 100)
    for lengths in ([1], [2], [1, 1, 1], [1] * 4):
        replayed_scores(captured, batch_of(tagger, sentences_of(lengths)))
    assert captured.shapes == [Shape(1, 16), Shape(4, 16)]
    assert captured._padded(5, 17) == Shape(8, 32)
    assert captured._padded(1, 63) == Shape(1, 64)
    assert captured._padded(1_000, 64) is None
    long = batch_of(tagger, [["word"] * 100])  # in several windows
    assert replayed_scores(captured, long) is None


def test_a_shape_is_captured_when_it_comes_again(encoders):
    tagger = tagger_of(encoders)
    captured = CapturedPrediction(tagger, 100)
    batch = batch_of(tagger, sentences_of([3]))
    assert replayed_scores(captured, batch, MIN_USES - 1) is None
    assert captured.shapes == []
    assert replayed_scores(captured, batch, 1) is not None
    assert captured.bytes > 0


@pytest.mark.parametrize("megabytes", [8, 1])
def test_memory_is_bounded(encoders, recorder, megabytes):
    tagger = tagger_of(encoders)
    recorder.bytes_each = 3 << 20
    captured = CapturedPrediction(tagger, megabytes)
    captured.warm_up(60)
    assert captured.bytes <= captured.max_bytes
    shapes = captured.shapes
    found = replayed_scores(captured, batch_of(tagger, sentences_of([3] * 99)))
    assert captured.bytes <= captured.max_bytes
    if DEVICE == "cpu":  # a GPU has room for more of so small an encoder
        assert len(shapes) == megabytes // 3
        assert found is None
        assert captured.shapes == shapes


def test_a_shape_that_takes_too_much_memory_is_left_to_the_kernels(encoders, recorder, monkeypatch):
    tagger = tagger_of(encoders)
    captured = CapturedPrediction(tagger, 1_000)
    captured.warm_up(60)
    small, large = (batch_of(tagger, sentences_of([3] * size)) for size in (1, 99))
    shapes = captured.shapes
    monkeypatch.setattr(captured, "max_bytes", captured.bytes + captured.bytes // len(shapes) + 1)
    recorder.bytes_each = captured.max_bytes
    if DEVICE == "cuda":
        monkeypatch.setattr(captured, "max_bytes", 1 << 10)
        captured.let_go()
    assert replayed_scores(captured, large) is None
    assert captured.shapes == []  # what is shared cannot be given back in part
    if DEVICE == "cpu":
        recorder.bytes_each = 1
        captured._recorder = None
        assert replayed_scores(captured, small) is not None  # but is captured anew
        assert captured._shape_of(large) is None


def test_warming_up_is_bounded_in_time(encoders):
    tagger = tagger_of(encoders)
    captured = CapturedPrediction(tagger, 100)
    captured.warm_up(0)
    assert captured.shapes == []
    captured.warm_up(60)
    assert Shape(1, 16) in captured.shapes
    batch = batch_of(tagger, sentences_of([3]))
    assert replayed_scores(captured, batch, 1) is not None


@pytest.mark.parametrize("change", ["in place", "loaded", "data", "parameter", "module"])
def test_weights_that_change_are_seen(encoders, change):
    tagger = tagger_of(encoders)
    captured, backend = CapturedPrediction(tagger, 100), TorchBackend(tagger)
    batch = batch_of(tagger, sentences_of([4, 2]))
    before = replayed_scores(captured, batch)
    assert captured.launch(backend, batch, True, None) is not None
    scorer, generator = tagger.head.scorer, torch.Generator(DEVICE).manual_seed(1)
    new = torch.randn(scorer.output.weight.shape, generator=generator, device=DEVICE)
    with torch.no_grad():
        if change == "in place":
            scorer.output.weight.copy_(new)
        elif change == "loaded":
            tagger.load_state_dict(tagger.state_dict() | {"head.scorer.output.weight": new})
        elif change == "data":
            scorer.output.weight.data = new
        elif change == "parameter":
            scorer.output.weight = torch.nn.Parameter(new)
        else:
            scorer.output = copy.deepcopy(scorer.output)
            scorer.output.weight.copy_(new)
    replayed, is_in_place = captured.launch(backend, batch, True, None), change in ("in place", "loaded")
    assert (replayed is not None) == is_in_place  # of any other change nothing is replayed
    assert captured.shapes == ([Shape(2, 16)] if is_in_place else [])
    after = replayed_scores(captured, batch)
    check_scores(after, eager_scores(tagger, batch), [4, 2])
    assert not torch.allclose(after[0][0, 0], before[0][0, 0])


def test_transitions_that_change_are_seen(encoders):
    """They are decoded with, and no part of the scores."""
    tagger = tagger_of(encoders, "crf")
    captured, batch = CapturedPrediction(tagger, 100), batch_of(tagger, sentences_of([6, 3]))
    for seed in range(4):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        with torch.no_grad():
            tagger.head.transition.copy_(
                5 * torch.randn(tagger.head.transition.shape, generator=generator, device=DEVICE)
            )
        expected = TorchBackend(tagger).launch(batch, True, None)()
        for _ in range(MIN_USES):
            launched = captured.launch(TorchBackend(tagger), batch, True, None)
        found = launched()
        for ours, theirs in zip(found.segments, expected.segments):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-4)


class HostDecoder:
    """What stands for a decoder on the device: it decodes on the host, with the arrays at the places it was given."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def slots(self, keeps_scratch):
        return SimpleNamespace(task=SimpleNamespace(), numbers=np.zeros(99, np.int32), shape=(0, 0), found=None)

    def launch(self, slots, scores, lengths, with_probabilities):
        assert slots.task.transition
        slots.shape = (len(lengths), 0)
        self.lengths = np.maximum(lengths.numpy(), 1)  # rows that only fill the batch have no token
        found = self.tagger.head.decoder()([part.numpy() for part in scores], self.lengths, with_probabilities)
        is_real = found.segments.sentence < np.count_nonzero(lengths.numpy())
        slots.found = found._replace(segments=found.segments.where(is_real), probabilities=found.probabilities[is_real])

    def read(self, slots, lengths):
        return slots.found


def test_a_result_is_read_before_the_next_replay_overwrites_it(encoders):
    tagger = tagger_of(encoders).cpu()
    tagger.head.scorer.output.bias.data[1] += 2  # something is found
    captured = Captured(tagger, Shape(4, 48), HostDecoder(tagger))
    assert captured.by(Rerun(tagger.device))
    batches = [batch_of(tagger, sentences_of(lengths, seed)) for seed, lengths in enumerate([[4, 2, 5], [3], [1, 5]])]
    replays = [captured.replay(batch) for batch in batches]
    for batch, replay in zip(batches, replays):
        found, expected = replay.result(), TorchBackend(tagger).launch_kernels(batch, True, None)()
        assert len(expected.segments.start) > 0
        for ours, theirs in zip(found.segments, expected.segments):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-4)
    replay = captured.replay(batches[0])
    captured._slots.numbers[1] = -1  # a sentence that was not decoded there
    assert replay.result() is None


def test_what_cannot_be_captured_is_said_once(encoders, recorder, monkeypatch, caplog):
    tagger = tagger_of(encoders)
    captured = CapturedPrediction(tagger, 100)
    if DEVICE == "cuda":
        forward = type(tagger.encoder).forward

        def with_a_look(self, features):
            vectors = forward(self, features)
            return vectors + 0 * float(vectors.sum())

        monkeypatch.setattr(type(tagger.encoder), "forward", with_a_look)
    else:
        recorder.error = RuntimeError("operation not permitted when stream is capturing\nmore")
    batch = batch_of(tagger, sentences_of([4]))
    with caplog.at_level(logging.WARNING):
        assert replayed_scores(captured, batch, 2 * MIN_USES) is None
        assert replayed_scores(captured, batch_of(tagger, sentences_of([4] * 3)), 2 * MIN_USES) is None
    (record,) = caplog.records
    assert "the encoder cannot be captured as a CUDA graph; it is run kernel by kernel" in record.message
    assert "more" not in record.message
    check_scores(eager_scores(tagger, batch), eager_scores(tagger, batch), [4])  # the device is as it was
    if DEVICE == "cuda":
        torch.cuda.empty_cache()  # and so is the memory that torch has of it
        torch.rand(1, device=DEVICE)


def test_the_builtin_encoder_is_run_kernel_by_kernel():
    tagger = trained().tagger.to(DEVICE)
    captured = CapturedPrediction(tagger, 100)
    captured.warm_up(1)
    assert replayed_scores(captured, batch_of(tagger, sentences_of([4]))) is None


def test_a_copy_has_nothing_captured(encoders):
    predictor = Predictor(tagger_of(encoders), cuda_graph_megabytes=100)
    replayed_scores(predictor.captured, batch_of(predictor.tagger, sentences_of([4])))
    assert predictor.captured.shapes
    assert copy.deepcopy(predictor).captured.shapes == []


def test_under_autocast_nothing_is_replayed(encoders):
    tagger = tagger_of(encoders)
    captured, batch = CapturedPrediction(tagger, 100), batch_of(tagger, sentences_of([4]))
    assert replayed_scores(captured, batch) is not None
    with torch.autocast(DEVICE, torch.bfloat16):
        assert replayed_scores(captured, batch) is None


def test_the_bound_of_memory_is_checked(encoders):
    tagger = tagger_of(encoders)
    with pytest.raises(ValueError, match="cuda_graph_megabytes must be at least 0, got -1"):
        Predictor(tagger, cuda_graph_megabytes=-1)
    assert Predictor(tagger, cuda_graph_megabytes=0).captured is None
    assert Predictor(tagger, cuda_graph_megabytes=1).captured.max_bytes == 1 << 20


@needs_gpu
@pytest.mark.parametrize("head", HEADS)
def test_entities_are_those_without_graphs(encoders, head):
    predictor = trained(head, EncoderConfig(name=encoders["bert"]), steps=40)
    tagger = predictor.tagger.to(DEVICE)
    plain, replayed = Predictor(tagger, cuda_graph_megabytes=0), Predictor(tagger, cuda_graph_megabytes=256)
    texts = [" ".join(example.tokens) for example in EXAMPLES]
    for some in [[text] for text in texts] + [texts[:3], texts]:
        expected = plain.predict(some)
        for _ in range(MIN_USES + 2):
            found = replayed.predict(some)
            assert [[e[:4] for e in own] for own in found] == [[e[:4] for e in own] for own in expected]
            probabilities = [[e.probability for own in each for e in own] for each in (found, expected)]
            assert probabilities[0] == pytest.approx(probabilities[1], abs=1e-4)
    assert len(replayed.captured.shapes) >= 3


@needs_gpu
def test_threads_share_what_is_captured(encoders):
    tagger = tagger_of(encoders)
    plain, shared, other = (Predictor(tagger, cuda_graph_megabytes=most) for most in (0, 256, 256))
    texts = [" ".join(words) for words in sentences_of([3, 9, 5, 1, 7, 9, 2, 12])]
    expected = [[e[:4] for e in plain.predict(text)] for text in texts]
    wrong, rounds = [], []

    def work(predictor, own):
        for _ in range(30):
            for i in own:
                if [e[:4] for e in predictor.predict(texts[i])] != expected[i]:
                    wrong.append(i)
            rounds.append(own)

    jobs = [(shared, range(0, 8, 2)), (shared, range(8)), (other, range(8))]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(rounds) == 30 * len(jobs)
    assert shared.captured.shapes
    assert other.captured.shapes
