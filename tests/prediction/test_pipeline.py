"""The pipeline finds what a predictor finds, however the work is divided."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from spansieve.config import EncoderConfig
from spansieve.crf import filtered_semi_markov
from spansieve.data import block_tokenizer
from spansieve.data.overlap_resolution import depths
from spansieve.models.heads import HEADS
from spansieve.models.torch_backend import TorchBackend
from spansieve.nn.pretrained_encoder import VERSION, PretrainedEncoder
from spansieve.prediction import feature_workers
from spansieve.prediction.feature_workers import Prepared
from spansieve.prediction.pipeline import ChunkOfTexts, Pipeline
from spansieve.prediction.predictor import Predictor
from tests.data.blank_tokenizer import cut_at_blanks
from tests.nn.tiny import bert_folder, roberta_folder
from tests.prediction import trained as training

trained = functools.cache(training.trained)
TEXTS = [
    "we went to Paris yesterday",
    "",
    "word. " * 30 + "in القاهرة today",
    "Ada  Lovelace lives in New\nYork .  Then we went to Paris. \n\n Ada Lovelace",
    "\u200b \n",
    "Cafe\u0301 Paris 👍🏽 Ada Lovelace \ud800 Paris",
] * 4


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(feature_workers, "TEXTS_IN_CHUNK", 5)


@pytest.fixture
def packed(monkeypatch):
    """Candidates are packed on the device: on a GPU where there is one, otherwise as if the CPU were one."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(filtered_semi_markov, "kernel_for", lambda scores: kernels_cuda())
        monkeypatch.setattr(TorchBackend, "__init__", as_on_device(TorchBackend.__init__))
    return "cuda" if torch.cuda.is_available() else "cpu"


def as_on_device(make):
    def init(self, *arguments, **options):
        make(self, *arguments, **options)
        self.depth = 3

    return init


def kernels_cuda():
    return pytest.importorskip("spansieve.crf.kernels.cuda", reason="needs Triton", exc_type=ImportError)


def pipeline(predictor: Predictor, device: str = "cpu", **options) -> Pipeline:
    return Pipeline(copy.deepcopy(predictor.tagger).to(device), **options)


