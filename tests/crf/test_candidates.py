"""The filter and the graph: what is kept, who may follow whom, and how much of both there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spansieve import Segment
from spansieve.crf import Candidates, Gold
from spansieve.crf.candidates import candidate_mask
from spansieve.crf.flat_segments import flat_segments
from spansieve.crf.kernels import cpu
from spansieve.crf.kernels.cpu import jit
from spansieve.crf.kernels.cpu.filter import USUAL
from tests import oracle
from tests.batches import Batch, random_batch, random_nodes

Edges = set[tuple[Segment | None, Segment | None]]
GRAPHS = 400


def random_graphs(count: int = GRAPHS) -> list[tuple[list[Segment], int]]:
    """Candidates of one sentence, with its length."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 9, count).tolist()
    return [(random_nodes(random, length), length) for length in lengths]


# ---- What is kept ----------------------------------------------------------------------------------------------------


def test_lists_come_out_sorted_by_sentence_end_start_and_label():
    lists = [[(2, 4, 1), (0, 3, 1), (2, 3, 2), (2, 3, 1)], [], [(1, 2, 5), (0, 1, 7)]]
    candidates = Candidates.from_lists(lists, [4, 3, 2])
    assert candidates.sentence.tolist() == [0, 0, 0, 0, 2, 2]
    assert candidates.end.tolist() == [3, 3, 3, 4, 1, 2]
    assert candidates.start.tolist() == [0, 2, 2, 2, 0, 1]
    assert candidates.label.tolist() == [1, 1, 2, 1, 7, 5]
    assert candidates.offsets.tolist() == [0, 4, 4, 6]
    assert candidates.num_nodes.tolist() == [4, 0, 2]
    assert len(candidates) == 6
    assert candidates.num_sentences == 3
    assert candidates.segments() == [((0, 3, 1), (2, 3, 1), (2, 3, 2), (2, 4, 1)), (), ((0, 1, 7), (1, 2, 5))]


