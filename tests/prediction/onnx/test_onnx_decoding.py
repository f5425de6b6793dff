"""Scores decoded without torch: what each head's own distribution says of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spansieve.config import ModelConfig
from spansieve.models.filtered import FilteredHead
from spansieve.prediction.onnx import ExportError
from spansieve.prediction.onnx.decoding import DECODERS, Setting, decoder_of
from spansieve.prediction.onnx.export import _decoder_arrays
from spansieve.prediction.onnx.folder import Manifest
from tests.nn.heads import head_of, keep_half, vectors_of

LENGTHS = [9, 1, 14, 3]
CASES = [
    ("fsemicrf", {}),
    ("fsemicrf", {"skip": True}),
    ("fsemicrf", {"skip": True, "margin": 1.0, "labels_per_span": 2, "budget": 5}),
    ("fsemicrf", {"margin": 1.0}),
    ("crf", {"scheme": "BIO"}),
    ("crf", {"scheme": "BIOES"}),
    ("semicrf", {}),
    ("semicrf-unit-null", {}),
    ("filter-only", {"skip": True, "labels_per_span": 2}),
    ("filter-only", {"margin": 1.0, "labels_per_span": 2}),
    ("global-selection", {}),
    ("global-selection", {"skip": True, "labels_per_span": 2}),
    ("nested", {}),
    ("nested", {"margin": 1.0}),
    ("nested-filter-only", {"labels_per_span": 2}),
]
every_case = pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1]
)


def manifest_of(name: str, head, **settings) -> Manifest:
    return Manifest(ModelConfig(head=name, max_width=head.max_width, **settings), head.labels, None)


def test_every_head_is_here():
    assert {name for name, _ in CASES} == set(DECODERS)


@every_case
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threads", [1, 2])
def test_segments_and_probabilities_are_those_of_the_distribution(name, settings, seed, threads):
    head, vectors = head_of(name, num_names=3, max_width=4, seed=seed, **settings), vectors_of(LENGTHS, seed)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    with torch.no_grad():
        distribution = head.distribution(vectors, torch.tensor(LENGTHS))
        expected = [list(head.entities(structure)) for structure in distribution.mode]
        probabilities = head.probabilities(distribution, expected)
        scores = [part.contiguous().numpy().copy() for part in head.scores(vectors)]
    decoder = decoder_of(Setting(manifest_of(name, head, **settings), _decoder_arrays(head), threads))
    without = decoder([part.copy() for part in scores], np.array(LENGTHS), False)
    found = decoder(scores, np.array(LENGTHS), True)
    assert any(expected)
    assert [list(one) for one in found.segments] == [list(one) for one in without.segments] == expected
    assert without.probabilities is None
    for one, other in zip(found.probabilities, probabilities):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


@every_case
def test_the_filters_own_probability_is_of_the_scores_as_they_were_learned(name, settings):
    """Whatever margin null has to win by. Where nothing filters, it is the marginal."""
    head, vectors, lengths = head_of(name, num_names=3, max_width=4, **settings), vectors_of(LENGTHS), np.array(LENGTHS)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    with torch.no_grad():
        scores = [part.contiguous().numpy() for part in head.scores(vectors)]
        if isinstance(head, FilteredHead):
            learned = head.scorer.dense(head.scorer(vectors))[..., : len(head.labels)].softmax(-1)
    manifest, arrays = manifest_of(name, head, **settings), _decoder_arrays(head)
    alone, product = (
        decoder_of(Setting(manifest, arrays, with_filter=with_filter))([part.copy() for part in scores], lengths, True)
        for with_filter in (False, True)
    )
    assert [list(one) for one in alone.segments] == [list(one) for one in product.segments]
    assert any(alone.segments)
    for b, (segments, shares) in enumerate(zip(alone.segments, alone.probabilities)):
        if isinstance(head, FilteredHead):
            shares = [share * float(learned[b, s.start, s.width - 1, s.label]) for s, share in zip(segments, shares)]
        assert product.probabilities[b] == pytest.approx(shares, rel=1e-4, abs=1e-6)


@every_case
def test_what_cannot_be_decoded_is_refused(name, settings):
    head, vectors = head_of(name, **settings), vectors_of(LENGTHS)
    manifest, arrays = manifest_of(name, head, **settings), _decoder_arrays(head)
    for wrong in ({}, arrays | {"transition": np.zeros((2, 2), np.float32)}, arrays | {"transition": np.zeros(3)}):
        with pytest.raises(ExportError, match="transition must be numbers of shape"):
            decoder_of(Setting(manifest, wrong))
    decoder, lengths = decoder_of(Setting(manifest, arrays)), np.array(LENGTHS)
    with torch.no_grad():
        scores = [part.numpy().copy() for part in head.scores(vectors)]
    with pytest.raises(ExportError, match="the export's scorers must give"):
        decoder([part[..., :-1] for part in scores], lengths, True)
    with pytest.raises(ExportError, match="the export's scorers must give"):
        decoder([*scores, scores[0]], lengths, True)
    for part in scores:
        part[:] = np.nan
    with pytest.raises(ValueError, match="scores must be numbers below"):
        decoder(scores, lengths, True)
