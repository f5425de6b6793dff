"""Plans cover everything once and follow from the seed; what is prepared ahead comes in order and leaves nothing."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.batching import (
    STEPS_IN_POOL,
    batches_by_length,
    batches_of_groups,
    plan_epoch,
    prepared_ahead,
    process_batches,
)

LENGTHS = st.lists(st.integers(0, 30), max_size=60)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5), st.integers(0, 3), st.integers(1, 4))
def test_an_epoch_has_each_sentence_once(lengths, step_size, seed, epoch, smallest):
    steps = plan_epoch(lengths, step_size, seed, epoch, smallest)
    assert sorted(i for step in steps for i in step) == list(range(len(lengths)))
    assert steps == plan_epoch(lengths, step_size, seed, epoch, smallest)
    assert all(steps)


@given(st.lists(st.integers(0, 30), min_size=8, max_size=60), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_every_process_has_a_share_of_every_step(lengths, batch_size, processes, seed):
    for accumulation in (1, 2):
        step_size, smallest = batch_size * processes * accumulation, processes * accumulation
        for step in plan_epoch(lengths, step_size, seed, 0, smallest):
            assert len(step) >= min(smallest, len(lengths))
            shares = [process_batches(step, process, processes, accumulation) for process in range(processes)]
            assert all(shares)
            assert all(batch for parts in shares for batch in parts)
            assert sorted(i for parts in shares for batch in parts for i in batch) == sorted(step)


def test_epochs_and_seeds_differ():
    plans = [plan_epoch([5] * 100, 10, seed, epoch) for seed in range(2) for epoch in range(2)]
    assert len({str(plan) for plan in plans}) == 4


def test_a_plan_is_the_same_on_every_machine():
    assert plan_epoch([3, 1, 2, 5, 4], 2, seed=7, epoch=1) == [[1, 2], [3], [0, 4]]


def test_sentences_of_a_step_are_alike_in_length():
    lengths = [i % 40 for i in range(1000)]
    steps = plan_epoch(lengths, 10, 0, 0)
    assert len(steps) == 100
    spreads = [max(lengths[i] for i in step) - min(lengths[i] for i in step) for step in steps]
    assert max(spreads) <= 3
    assert len(lengths) > 10 * STEPS_IN_POOL  # more than one pool: which sentences meet is left to chance


@given(LENGTHS, st.integers(1, 60), st.integers(1, 9))
def test_batches_by_length(lengths, most_tokens, most_sentences):
    batches = list(batches_by_length(lengths, most_tokens, most_sentences))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= most_sentences
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= most_tokens


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=60), st.integers(1, 60), st.integers(1, 9))
def test_batches_of_groups(drawn, most_tokens, most_sentences):
    """Sentences of group 0 are in none."""
    lengths, group_of = [length for length, _ in drawn], [group for _, group in drawn]
    groups = [[i for i, group in enumerate(group_of) if group == wanted] for wanted in (1, 2, 3)]
    batches = batches_of_groups(lengths, groups, most_tokens, most_sentences)
    assert sorted(i for batch in batches for i in batch) == sorted(i for group in groups for i in group)
    for batch in batches:
        assert len({group_of[i] for i in batch}) == 1
        assert len(batch) <= most_sentences
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= most_tokens


# ---- Ahead of time ---------------------------------------------------------------------------------------------------


def test_what_is_prepared_ahead_comes_in_order():
    assert list(prepared_ahead(range(50), lambda i: i * i)) == [i * i for i in range(50)]
    assert list(prepared_ahead([], str)) == []


def test_it_is_prepared_ahead_but_not_too_far():
    made: list[int] = []
    items = prepared_ahead(range(100), lambda i: made.append(i) or i, depth=3)
    next(items)
    wait_until(lambda: len(made) == 4)  # one taken, three ahead
    time.sleep(0.05)
    assert len(made) == 4
    items.close()


def test_an_error_comes_at_its_place():
    def make(i: int) -> int:
        if i == 3:
            raise RuntimeError("item 3 is bad")
        return i

    items = prepared_ahead(range(10), make)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="item 3 is bad"):
        next(items)


@pytest.mark.parametrize("taken", [0, 1, 7])
def test_an_abandoned_one_leaves_no_thread(taken):
    before = threading.active_count()
    items = prepared_ahead(range(1000), lambda i: i, depth=2)
    for _ in range(taken):
        next(items)
    del items
    gc.collect()
    wait_until(lambda: threading.active_count() == before)


def test_a_finished_one_leaves_no_thread():
    before = threading.active_count()
    # As in training: the steps run out first, and the generator is never asked for more than there is.
    for _ in zip(range(5), prepared_ahead(range(5), str)):
        pass
    wait_until(lambda: threading.active_count() == before)


def wait_until(holds) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