def check_equal(found, expected):
    """Exactly, but for the last digits of probabilities: sums over batches of other shapes round otherwise."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert [entity[:4] for entity in ours] == [entity[:4] for entity in theirs]
        assert [entity.probability for entity in ours] == pytest.approx(
            [entity.probability for entity in theirs], abs=1e-5
        )


@pytest.mark.parametrize("head", HEADS)
def test_every_model_finds_what_a_predictor_finds(head, small_chunks):
    predictor = trained(head)
    expected = predictor.predict(TEXTS)
    assert sum(map(len, expected)) > 30
    with pipeline(predictor, batch_tokens=64) as made:
        found = list(made.stream(iter(TEXTS)))
    assert [text for text, _ in found] == TEXTS
    check_equal([entities for _, entities in found], expected)


@pytest.mark.parametrize("head", ["semicrf", "nested"])
def test_a_threshold(head, small_chunks):
    with pipeline(trained(head, steps=25)) as made:
        found = [entities for _, entities in made.stream(TEXTS)]
        every = sorted({entity.probability for entities in found for entity in entities})
        middle = every[len(every) // 2]
        above = [entities for _, entities in made.stream(TEXTS, threshold=middle)]
        bare = [entities for _, entities in made.stream(TEXTS, probabilities=False, threshold=middle)]
        with pytest.raises(ValueError, match="threshold must be a probability from 0 to 1, got 2"):
            list(made.stream(TEXTS, threshold=2))
    assert 0 < sum(map(len, above)) < sum(map(len, found))
    likely = [[entity for entity in entities if entity.probability >= middle] for entities in found]
    assert above == [[entity._replace(depth=d) for entity, d in zip(own, depths(own))] for own in likely]
    assert bare == [[entity._replace(probability=None) for entity in own] for own in above]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_packed_candidates_give_the_same(head, batch_tokens, request):
    predictor = trained(head)
    expected = predictor.predict(TEXTS)
    device = request.getfixturevalue("packed")
    with pipeline(predictor, device, batch_tokens=batch_tokens) as made:
        check_equal([entities for _, entities in made.stream(TEXTS)], expected)


def test_other_processes_prepare_the_same_and_if_one_dies_nobody_waits_for_it(predictor, small_chunks):
    before = shared_bytes()
    with pipeline(predictor, workers=2) as made:
        slots = made.prepared._free
        num_slots = len(slots)
        processes = made.prepared._pool._processes
        assert len(processes) == 2  # both, before there is any work
        for texts in (TEXTS, [], TEXTS[:1], TEXTS * 10):  # one after the other, by the same processes
            found = [entities for _, entities in made.stream(texts)]
            check_equal(found, predictor.predict(texts))
            assert len(slots) == num_slots  # what held memory is gone, and gave it back
        held = [prepared for _, prepared in made.prepared(TEXTS * 3)]  # more than there are slots
        assert len(slots) == 0
        for ours, (_, theirs) in zip(held, made.prepared(TEXTS * 3)):
            check_prepared(ours, theirs)
        stream = made.stream(TEXTS * 10)
        next(stream)
        stream.close()
        del held, ours, theirs, stream
        wait_until(lambda: len(slots) == num_slots)
        assert before < shared_bytes() < before + num_slots * feature_workers.BYTES_OF_CHUNK + (1 << 20)
        os.kill(next(iter(processes)), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="try with fewer workers"):
            for _ in made.stream(itertools.repeat(TEXTS[0])):  # until it is noticed
                pass
    assert shared_bytes() == before
    with pytest.raises(RuntimeError, match=r"texts must be given before close\(\)"):
        list(made.stream(TEXTS))


def test_what_does_not_fit_into_a_slot_goes_through_the_pipe(predictor, small_chunks, monkeypatch):
    monkeypatch.setattr(feature_workers, "BYTES_OF_CHUNK", 4_000)
    with pipeline(predictor, workers=1) as made:
        sizes = [sum(array.nbytes for array in prepared[1:]) for _, prepared in made.prepared(TEXTS)]
        assert min(sizes) < 4_000
        check_equal([entities for _, entities in made.stream(TEXTS)], predictor.predict(TEXTS))
        assert len(made.prepared._free) == 1 + feature_workers.CHUNKS_AHEAD + feature_workers.CHUNKS_IN_USE


def test_a_tokenizer_of_ones_own_in_other_processes(predictor, small_chunks):
    expected = Predictor(predictor.tagger, cut_at_blanks).predict(TEXTS)
    with pipeline(predictor, workers=1, tokenizer=cut_at_blanks) as made:
        check_equal([entities for _, entities in made.stream(TEXTS)], expected)
        with pytest.raises(ValueError, match="a tokenizer's tokens must be in order"):
            list(made.stream([*TEXTS, "backwards"]))
        check_equal([entities for _, entities in made.stream(TEXTS)], expected)  # the others go on


def check_prepared(ours, theirs):
    for one, other in zip(ours[1:], theirs[1:]):
        np.testing.assert_array_equal(one, other)
    assert len(ours.batches) == len(theirs.batches)
    for one, other in zip(ours.batches, theirs.batches):
        assert one.features.keys() == other.features.keys()
        for name in one.features:
            np.testing.assert_array_equal(one.features[name], other.features[name])


def shared_bytes() -> int:
    """What this process shares with others, in files of no name; 0 where the system does not say."""
    if not sys.platform.startswith("linux"):
        return 0
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "/pym-" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in (line[0].split("-") for line in lines))


def wait_until(is_true):
    until = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_is_known_of_words_has_a_limit(predictor, small_chunks, monkeypatch):
    monkeypatch.setattr(block_tokenizer, "MAX_WORDS", 3)
    with pipeline(predictor) as made:
        check_equal([entities for _, entities in made.stream(TEXTS)], predictor.predict(TEXTS))
        assert made.preparer.tokenizer.is_full
        assert len(made.preparer.tokenizer.words) < 30


def test_without_probabilities(predictor, request):
    expected = predictor.predict(TEXTS, probabilities=False)
    for fixture in ("small_chunks", "packed"):
        device = request.getfixturevalue(fixture) or "cpu"
        with pipeline(predictor, device) as made:
            assert [entities for _, entities in made.stream(TEXTS, probabilities=False)] == expected


def test_a_text_as_one_sequence(predictor):
    with pipeline(predictor, sentences=False) as made:
        found = [entities for _, entities in made.stream(TEXTS)]
    check_equal(found, predictor.predict(TEXTS, sentences=False))


def test_entities_that_are_let_go_are_no_work_for_the_garbage_collector():
    columns = (np.arange(20_000) // 10, *np.zeros((2, 20_000), np.int64), np.ones(20_000, np.int64))
    chunk = ChunkOfTexts(["x"] * 2_000, Prepared([], *columns), ("", "a"), False, 0.0)
    chunk._columns.append(columns)
    gc.collect()
    before = [generation["collections"] for generation in gc.get_stats()]
    assert sum(len(entities) for _, entities in chunk.entities()) == 20_000
    assert [generation["collections"] for generation in gc.get_stats()][1:] == before[1:]


def test_half_precision_changes_little(predictor):
    with pipeline(predictor, precision="bf16") as made:
        assert {p.dtype for p in made.backend.tagger.encoder.parameters()} == {torch.bfloat16}
        assert {p.dtype for p in made.backend.tagger.head.parameters()} == {torch.float32}
        found = [entities for _, entities in made.stream(TEXTS)]
    for ours, theirs in zip(found, predictor.predict(TEXTS)):
        assert [entity[:4] for entity in ours] == [entity[:4] for entity in theirs]
        assert all(abs(a.probability - b.probability) < 0.1 for a, b in zip(ours, theirs))


def test_a_stream_is_read_as_it_is_used(predictor, small_chunks):
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield "we went to Paris"

    with pipeline(predictor) as made:
        stream = made.stream(endless())
        assert next(stream)[0] == "we went to Paris"
        assert len(taken) < 100
        stream.close()


def test_nonsense_is_refused(predictor):
    with pytest.raises(ValueError, match="workers must be at least 0, got -1"):
        pipeline(predictor, workers=-1)
    with pytest.raises(ValueError, match="precision must be one of fp32, bf16, got 'int2'"):
        pipeline(predictor, precision="int2")
    with pytest.raises(ValueError, match="batch_tokens must be at least 1"):
        pipeline(predictor, batch_tokens=0)
    with pipeline(predictor) as made:
        with pytest.raises(TypeError, match="texts must be several strings"):
            list(made.stream("Paris"))
        with pytest.raises(TypeError, match="a text must be a string, got NoneType"):
            list(made.stream(["Paris", None]))


# ---- What the encoder reads, without it ------------------------------------------------------------------------------

ODD = [
    ["Paris"],
    ["the", "London", "paris.london", "\u200b", "a-b", "Ünï", "\ufffd", "don't"],
    ["the"] * 90,
    ["[MASK]", "x"],
]


def numbered(sentences):
    """The distinct words of sentences, the number of each token's, and the lengths."""
    words = sorted({word for sentence in sentences for word in sentence})
    flat = [words.index(word) for sentence in sentences for word in sentence]
    return words, np.array(flat), np.array([len(sentence) for sentence in sentences])