def check_order(candidates: Candidates) -> None:
    columns = (candidates.sentence, candidates.end, candidates.start, candidates.label)
    nodes = list(zip(*(column.tolist() for column in columns)))
    assert nodes == sorted(set(nodes))
    assert candidates.num_nodes.tolist() == [sum(b == c[0] for c in nodes) for b in range(candidates.num_sentences)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("whole_numbers", [False, True])
def test_the_filter_keeps_what_is_best_labelled_not_null(whole_numbers, dtype):
    """Whole numbers tie: then null wins, and among the others the lowest."""
    for seed in range(60):
        batch = random_batch(seed, whole_numbers=whole_numbers)
        candidates = Candidates.from_local_scores(batch.tensors(dtype)[0], batch.lengths)
        expected = oracle.kept_by_filter(batch.local_scores, batch.lengths)
        assert [sorted(nodes) for nodes in candidates.segments()] == [sorted(nodes) for nodes in expected]
        check_order(candidates)


def test_null_wins_a_tie():
    local_scores = torch.tensor([[[[1.0, 1.0, 0.0]], [[0.0, 2.0, 2.0]], [[-torch.inf] * 3]]])
    assert Candidates.from_local_scores(local_scores, [3]).segments() == [(Segment(1, 2, 1),)]


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_training_rules(skip, whole_numbers):
    for seed in range(80):
        batch = random_batch(seed, whole_numbers=whole_numbers)
        local_scores = batch.tensors(torch.float32)[0]
        candidates = Candidates.for_training(local_scores, batch.lengths, batch.gold, skip)
        expected = oracle.kept_for_training(batch.local_scores, batch.lengths, batch.gold, skip)
        assert [sorted(nodes) for nodes in candidates.segments()] == expected
        check_order(candidates)


def test_a_span_may_be_a_candidate_with_two_labels_in_training():
    local_scores = torch.zeros(1, 2, 1, 3)
    local_scores[0, :, :, 2] = 1.0
    candidates = Candidates.for_training(local_scores, [2], [[Segment(0, 1, 1)]])
    assert candidates.segments() == [((0, 1, 1), (0, 1, 2))]


# ---- The graph -------------------------------------------------------------------------------------------------------


def edges_by_definition(nodes: list[Segment], as_printed: bool = False) -> Edges:
    """Every pair against every third candidate.

    `as_printed` is the paper's formula: nothing that starts after c' may start before c ends, when what is meant is
    that nothing may lie wholly between the two.
    """

    def blocks(third: Segment, left: Segment, right: Segment) -> bool:
        if as_printed:
            return third != right and left.end <= third.start and third.start < right.end
        return left.end <= third.start and third.end <= right.start

    edges: Edges = set()
    for left in nodes:
        for right in nodes:
            if left.end <= right.start and not any(blocks(third, left, right) for third in nodes):
                edges.add((left, right))
    has_predecessor, has_successor = {right for _, right in edges}, {left for left, _ in edges}
    edges |= {(None, node) for node in nodes if node not in has_predecessor}
    edges |= {(node, None) for node in nodes if node not in has_successor}
    return edges or {(None, None)}


def paths(edges: Edges) -> list[tuple[Segment, ...]]:
    """Every walk from the start to the end."""
    following: dict[Segment | None, list[Segment | None]] = {}
    for left, right in edges:
        following.setdefault(left, []).append(right)

    def onward(node: Segment | None):
        for right in following.get(node, []):
            if right is None:
                yield ()
            else:
                yield from ((right, *rest) for rest in onward(right))

    return sorted(onward(None))


def test_edges_are_those_of_the_definition():
    for nodes, length in random_graphs():
        candidates = Candidates.from_lists([nodes], [length])
        edges = candidates.edges(0)
        assert len(edges) == len(set(edges))
        assert set(edges) == edges_by_definition(nodes)
        inner = [edge for edge in edges if None not in edge]
        assert candidates.num_edges.tolist() == [len(inner)]
        assert candidates.num_nodes.tolist() == [len(nodes)]


def test_a_batch_has_the_graph_of_each_sentence():
    graphs = random_graphs(60)
    together = Candidates.from_lists([nodes for nodes, _ in graphs], [length for _, length in graphs])
    alone = [Candidates.from_lists([nodes], [length]) for nodes, length in graphs]
    assert together.num_edges.tolist() == [int(one.num_edges) for one in alone]
    assert [together.edges(b) for b in range(60)] == [one.edges(0) for one in alone]


def test_paths_are_the_maximal_sets():
    for nodes, length in random_graphs():
        assert paths(set(Candidates.from_lists([nodes], [length]).edges(0))) == sorted(oracle.maximal_sets(nodes))


def test_with_skip_paths_are_all_disjoint_sets():
    for nodes, length in random_graphs(150):
        edges = Candidates.from_lists([nodes], [length]).edges(0, skip=True)
        assert len(edges) == len(set(edges))
        assert paths(set(edges)) == sorted(oracle.disjoint_sets(nodes))


def test_the_formula_as_printed_has_other_paths():
    """Not so the rule that the paper's prose states, which is ours."""
    differs = [
        paths(edges_by_definition(nodes, as_printed=True)) != sorted(oracle.maximal_sets(nodes))
        for nodes, _ in random_graphs()
    ]
    assert sum(differs) > len(differs) / 10


def test_the_formula_as_printed_on_the_smallest_graph():
    """After (0, 1) comes (1, 3) or (2, 3). The formula lets each of these stand in the other's way."""
    nodes = [Segment(0, 1, 1), Segment(1, 3, 1), Segment(2, 3, 1)]
    first, wide, narrow = nodes
    assert paths(set(Candidates.from_lists([nodes], [3]).edges(0))) == [(first, wide), (first, narrow)]
    assert paths(edges_by_definition(nodes, as_printed=True)) != [(first, wide), (first, narrow)]


def everything(length: int, max_width: int | None = None) -> Candidates:
    widest = max_width or length
    spans = [(i, j, 1) for i in range(length) for j in range(i + 1, min(i + widest, length) + 1)]
    return Candidates.from_lists([spans], [length])


@pytest.mark.parametrize("length", range(1, 13))
def test_size_of_the_full_graph(length):
    """Propositions 3.1 and 3.2 of the paper."""
    candidates = everything(length)
    assert candidates.num_nodes.tolist() == [length * (length + 1) // 2]
    assert candidates.num_edges.tolist() == [length * (length - 1) * (length + 1) // 6]


def test_a_window_holds_at_most_as_many_ends_as_there_are_widths():
    random = np.random.default_rng(1)
    for trial in range(200):
        max_width, length = int(random.integers(1, 5)), int(random.integers(4, 20))
        spans = everything(length, max_width).segments()[0]
        kept = [span for span in spans if random.random() < (0.2, 0.5, 1.0)[trial % 3]]
        candidates = Candidates.from_lists([kept], [length])
        windows = candidates.windows()
        bounds = [*zip(windows.first, windows.last), *zip(windows.end_first, windows.end_last)]
        assert all(len(set(candidates.end[first:last].tolist())) <= max_width for first, last in bounds)


# ---- One filter, several ways ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mask_equals_the_compiled_filter(dtype):
    """For numbers of labels on both sides of the widths that are compared at once."""
    for num_labels in range(1, 41):
        for whole_numbers in (False, True):
            batch = random_batch(num_labels, (6, 0, 4), 3, num_labels, whole_numbers)
            local_scores, lengths = batch.tensors(dtype)[0], torch.tensor(batch.lengths)
            for gold, skip in ((None, False), (batch.gold, False), (batch.gold, True)):
                ready = gold and Gold.from_segments(gold, local_scores.shape)
                masked = Candidates.of_mask(candidate_mask(local_scores, lengths, ready, skip), lengths).on_host()
                filtered = cpu.filter_spans(local_scores.numpy(), lengths.numpy(), ready and ready.segments, skip)
                for ours, theirs in zip(masked, filtered.graph):
                    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("num_labels", range(2, 41))
def test_the_one_label_above_null_is_found_wherever_it_stands(num_labels):
    local_scores = np.zeros((1, num_labels, 1, num_labels), np.float32)
    places = np.arange(1, num_labels)
    local_scores[0, places, 0, places] = 1.0
    kept = cpu.filter_spans(local_scores, np.array([num_labels]))
    _, start, _, label = kept.graph
    assert start.tolist() == label.tolist() == places.tolist()


def test_more_candidates_than_the_usual_room():
    """With everything kept the filter runs again, with room for every span."""
    batch = random_batch(0, (12, 3, 9), 5, 4)
    batch.local_scores[..., 0] = -100.0
    expected = oracle.kept_by_filter(batch.local_scores, batch.lengths)
    assert sum(map(len, expected)) > 3 * USUAL
    candidates = Candidates.from_local_scores(batch.tensors(torch.float32)[0], batch.lengths)
    assert [sorted(nodes) for nodes in candidates.segments()] == [sorted(nodes) for nodes in expected]
    for skip in (False, True):
        candidates = Candidates.for_training(batch.tensors(torch.float32)[0], batch.lengths, batch.gold, skip)
        expected = oracle.kept_for_training(batch.local_scores, batch.lengths, batch.gold, skip)
        assert [sorted(nodes) for nodes in candidates.segments()] == expected


# ---- Threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def any_work_is_worth_a_thread(monkeypatch):
    monkeypatch.setattr(jit, "WORTH_A_THREAD", 1)


def same(one, other) -> None:
    assert len(one) == len(other)
    for ours, theirs in zip(one, other):
        np.testing.assert_array_equal(ours, theirs)


def busy_batch(seed: int, keeps_everything: bool = False) -> tuple[Batch, np.ndarray]:
    batch = random_batch(seed, (7, 0, 12, 1, 5, 9, 0), 4, 5)
    batch.local_scores[..., 0] -= 100.0 if keeps_everything else 0.0
    return batch, np.array(batch.lengths)


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
@pytest.mark.parametrize("threads", [2, 4, 16])
@pytest.mark.parametrize("keeps_everything", [False, True])
def test_many_threads_filter_like_one(keeps_everything, threads):
    for seed in range(3):
        batch, lengths = busy_batch(seed, keeps_everything)
        for gold in (None, flat_segments(batch.gold)):
            for skip in (False, True):
                one, many = (cpu.filter_spans(batch.local_scores, lengths, gold, skip, threads=t) for t in (1, threads))
                same(one[:2], many[:2])
                arguments = (batch.local_scores, batch.scores, batch.transition, lengths, gold, skip, True)
                same(*(cpu.segments_from_scores(*arguments, threads=t) for t in (1, threads)))


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
@pytest.mark.parametrize("skip", [False, True])
def test_many_threads_sweep_the_graph_like_one(skip):
    for seed in range(3):
        batch, lengths = busy_batch(seed)
        kept = cpu.segments_from_scores(batch.local_scores, batch.scores, batch.transition, lengths)
        arguments = (*kept.graph, kept.score, batch.transition, lengths, skip)
        same(*(cpu.filtered_best(*arguments, threads=t) for t in (1, 4)))
        same(*(cpu.filtered_sums(*arguments, threads=t) for t in (1, 4)))


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
def test_many_threads_segment_and_tag_like_one():
    for seed in range(3):
        batch, lengths = busy_batch(seed)
        tag_scores = np.ascontiguousarray(batch.scores[:, :, 0])
        for scores, best, sums in (
            (batch.scores, cpu.semi_markov_best, cpu.semi_markov_sums),
            (tag_scores, cpu.linear_chain_best, cpu.linear_chain_sums),
        ):
            same(*(best(scores, batch.transition, lengths, threads=t) for t in (1, 4)))
            same(*(sums(scores, batch.transition, lengths, threads=t) for t in (1, 4)))


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
def test_what_a_thread_finds_wrong_is_raised():
    batch, lengths = busy_batch(0)
    batch.local_scores[5, 2, 0, 1] = np.nan
    with pytest.raises(ValueError, match="must be numbers below"):
        cpu.filter_spans(batch.local_scores, lengths, threads=4)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("ask", [cpu.segments_from_scores, cpu.kept_scores])
@pytest.mark.usefixtures("any_work_is_worth_a_thread")
def test_the_kernels_look_at_what_they_are_given(ask, threads):
    batch, lengths = busy_batch(0)
    for wrong in (-1, 13):
        with pytest.raises(ValueError, match=f"lengths must lie between 0 and 12, the number of tokens, got {wrong}"):
            ask(
                batch.local_scores,
                batch.scores,
                batch.transition,
                np.where(lengths == 5, wrong, lengths),
                threads=threads,
            )
    for wrong in (np.nan, np.inf):
        transition = batch.transition.copy()
        transition[1, 2] = wrong
        with pytest.raises(ValueError, match="transition must be numbers below"):
            ask(batch.local_scores, batch.scores, transition, lengths, threads=threads)
