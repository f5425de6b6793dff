"""A batch that is padded to one of few shapes has the losses and the gradients of the batch as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from spansieve.crf.gold import Parts
from spansieve.data.batching import plan_epoch
from spansieve.data.example import Example
from spansieve.models.head import HeadGold
from spansieve.models.heads import HEADS
from spansieve.models.tagger import Batch, Tagger
from spansieve.training.packed_batches import HEADER, pack
from tests.training import runs
from tests.training.encoders import tiny_encoder

LONGER = [Example.of(f"{'was ' * n}Ada in Rome .", [(n, n + 1, "PER"), (n + 2, n + 3, "LOC")]) for n in range(1, 14)]
EXAMPLES = [*runs.TRAIN, *LONGER, Example.of("was ."), Example.of(["."])]
PRESET = {"model__skip": True, "model__margin": 3.0, "model__global_loss": "unfiltered", "model__score_null": True}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(tiny_encoder(tmp_path_factory.mktemp("encoder")))


def tagger_of(name: str, **settings) -> Tagger:
    torch.manual_seed(0)
    config = runs.config(model__encoder__name=name, **runs.STILL, **settings)
    return Tagger.for_data(config.model, EXAMPLES).eval()


def batch_of(tagger: Tagger, examples: list[Example]) -> Batch:
    return tagger.batch([example.tokens for example in examples], [tagger.training_segments(x)[0] for x in examples])


def unpacked(tagger: Tagger, batch: Batch, batch_size: int) -> Batch:
    packed = pack(batch, tagger, batch_size)
    assert packed is not None
    made, header = packed.on(packed.data)
    assert header.shape == (HEADER,)
    return unpadded_gold(made)


def unpadded_gold(batch: Batch) -> Batch:
    """A padded batch without the parts of gold that fill up: the kernels of the CPU look at all that there are."""
    assert isinstance(batch.gold, HeadGold)
    parts = batch.gold.structures.parts
    num_parts, num_pairs = parts.offsets[:, -1].tolist()
    own = (parts.part[:num_parts], parts.sentence[:num_parts], parts.pair[:num_pairs], parts.pair_sentence[:num_pairs])
    structures = replace(batch.gold.structures, parts=Parts(*own, parts.offsets))
    return replace(batch, gold=replace(batch.gold, structures=structures))


def gradients(tagger: Tagger, batch: Batch) -> tuple[dict, list]:
    tagger.zero_grad()
    losses = tagger(batch)
    sum(losses.values()).sum().backward()
    return losses, [None if p.grad is None else p.grad.clone() for p in tagger.parameters()]


CASES = [(head, {}) for head in HEADS if not head.startswith("nested")]
CASES += [("fsemicrf", PRESET), ("fsemicrf", {"model__features": "sum"}), ("fsemicrf", {"model__max_width": 70})]


@pytest.mark.parametrize(("head", "settings"), CASES)
@pytest.mark.parametrize("kind", ["pretrained", "mean of subwords", "builtin"])
def test_losses_and_gradients_are_those_of_the_batch(encoder, kind, head, settings):
    pooling = {"model__encoder__pooling": "mean"} if kind == "mean of subwords" else {}
    settings = {"model__head": head, "model__encoder__casing": kind == "pretrained"} | pooling | settings
    tagger = tagger_of("builtin" if kind == "builtin" else encoder, **settings)
    for some in (EXAMPLES[:5], EXAMPLES[15:20], EXAMPLES[-2:], EXAMPLES[-1:]):
        batch = batch_of(tagger, some)
        (wanted, wanted_gradients), (losses, found) = (
            gradients(tagger, one) for one in (batch, unpacked(tagger, batch, 6))
        )
        for name, loss in wanted.items():
            assert_close(losses[name][: len(some)], loss, rtol=1e-5, atol=1e-5)
            assert not losses[name][len(some) :].any()  # of sentences that fill up
        assert_close(found, wanted_gradients, rtol=1e-4, atol=1e-5)


def test_what_fills_up_gold_is_no_part_of_a_sentence(encoder):
    tagger = tagger_of(encoder)
    batch = batch_of(tagger, LONGER[:4])
    packed = pack(batch, tagger, 4)
    made, _ = packed.on(packed.data)
    _, num_tokens, max_width, num_labels = made.gold.structures.shape
    assert num_tokens > int(batch.lengths.max())
    parts = made.gold.structures.parts
    filling = parts.part[parts.offsets[0, -1] :]
    assert len(filling) > 0
    assert set((filling // (num_labels * max_width) % num_tokens).tolist()) == {num_tokens - 1}


def test_shapes_are_few(encoder):
    tagger = tagger_of(encoder)
    layouts = set()
    for epoch in range(20):
        for step in plan_epoch([len(x) for x in EXAMPLES], 4, 0, epoch):
            layouts.add(pack(batch_of(tagger, [EXAMPLES[i] for i in step]), tagger, 4).layout)
    assert len(layouts) <= 4


def test_a_batch_without_a_shape_is_left_alone(encoder):
    tagger = tagger_of(encoder, model__encoder__max_subwords=8)
    assert pack(batch_of(tagger, EXAMPLES[:5]), tagger, 4) is None  # larger than others are
    assert pack(batch_of(tagger, LONGER[-2:]), tagger, 4) is None  # read in windows
    assert pack(batch_of(tagger, EXAMPLES[-2:]), tagger, 4) is not None
    partial = tagger.batch([["Ada", "was"]], [[]], [[(0, 2)]])
    assert pack(partial, tagger, 4) is None  # gold is no one structure


def test_the_numbers_of_a_step_stand_before_its_batch(encoder):
    tagger = tagger_of(encoder)
    packed = pack(batch_of(tagger, EXAMPLES[:3]), tagger, 4)
    packed.set_header([0.25, 0.5, 1e-3])
    _, header = packed.on(packed.data.clone())
    assert header[:3].tolist() == pytest.approx([0.25, 0.5, 1e-3])
