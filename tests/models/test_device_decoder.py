"""Decoding on a GPU in one launch gives what the host's decoders give.

The kernels run on a GPU where there is one, else on the CPU, by a C++ compiler.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spansieve.crf import TagConstraints
from spansieve.crf.kernels import ScoreError, nvrtc
from spansieve.decoding.decoders import Decoded, Decoder, DecoderSettings, decoder_shapes
from spansieve.decoding.tag_codec import TagCodec
from spansieve.models import device_decoder as module
from spansieve.models.device_decoder import DeviceDecoder, device_decoder
from spansieve.segments import LabelSet
from tests.crf.kernels.cuda_on_cpu import COMPILER, FINDS_RACES, KernelOnCpu, KernelWithRaces
from tests.instances import Instance, instances

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
on_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
pytestmark = pytest.mark.skipif(not HAS_GPU and COMPILER is None, reason="needs a GPU, or a C++ compiler")
WIDTH, NAMES = 3, LabelSet(["PER", "ORG"])
KINDS: dict[str, dict[str, Any]] = {
    "filtered": {"kind": "filtered"},
    "filtered, two labels": {"kind": "filtered", "labels_per_span": 2},
    "filtered with skip": {"kind": "filtered", "skip": True, "labels_per_span": 2},
    "nested": {"kind": "nested", "labels_per_span": 2},
    "linear chain, BIO": {"kind": "linear-chain", "scheme": "BIO"},
    "linear chain, BIOES": {"kind": "linear-chain", "scheme": "BIOES"},
    "semi-Markov": {"kind": "semi-markov"},
    "semi-Markov, unit null": {"kind": "semi-markov", "unit_null": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
filters = pytest.mark.parametrize("kind", [name for name in KINDS if KINDS[name]["kind"] in ("filtered", "nested")])


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    if not HAS_GPU:
        monkeypatch.setattr(module, "kernel", KernelOnCpu)
        monkeypatch.setattr(module, "_recorded", lambda device: Now())


class Now:
    """An event that has happened."""

    def synchronize(self) -> None: ...


def decoder_of(
    kind: str, transition: np.ndarray | None = None, seed: int = 0, labels: LabelSet = NAMES, **others: Any
) -> Decoder:
    """The decoder with random weights, or with this transition between labels; a chain with what its tags allow."""
    chosen, draws = DecoderSettings(**{"max_width": WIDTH} | KINDS[kind] | others), np.random.default_rng(seed)
    shapes = decoder_shapes(chosen, labels)
    arrays = {name: exactly_added(draws.normal(size=s)).astype(np.float32) for name, s in shapes.items()}
    if chosen.kind == "linear-chain":
        allowed = TagConstraints.from_tags(TagCodec(labels, chosen.scheme).names)
        for name, mask in zip(("transition", "start", "end"), (allowed.is_allowed, allowed.can_start, allowed.can_end)):
            arrays[name][~mask.numpy()] = -np.inf
    elif transition is not None:
        arrays["transition"] = transition.astype(np.float32)
    return Decoder(chosen, labels, arrays)


def random_scores(decoder: Decoder, lengths: np.ndarray, seed: int = 0, null: float = 1.0) -> list[np.ndarray]:
    """Scores in which null stands above the other labels, of a filter by so much more."""
    shape, draws = (len(lengths), int(lengths.max()), *decoder.shape), np.random.default_rng(seed)
    scores = [draws.normal(size=shape).astype(np.float32) for _ in range(decoder.num_scores)]
    scores[0][..., 0] += null
    return scores


def on_device(ours: DeviceDecoder, scores: list[np.ndarray], lengths: np.ndarray, probabilities=True) -> Decoded:
    tensors = [torch.from_numpy(part).to(DEVICE) for part in scores]
    return ours.decode(tensors, torch.from_numpy(lengths).to(DEVICE), lengths, probabilities)()


def assert_same(decoder: Decoder, scores: list[np.ndarray], lengths: np.ndarray) -> DeviceDecoder:
    """Both ways give the same segments with the same probabilities, or raise the same."""
    ours = DeviceDecoder(decoder, DEVICE)
    try:
        expected = decoder(scores, lengths, True)
    except ScoreError as error:
        with pytest.raises(ScoreError, match=re.escape(str(error))):
            on_device(ours, scores, lengths)
        return ours
    for with_probabilities in (True, False):
        decoded = on_device(ours, scores, lengths, with_probabilities)
        assert decoded.segments.by_sentence() == expected.segments.by_sentence()
        if with_probabilities:
            assert decoded.probabilities is not None
            np.testing.assert_allclose(decoded.probabilities, expected.probabilities, rtol=1e-5, atol=1e-6)
        else:
            assert decoded.probabilities is None
    return ours


def of_instance(drawn: Instance, decoder: Decoder) -> tuple[list[np.ndarray], np.ndarray]:
    """What was drawn as scores of a decoder, for sentences that have a token."""
    lengths = np.maximum(np.array(drawn.lengths), 1)
    shape = (len(lengths), int(lengths.max()), *decoder.shape)
    scores = [np.resize(part.astype(np.float32), shape) for part in (drawn.local_scores, drawn.scores)]
    return scores[-decoder.num_scores :], lengths


@every_kind
@given(drawn=instances(most_tokens=6, most_sentences=3))
@settings(max_examples=15, deadline=None)
def test_equals_the_host(kind, drawn):
    """Ties, scores of ±10,000 and −∞, sentences of one token, spans wider than the sentence."""
    if not drawn.scores.size or not drawn.local_scores.size:
        return
    is_dense = KINDS[kind]["kind"] in ("linear-chain", "semi-markov")
    if is_dense and np.abs(drawn.scores[np.isfinite(drawn.scores)]).max(initial=0) > 100:
        return  # the host's probabilities of tags underflow
    transition = np.resize(drawn.transition, (len(NAMES), len(NAMES)))
    decoder = decoder_of(kind, exactly_added(transition) if is_dense else transition)
    scores, lengths = of_instance(drawn, decoder)
    assert_same(decoder, [exactly_added(part) for part in scores] if is_dense else scores, lengths)


def exactly_added(numbers: np.ndarray) -> np.ndarray:
    """Numbers near to these whose sums are not rounded, and so not to ties that they are not."""
    return np.round(64 * numbers) / 64


@every_kind
def test_batches_of_sentences_with_many_segments(kind):
    lengths = np.array([40, 1, 17, 3, 40])
    decoder = decoder_of(kind)
    ours = assert_same(decoder, random_scores(decoder, lengths), lengths)
    assert ours.num_on_host == 0


@every_kind
@pytest.mark.parametrize("null", [2.5, 3.9])  # many candidates, or too few for several chunks
def test_a_long_sentence_by_several_blocks_and_chunks(kind, null):
    decoder = decoder_of(kind)
    lengths = np.array([700, 650])
    ours = assert_same(decoder, random_scores(decoder, lengths, null=null), lengths)
    assert ours.num_on_host == 0


@pytest.mark.parametrize("kind", [name for name in KINDS if KINDS[name]["kind"] == "filtered"])
@pytest.mark.parametrize("lengths", [[9, 20], [700, 650]])
def test_sums_that_leave_the_range_of_a_double(kind, lengths):
    """In the whole sentence, or beginning with its second half: in some chunks only."""
    decoder, lengths = decoder_of(kind), np.array(lengths)
    scores = random_scores(decoder, lengths, null=2.5)
    for first in (0, max(lengths) // 2):
        steep = [scores[0], scores[1].copy()]
        steep[1][:, first:] *= 5_000.0
        assert_same(decoder, steep, lengths)


@pytest.mark.parametrize("kind", [name for name in KINDS if KINDS[name]["kind"] == "filtered"])
def test_of_many_equal_paths_through_chunks_the_hosts_is_taken(kind):
    """More candidates than a block has threads, and whole numbers for scores: a label before a chunk is as good as
    another."""
    decoder = decoder_of(kind, np.random.default_rng(1).integers(-1, 1, (len(NAMES), len(NAMES))))
    lengths = np.array([2500, 90])
    scores = [part.round() for part in random_scores(decoder, lengths)]
    start = np.arange(2500)[:, None]
    scores[0][0, (start + np.arange(WIDTH)) // 9 > (start - 1) // 9, 0] = 9.0  # no span has each ninth token: cuts
    assert np.sum(scores[0][0, ..., 1:].max(-1) > scores[0][0, ..., 0]) > module.max_threads(len(NAMES))
    assert assert_same(decoder, scores, lengths).num_on_host == 0


@pytest.mark.parametrize("kind", ["linear chain, BIOES", "semi-Markov"])
def test_back_pointers_of_a_sentence_longer_than_what_is_traced_at_once(kind):
    decoder = decoder_of(kind)
    lengths = np.array([2 * module.TRACED // decoder.shape[-1] + 5])
    assert_same(decoder, random_scores(decoder, lengths), lengths)


@every_kind
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_raise_what_the_host_raises(kind, wrong):
    decoder, lengths = decoder_of(kind), np.array([5, 4])
    for part in range(decoder.num_scores):
        scores = random_scores(decoder, lengths, null=-9.0)
        scores[part][1, 2, ..., 1] = wrong
        assert assert_same(decoder, scores, lengths).num_on_host > 0


@pytest.mark.parametrize("kind", ["filtered", "linear chain, BIOES", "semi-Markov"])
def test_a_sentence_without_any_segmentation_raises_what_the_host_raises(kind):
    decoder, lengths = decoder_of(kind), np.array([4])
    scores = random_scores(decoder, lengths, null=-9.0)
    scores[-1][:] = -np.inf
    with pytest.raises(ScoreError, match="no possible segmentation"):
        on_device(DeviceDecoder(decoder, DEVICE), scores, lengths)


@filters
def test_more_candidates_than_fit_are_the_hosts_and_are_counted(kind):
    lengths = np.array([2, 300, 2])
    decoder = decoder_of(kind)
    scores = random_scores(decoder, lengths)
    scores[0][1, ..., 1:] += 9.0  # every span of the second sentence
    assert assert_same(decoder, scores, lengths).num_on_host == 2  # with probabilities, and without


def test_no_candidates_are_no_segments():
    decoder, lengths = decoder_of("filtered"), np.array([3, 2])
    assert_same(decoder, random_scores(decoder, lengths, null=99.0), lengths)


def test_sentences_that_only_fill_a_batch_have_no_segments():
    for kind in KINDS:
        decoder, lengths = decoder_of(kind), np.array([6, 0])
        scores = random_scores(decoder, np.array([6, 6]))
        decoded = on_device(DeviceDecoder(decoder, DEVICE), scores, lengths)
        alone = decoder([part[:1] for part in scores], lengths[:1], True)
        assert decoded.segments.by_sentence() == [*alone.segments.by_sentence(), ()]


def test_memory_is_used_again_and_grows():
    decoder = decoder_of("filtered with skip")
    ours = DeviceDecoder(decoder, DEVICE)
    for num_tokens in (5, 30, 9):
        lengths = np.array([num_tokens, 3])
        scores = random_scores(decoder, lengths, seed=num_tokens)
        expected = decoder(scores, lengths, True)
        tensors = [torch.from_numpy(part).to(DEVICE) for part in scores]
        waits = [ours.decode(tensors, torch.from_numpy(lengths).to(DEVICE), lengths, True) for _ in range(3)]
        for wait in (*waits, *waits):  # all were under way at once; a result is read once, however often it is wanted
            assert wait().segments.by_sentence() == expected.segments.by_sentence()
        assert len(ours._free) == 3


@pytest.mark.parametrize("others", [{"budget": 4}, {}])
def test_what_no_kernel_decodes_is_left_to_the_host(others):
    decoder = decoder_of("filtered", **others)
    decoder.with_filter = not others
    assert device_decoder(decoder, DEVICE) is None


def test_wider_segments_than_a_kernel_has_registers_for_are_left_to_the_host():
    with pytest.warns(RuntimeWarning, match="the host decodes .*: a lane has registers for 64 widths, got 1250"):
        assert device_decoder(decoder_of("semi-Markov", max_width=10_000), DEVICE) is None


@every_kind
@pytest.mark.parametrize("number", [1, 7, 15, 33, 70])
def test_any_number_of_labels(kind, number):
    """Lanes of a warp share the widths of a label, or have several labels each; a long sentence has fewer chunks."""
    decoder = decoder_of(kind, labels=LabelSet([f"L{i}" for i in range(number)]))
    if number > 33 and HAS_GPU and torch.cuda.get_device_properties(DEVICE).shared_memory_per_block_optin < 220 << 10:
        pytest.skip("as many labels need the shared memory of an H100")
    if decoder.shape[-1] > 128:
        with pytest.warns(RuntimeWarning, match=f"the host decodes .*: {decoder.shape[-1]} labels do not fit"):
            assert device_decoder(decoder, DEVICE) is None
        return
    for lengths in (np.array([11, 4]), np.array([345])):
        ours = assert_same(decoder, random_scores(decoder, lengths, null=3.5), lengths)
        assert ours.num_on_host == 0


def test_without_nvrtc_the_host_decodes(monkeypatch):
    tried = []

    def missing(*arguments):
        tried.append(arguments)
        raise nvrtc.NvrtcError("NVRTC is not installed")

    decoder = decoder_of("filtered")
    assert device_decoder(decoder, DEVICE) is not None
    monkeypatch.setattr(nvrtc, "Kernel", missing)
    monkeypatch.setattr(nvrtc, "_kernel_or_error", lru_cache(nvrtc._kernel_or_error.__wrapped__))
    monkeypatch.setattr(module, "kernel", nvrtc.kernel)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="the host decodes what the GPU has scored: NVRTC is not installed"):
            assert device_decoder(decoder, DEVICE) is None
    assert len(tried) == 1


finds_races = pytest.mark.skipif(HAS_GPU or not FINDS_RACES, reason="wants g++, and kernels on the CPU")


def races_of(kind: str, monkeypatch, barrier: tuple[str, str] = ("", "")) -> list[str]:
    """The races of a kernel with short sentences, with long ones that several blocks filter, swept in chunks or in one,
    and with a score that is no number. Of a kernel without a barrier: what stands before it, and itself."""

    def kernel(source: str, *others: Any) -> KernelWithRaces:
        assert "".join(barrier) in source
        return KernelWithRaces(source.replace("".join(barrier), barrier[0], 1), *others)

    monkeypatch.setattr(module, "kernel", kernel)
    decoder, races = decoder_of(kind), []
    for tokens, null, added in (([9, 5, 33], 1.0, 0.0), ([345], 2.5, 0.0), ([345], 3.9, 0.0), ([345], 2.5, np.nan)):
        lengths = np.array(tokens)
        scores = [torch.from_numpy(part) for part in random_scores(decoder, lengths, null=null)]
        scores[0][0, 3] += added
        ours = DeviceDecoder(decoder, DEVICE)
        ours.launch(ours.slots(), scores, torch.from_numpy(lengths), with_probabilities=True)
        races += ours._kernel.races
    return races


@finds_races
@every_kind
def test_no_two_threads_race(kind, monkeypatch):
    assert races_of(kind, monkeypatch) == []


@finds_races
@pytest.mark.parametrize(
    ("kind", "before", "barrier"),
    [
        ("filtered", "find_neighbours(nodes);", "\n    __syncthreads();"),
        ("filtered", "is_wrong);\n    ", "__threadfence();"),
        ("filtered", "*next = states + (k + 1) % 2 * Y;", "\n            __syncwarp();"),
        ("nested", "s.sum_around(d, t.K);", "\n        __syncthreads();"),
        ("semi-Markov", "s.entering(arriving, e, y);", "\n        __syncwarp();"),
    ],
    ids=["block", "fence", "warp", "width by width", "token by token"],
)
def test_a_race_is_found(kind, before, barrier, monkeypatch):
    assert races_of(kind, monkeypatch, (before, barrier))


@pytest.mark.skipif(HAS_GPU, reason="launches are counted by the kernel on the CPU")
@every_kind
def test_a_batch_is_one_launch(kind):
    decoder, lengths = decoder_of(kind), np.array([9, 5])
    ours = DeviceDecoder(decoder, DEVICE)
    on_device(ours, random_scores(decoder, lengths), lengths)
    assert ours._kernel.num_launches == 1


@on_gpu
@every_kind
def test_a_batch_is_one_launch_and_no_copy(kind):
    decoder, lengths = decoder_of(kind), np.array([9, 5])
    ours = DeviceDecoder(decoder, DEVICE)
    tensors = [torch.from_numpy(part).to(DEVICE) for part in random_scores(decoder, lengths)]
    lengths_there = torch.from_numpy(lengths).to(DEVICE)
    ours.decode(tensors, lengths_there, lengths, True)()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        ours.decode(tensors, lengths_there, lengths, True)()
        torch.cuda.synchronize()
    assert [event.name for event in profile.events() if event.device_type.name == "CUDA"] == ["decode"]


@on_gpu
def test_a_thread_that_has_not_used_the_gpu_can_launch():
    decoder, lengths = decoder_of("filtered"), np.array([9, 5])
    ours = DeviceDecoder(decoder, DEVICE)
    tensors = [torch.from_numpy(part).to(DEVICE) for part in random_scores(decoder, lengths)]
    lengths_there = torch.from_numpy(lengths).to(DEVICE)
    expected = ours.decode(tensors, lengths_there, lengths, True)()
    with ThreadPoolExecutor(1) as pool:
        decoded = pool.submit(lambda: ours.decode(tensors, lengths_there, lengths, True)()).result()
    assert decoded.segments.by_sentence() == expected.segments.by_sentence()


@pytest.mark.parametrize("kind", ["filtered, two labels", "filtered with skip"])
def test_sums_keep_their_range_when_transitions_change(kind):
    """Plain doubles have the range of 25 spans with two labels and these scores, and not with these transitions."""
    before, after = (decoder_of(kind, np.full((len(NAMES),) * 2, value), max_width=1) for value in (0.0, 20.0))
    lengths = np.array([25])
    scores = random_scores(before, lengths, null=-20.0)
    scores[1] = 10 + 0.1 * scores[1]
    ours = DeviceDecoder(before, DEVICE)
    ours._arrays["transition"].fill_(20.0)
    decoded, expected = on_device(ours, scores, lengths), after(scores, lengths, True)
    assert decoded.segments.by_sentence() == expected.segments.by_sentence()
    assert expected.probabilities.max() < 0.9
    np.testing.assert_allclose(decoded.probabilities, expected.probabilities, rtol=1e-4)
    assert ours.num_on_host == 0


@on_gpu
@every_kind
def test_a_launch_is_captured(kind):
    decoder, lengths = decoder_of(kind), np.array([9, 5])
    ours = DeviceDecoder(decoder, DEVICE)
    first, second = (random_scores(decoder, lengths, seed=seed) for seed in (0, 1))
    tensors = [torch.from_numpy(part).to(DEVICE) for part in first]
    lengths_there, graph = torch.from_numpy(lengths).to(DEVICE), torch.cuda.CUDAGraph()
    slots = ours.slots(keeps_scratch=False)
    ours.launch(slots, tensors, lengths_there, True)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        ours.launch(slots, tensors, lengths_there, True)
    for tensor, part in zip(tensors, second):
        tensor.copy_(torch.from_numpy(part))
    graph.replay()
    torch.cuda.synchronize()
    decoded, expected = ours.read(slots, lengths), decoder(second, lengths, True)
    assert decoded.segments.by_sentence() == expected.segments.by_sentence()
    np.testing.assert_allclose(decoded.probabilities, expected.probabilities, rtol=1e-5, atol=1e-6)