def check_reader(reader, encoder):
    for sentences in (ODD[:1], ODD, ODD[::-1]):
        reader.clear()
        words, word, lengths = numbered(sentences)
        for part in (words[:2], words[2:]):  # as they come, chunk by chunk
            reader.learn(part)
        expected, found = encoder.features(sentences), reader.features(word, lengths)
        assert found.keys() == expected.keys()
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name].numpy())
        num_special = reader.sizes(word, lengths) - encoder.sizes(sentences)
        assert set(num_special.tolist()) == {2 if encoder.is_pretrained else 0}  # one more at either end


@pytest.mark.parametrize("casing", [False, True])
@pytest.mark.parametrize("folder_of", [bert_folder, roberta_folder])
def test_a_reader_reads_what_the_encoder_would(folder_of, casing, tmp_path):
    encoder = PretrainedEncoder(EncoderConfig(name=folder_of(tmp_path / "encoder"), casing=casing))
    check_reader(pickle.loads(pickle.dumps(encoder.reader())), encoder)


def test_the_reader_of_the_builtin_encoder():
    encoder = trained().tagger.encoder
    check_reader(pickle.loads(pickle.dumps(encoder.reader())), encoder)


@pytest.mark.parametrize("folder_of", [bert_folder, roberta_folder])
def test_a_ready_mask_masks_the_same(folder_of, tmp_path):
    encoder = PretrainedEncoder(EncoderConfig(name=folder_of(tmp_path / "encoder"))).eval()
    if VERSION < (5, 0):
        assert not encoder.takes_ready_masks
        pytest.skip("needs transformers 5")
    assert encoder.takes_ready_masks
    features = encoder.features(ODD)
    with torch.inference_mode():
        ready = encoder(features | {"attention_mask": features["attention_mask"].bool()[:, None, None, :]})
        torch.testing.assert_close(ready, encoder(features))


def test_texts_are_prepared_without_torch():
    code = "import spansieve.prediction.feature_workers, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


ORPHAN = """
import time
from spansieve.data.tokenizer import tokens_of_text
from spansieve.nn.word_features import WordFeatures, WordReader
from spansieve.prediction.feature_workers import Preparer, PreparedAhead

if __name__ == "__main__":
    ahead = PreparedAhead(Preparer(WordReader(WordFeatures(64)), tokens_of_text, True, 100, 10), 1)
    list(ahead(["we went to Paris"]))
    print(*ahead._pool._processes, flush=True)
    time.sleep(60)
"""


def test_no_process_outlives_a_parent_that_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(ORPHAN)
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    os.kill(child, 0)  # it is there
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if "Z" in state_of(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the process is still there")


def state_of(process: int) -> str:
    """Z also where there is none any more."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"
