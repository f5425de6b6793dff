"""Every head against enumeration: its loss, its best structure, its probabilities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from spansieve import Segment
from spansieve.crf.flat_segments import flat_segments
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import HeadGold
from spansieve.models.heads import HEADS, head_class
from tests.batches import random_gold
from tests.nn.heads import (
    are_level,
    entities_by_definition,
    head_of,
    keep_half,
    oracle_of,
    probability_of,
    vectors_of,
)
from tests.oracle import kept_by_filter

LENGTHS = [4, 0, 1, 3]
CASES = [
    ("crf", {"scheme": "BIO"}),
    ("crf", {"scheme": "BIOES"}),
    ("crf", {"scheme": "BIO", "features": "sum"}),
    ("semicrf", {"features": "endpoints"}),
    ("semicrf-unit-null", {"features": "endpoints-content"}),
    ("fsemicrf", {"features": "endpoints"}),
    ("fsemicrf", {"features": "endpoints-content"}),
    ("fsemicrf", {"skip": True, "features": "sum"}),
    ("filter-only", {"features": "mean"}),
    ("global-selection", {"features": "max"}),
    ("global-selection", {"skip": True, "features": "endpoints"}),
    ("fsemicrf", {"margin": 0.5, "skip": True, "features": "endpoints"}),
    ("fsemicrf", {"margin": 1.0, "labels_per_span": 2, "budget": 4, "skip": True}),
    ("fsemicrf", {"labels_per_span": 2, "budget": 3}),
    ("fsemicrf", {"global_loss": "unfiltered", "labels_per_span": 2, "skip": True}),
    ("global-selection", {"global_loss": "unfiltered", "skip": True}),
    ("global-selection", {"global_loss": "unfiltered", "labels_per_span": 2, "skip": True}),
    ("global-selection", {"labels_per_span": 2, "budget": 4}),
    ("nested", {"features": "endpoints"}),
    ("fsemicrf", {"global_loss": "unfiltered", "score_null": True, "margin": 1.0, "skip": True}),
    ("fsemicrf", {"score_null": True, "features": "endpoints-content"}),
    ("nested", {"labels_per_span": 2, "budget": 3}),
    ("nested-filter-only", {"features": "endpoints"}),
]
every_case = pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1]
)
every_seed = pytest.mark.parametrize("seed", range(3))


def drawn(name, settings, seed):
    # Enumeration of tags grows fast: BIOES has 1 + 4 per label.
    head = head_of(name, num_names=1 if settings.get("scheme") == "BIOES" else 2, seed=seed, **settings)
    random = np.random.default_rng(seed)
    gold = [random_gold(random, length, 3, len(head.labels)) for length in LENGTHS]
    vectors = vectors_of(LENGTHS, seed)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    return head, vectors, torch.tensor(LENGTHS), gold


def test_every_head_is_here():
    assert {name for name, _ in CASES} == set(HEADS)


@every_case
@every_seed
def test_the_loss_is_log_z_less_the_score_of_gold(name, settings, seed):
    head, vectors, lengths, gold = drawn(name, settings, seed)
    losses = head.losses(vectors, lengths, head.gold(gold, LENGTHS))
    for loss in losses.values():
        assert loss.shape == (len(LENGTHS),)
        assert (loss >= -1e-5).all()
    if set(losses) == {"filtering"}:
        return
    listed = oracle_of(head, vectors, LENGTHS, gold)
    for b, golden in enumerate(gold):
        scores = [s for s, one in listed.possible(b) if _is_gold(head, one.structure, golden)]
        assert len(scores) == 1
        expected = listed.log_partition[b] - scores[0]
        loss = losses.get("segmentation", losses.get("sequence"))[b].detach()
        assert math.isclose(float(loss), expected, rel_tol=1e-4, abs_tol=2e-4)


def _is_gold(head, structure, golden) -> bool:
    """Of the segmentations that mean the same, gold is the one whose null segments are one token wide."""
    if entities_by_definition(head, structure) != golden:
        return False
    return isinstance(structure, list) or all(s.label or s.width == 1 for s in structure)


@every_case
@every_seed
def test_the_best_structure_is_the_best(name, settings, seed):
    head, vectors, lengths, _ = drawn(name, settings, seed)
    distribution, listed = head.distribution(vectors, lengths), oracle_of(head, vectors, LENGTHS)
    for b, structure in enumerate(distribution.mode):
        (score,) = [s for s, one in listed.possible(b) if one.structure == structure]
        assert math.isclose(score, listed.max_score[b], abs_tol=1e-4)
        assert list(head.entities(structure)) == entities_by_definition(head, structure)


@every_case
@every_seed
def test_probabilities_are_those_of_the_enumeration(name, settings, seed):
    head, vectors, _, _ = drawn(name, settings, seed)
    listed = oracle_of(head, vectors, LENGTHS)
    # Not of the best ones only: of every segment that some structure has.
    entities = [
        sorted({s for _, one in listed.possible(b) for s in entities_by_definition(head, one.structure)})
        for b in range(len(LENGTHS))
    ]
    assert any(entities)
    with torch.inference_mode():
        scores = [np.ascontiguousarray(part.numpy()) for part in head.scores(vectors)]
    batch = head.decoder().batch(scores, np.array(LENGTHS))
    flat = flat_segments(entities)
    expected = [probability_of(listed, head, b, s) for b, segments in enumerate(entities) for s in segments]
    np.testing.assert_allclose(batch.probabilities(flat), expected, rtol=1e-3, atol=1e-5)
    assert len(batch.probabilities(flat_segments([[]] * len(LENGTHS)))) == 0


@every_case
def test_a_sentence_alone_equals_the_sentence_in_a_batch(name, settings):
    head, vectors, lengths, gold = drawn(name, settings, seed=4)
    together = head.losses(vectors, lengths, head.gold(gold, LENGTHS))
    modes, listed = head.distribution(vectors, lengths).mode, oracle_of(head, vectors, LENGTHS)
    for b, length in enumerate(LENGTHS):
        own = vectors[b : b + 1, :length]
        alone = head.losses(own, lengths[b : b + 1], head.gold([gold[b]], [length]))
        for part, loss in together.items():
            torch.testing.assert_close(alone[part][0], loss[b], rtol=1e-4, atol=1e-4)
        (mode,) = head.distribution(own, lengths[b : b + 1]).mode
        assert are_level(listed, b, mode, modes[b])


@every_case
@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_to_learn_from_and_nothing_to_find(name, settings, lengths):
    head, vectors = head_of(name, **settings), vectors_of(lengths)
    gold = head.gold([[] for _ in lengths], lengths)
    for loss in head.losses(vectors, torch.tensor(lengths, dtype=torch.int64), gold).values():
        torch.testing.assert_close(loss.detach(), torch.zeros(len(lengths)))
    distribution = head.distribution(vectors, torch.tensor(lengths, dtype=torch.int64))
    assert [list(head.entities(structure)) for structure in distribution.mode] == [[] for _ in lengths]


@every_case
def test_gradients_are_finite_and_reach_every_weight(name, settings):
    head, vectors, lengths, gold = drawn(name, settings, seed=1)
    vectors.requires_grad_()
    sum(loss.sum() for loss in head.losses(vectors, lengths, head.gold(gold, LENGTHS)).values()).backward()
    for parameter in (vectors, *head.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("settings", [{"global_loss": "unfiltered"}, {"margin": 1.0, "labels_per_span": 2}], ids=str)
@every_seed
def test_the_gradient_is_that_of_the_definition_where_null_is_scored(settings, seed):
    """Segments score as themselves and each token that none of them takes as null: in the loss, and in its gradient."""
    head, vectors, lengths, gold = drawn("fsemicrf", {"score_null": True, "skip": True, **settings}, seed)
    vectors.requires_grad_()
    weights = (vectors, *head.parameters())
    found = head.losses(vectors, lengths, head.gold(gold, LENGTHS))["segmentation"]
    listed = oracle_of(head, vectors, LENGTHS, gold)
    scores = head.scorer.dense(head.scorer(vectors))[..., len(head.labels) :]
    expected = []
    for b, golden in enumerate(gold):
        paths = {
            one.structure: _score_with_null(head, scores[b], LENGTHS[b], one.structure) for _, one in listed.scored[b]
        }
        expected.append(torch.stack([*paths.values()]).logsumexp(0) - paths[tuple(golden)])
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-4)
    # The filter's half of the last layer has no part in it.
    ours, theirs = (torch.autograd.grad(loss.sum(), weights) for loss in (found, torch.stack(expected)))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def _score_with_null(head, scores: torch.Tensor, length: int, path) -> torch.Tensor:
    """Of one path, from the global scores (L, K, Y) of its sentence."""
    taken = {token for segment in path for token in range(segment.start, segment.end)}
    parts = [scores[s.start, s.width - 1, s.label] for s in path]
    parts += [scores[token, 0, 0] for token in range(length) if token not in taken]
    parts += [head.transition[one.label, following.label] for one, following in itertools.pairwise(path)]
    return torch.stack([scores.new_zeros(()), *parts]).sum()


# ---- The filter ------------------------------------------------------------------------------------------------------

FILTERED = [name for name in HEADS if issubclass(head_class(name), FilteredHead)]


@pytest.mark.parametrize("name", FILTERED)
@pytest.mark.parametrize("settings", [{"beta": 1.0}, {"beta": 0.3}, {"beta": 1.0, "margin": 2.0}], ids=str)
def test_the_filtering_loss_is_a_weighted_cross_entropy_of_every_span(name, settings):
    head, beta = head_of(name, **settings), settings["beta"]
    vectors, lengths = vectors_of(LENGTHS), torch.tensor(LENGTHS)
    gold = [[Segment(0, 2, 1), Segment(3, 4, 2)], [], [Segment(0, 1, 2)], []]
    local = head.scorer.dense(head.scorer(vectors))[..., :3].detach().log_softmax(-1)
    found = head.losses(vectors, lengths, head.gold(gold, LENGTHS))["filtering"].detach()
    for b, length in enumerate(LENGTHS):
        label_of = {(s.start, s.end): s.label for s in gold[b]}
        expected = 0.0
        for start, end in itertools.combinations(range(length + 1), 2):
            if end - start <= 3:
                label = label_of.get((start, end), 0)
                expected -= float(local[b, start, end - start - 1, label]) * (1.0 if label else beta)
        assert math.isclose(float(found[b]), expected, rel_tol=1e-4, abs_tol=1e-5)


def test_the_filtering_loss_has_a_weight():
    vectors, lengths = vectors_of(LENGTHS), torch.tensor(LENGTHS)
    once, thrice = (head_of("fsemicrf", filtering_weight=weight) for weight in (1.0, 3.0))
    losses, others = (head.losses(vectors, lengths, head.gold([[]] * 4, LENGTHS)) for head in (once, thrice))
    torch.testing.assert_close(others["filtering"], 3 * losses["filtering"])
    torch.testing.assert_close(others["segmentation"], losses["segmentation"])


@pytest.mark.parametrize("name", FILTERED)
def test_nobody_chooses_among_the_labels_of_a_filter_alone(name):
    """So that it keeps one of them, however many the configuration allows to others."""
    head = head_of(name, num_names=4, labels_per_span=3, skip=True)
    vectors, lengths = vectors_of(LENGTHS), torch.tensor(LENGTHS)
    keep_half(head, vectors, LENGTHS)
    kept = head.distribution(vectors, lengths).candidates.segments()
    spans = [[segment[:2] for segment in segments] for segments in kept]
    assert sum(map(len, spans)) > 4
    assert (spans == [[*dict.fromkeys(some)] for some in spans]) == (
        name in ("filter-only", "nested-filter-only", "global-selection")
    )


@pytest.mark.parametrize("name", FILTERED)
def test_graph_counts(name):
    head = head_of(name)
    vectors, lengths = vectors_of(LENGTHS), torch.tensor(LENGTHS)
    keep_half(head, vectors, LENGTHS)
    local = head.scorer.dense(head.scorer(vectors))[..., :3].detach().numpy()
    kept = kept_by_filter(local, LENGTHS)
    assert 4 <= sum(map(len, kept)) <= 12  # of 16 spans
    gold = [kept[0][:2], [], [Segment(0, 1, 1)], [Segment(0, 3, 1), Segment(0, 3, 2)]]
    with torch.no_grad():
        counts = head.graph_counts(head.scores(vectors), lengths, gold)
    assert counts.sentences == 4
    assert counts.nodes == sum(map(len, kept))
    assert counts.gold == sum(map(len, gold))
    assert counts.gold_kept == sum(segment in nodes for nodes, golden in zip(kept, gold) for segment in golden)


def test_gold_of_another_head_is_refused():
    head, other = head_of("fsemicrf"), head_of("semicrf")
    gold = other.gold([[]], [2])
    assert isinstance(gold, HeadGold)
    with pytest.raises(ValueError, match="gold must be made by the head"):
        gold.labels()
    with pytest.raises(ValueError, match="label"):
        head.losses(vectors_of([2]), torch.tensor([2]), gold)


@pytest.mark.parametrize("name", ["filter-only", "global-selection", "nested-filter-only"])
@pytest.mark.parametrize("seed", range(3))
def test_a_head_that_cannot_choose_among_the_labels_of_a_span_has_the_best_one(name, seed):
    head, vectors, lengths, _ = drawn(name, {"labels_per_span": 2}, seed)
    best = head.scores(vectors)[0].argmax(-1)  # (B, L, K)
    candidates = head.distribution(vectors, lengths).candidates.segments()
    assert sum(map(len, candidates)) >= 4
    for b, segments in enumerate(candidates):
        assert [s.label for s in segments] == [int(best[b, s.start, s.width - 1]) for s in segments]
        assert len({(s.start, s.end) for s in segments}) == len(segments)


# ---- Tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_no_predicted_tags_are_ill_formed(scheme):
    for seed in range(20):
        head = head_of("crf", num_names=3, seed=seed, scheme=scheme)
        lengths = [9, 4, 1, 2]
        for tags in head.distribution(vectors_of(lengths, seed), torch.tensor(lengths)).mode:
            allowed = head.constraints.is_allowed
            assert all(allowed[previous, following] for previous, following in zip(tags, tags[1:]))
            assert head.constraints.can_start[tags[0]]
            assert head.constraints.can_end[tags[-1]]


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_tags_and_segments_are_two_ways_to_say_the_same(scheme):
    head = head_of("crf", num_names=3, scheme=scheme)
    random = np.random.default_rng(0)
    for _ in range(50):
        length = int(random.integers(0, 9))
        gold = random_gold(random, length, 4, 4)
        assert list(head.entities(head.tags.of_segments(gold, length))) == gold


def test_a_crf_has_no_widest_segment():
    head = head_of("crf", max_width=2)
    assert head.fits(Segment(0, 50, 1))
    assert not head_of("semicrf", max_width=2).fits(Segment(0, 3, 1))
    head.gold([[Segment(0, 5, 1)]], [5])


@pytest.mark.parametrize(
    ("segments", "message"),
    [([Segment(0, 2, 1), Segment(1, 3, 2)], "must not overlap"), ([Segment(1, 4, 1)], "must lie within the 3 tokens")],
)
def test_tags_cannot_be_made_of_any_segments(segments, message):
    with pytest.raises(ValueError, match=message):
        head_of("crf").gold([segments], [3])
