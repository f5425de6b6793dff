"""The compiled kernels: their arithmetic, how they are loaded and called, and scores at the edge of floats."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numba import njit
from numba.core.registry import cpu_target

from spansieve.crf import Distribution, FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.kernels import cpu, reference
from spansieve.crf.kernels.cpu import chain_sweeps, jit, simd, torch_api
from tests.batches import Batch, random_batch

# ---- Arithmetic ------------------------------------------------------------------------------------------------------


def within_ulps(actual: np.ndarray, expected: list[float], most: int) -> None:
    for got, wanted in zip(actual.tolist(), expected):
        assert abs(got - wanted) <= most * math.ulp(wanted), (got, wanted)


@njit
def exp_each(values):
    return np.array([simd.exp(value) for value in values])


@njit
def log_each(values):
    return np.array([simd.log(value) for value in values])


def test_exp_is_within_four_ulps():
    random = np.random.default_rng(0)
    near_zero = random.choice([-1.0, 1.0], 5000) * 10.0 ** random.uniform(-18, 0, 5000)
    halves = np.arange(-1020, 1022) * (math.log(2) / 2)  # where one power of two gives way to the next
    values = np.concatenate((random.uniform(-707.9, 709.0, 20_000), near_zero, halves, [0.0, 709.0, -707.999, 1.0]))
    within_ulps(exp_each(values), [math.exp(value) for value in values], 4)


def test_exp_is_zero_where_float64_runs_out():
    assert not exp_each(np.array([-np.inf, -1e308, -1e4, -709.0, np.nextafter(-708.0, -np.inf), -708.0])).any()
    assert exp_each(np.array([0.0])) == 1.0


def test_log_is_within_four_ulps():
    random = np.random.default_rng(1)
    near_one = 1.0 + random.choice([-1.0, 1.0], 5000) * 10.0 ** random.uniform(-15.9, -0.5, 5000)
    anywhere = 2.0 ** random.uniform(-1021.9, 1023.9, 20_000)
    at_the_fold = np.nextafter(math.sqrt(0.5), [0.0, 0.5, 1.0]) * 2.0 ** np.arange(-5, 6)[:, None]
    edges = [sys.float_info.min, sys.float_info.max, 1.0, np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0), 2.0, 0.5]
    values = np.concatenate((near_one, anywhere, at_the_fold.ravel(), edges))
    within_ulps(log_each(values), [math.log(value) for value in values], 4)


@njit
def above_2(array, at, bound):
    return simd.any_above_2(array, at, bound)


@njit
def above_4(array, at, bound):
    return simd.any_above_4(array, at, bound)


@njit
def above_8(array, at, bound):
    return simd.any_above_8(array, at, bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("lanes", "any_above"), [(2, above_2), (4, above_4), (8, above_8)])
def test_any_above_looks_at_its_neighbours_and_no_further(lanes, any_above, dtype):
    bound = dtype(0.5)
    for at in range(6):
        for place in range(20):
            for value in (1.0, np.nextafter(bound, dtype(1)), np.nan, np.inf, 0.5, 0.0, -np.inf):
                array = np.full(20, -1.0, dtype)
                array[place] = value
                assert any_above(array, at, bound) == (at <= place < at + lanes and not array[place] <= bound)


@njit
def rows_8(values, step, rows, width, out):
    simd.weighted_rows_8(values, 1, step, rows, 2, width, 6, out, 3)


@njit
def rows_16(values, step, rows, width, out):
    simd.weighted_rows_16(values, 1, step, rows, 2, width, 6, out, 3)


@njit
def rows_32(values, step, rows, width, out):
    simd.weighted_rows_32(values, 1, step, rows, 2, width, 6, out, 3)


@pytest.mark.parametrize(("lanes", "weighted_rows"), [(8, rows_8), (16, rows_16), (32, rows_32)])
@pytest.mark.parametrize("step", [1, 3])
def test_weighted_rows_are_a_product_and_touch_nothing_else(lanes, weighted_rows, step):
    random = np.random.default_rng(0)
    values, rows, out = random.normal(size=20), random.normal(size=400), np.full(lanes + 6, 7.0)
    weighted_rows(values, step, rows, 40, out)
    expected = values[1 : 1 + 6 * step : step] @ rows[2 : 2 + 6 * 40].reshape(6, 40)[:, :lanes]
    np.testing.assert_allclose(out[3 : 3 + lanes], expected, rtol=1e-14)
    assert (out[:3] == 7.0).all()
    assert (out[3 + lanes :] == 7.0).all()


# ---- Loading ---------------------------------------------------------------------------------------------------------


def run_alone(code: str) -> None:
    """In a fresh interpreter; what it asserts must hold."""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


EVERY_KERNEL = "from spansieve.crf.kernels import cpu\nkernels = [getattr(cpu, name) for name in cpu.__all__]\n"


def test_kernels_come_without_torch():
    run_alone(f"{EVERY_KERNEL}import sys; assert 'torch' not in sys.modules")


def test_importing_the_package_does_nothing_but_that():
    run_alone(
        """
import os, sys, threading
before = dict(os.environ)
import spansieve
assert not {"torch", "numpy", "numba"} & set(sys.modules)
assert threading.active_count() == 1
assert not os.path.isdir("/proc/self/task") or len(os.listdir("/proc/self/task")) == 1
assert dict(os.environ) == before
"""
    )


def test_importing_the_kernels_starts_no_thread_of_ours():
    run_alone(f"{EVERY_KERNEL}import threading; assert threading.active_count() == 1")


DOUBLED = """
import sys
import numpy as np
from spansieve.crf.kernels.cpu.jit import allocating

@allocating
def doubled(values):
    return values * FACTOR

@allocating
def increased(values):
    return values + 1.0

assert doubled(np.ones(3)).tolist() == [FACTOR] * 3
was_compiled = "numba.np.arraymath" in sys.modules  # what Numba imports to compile anything
assert was_compiled is (sys.argv[1] == "compiled"), was_compiled
if len(sys.argv) > 2:
    assert increased(np.ones(3)).tolist() == [2.0] * 3
"""


def test_compiled_code_is_loaded_from_disk_without_the_compiler(tmp_path):
    program, variables = tmp_path / "program.py", os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, program, *arguments], check=True, timeout=120, env=variables)

    program.write_text(DOUBLED.replace("FACTOR", "2.0"))
    run("compiled")
    assert len([*(tmp_path / "cache").rglob("*.nbi")]) == 1  # of what was called
    run("loaded", "and compile another function then")
    program.write_text(DOUBLED.replace("FACTOR", "2.25"))  # another source, by its time, its size and its content
    run("compiled")


def test_a_numba_that_keeps_code_in_another_way_loads_it_in_its_own():
    cache = jit._CacheOfUsed(lambda values: values)
    cache.__dict__["_cache"] = SimpleNamespace(load_overload=lambda *_: "loaded by Numba", cache_path="here")
    assert cache.load_overload("signature", cpu_target.target_context) == "loaded by Numba"
    assert cache.cache_path == "here"


# ---- Threads and processes -------------------------------------------------------------------------------------------


@pytest.fixture
def any_work_is_worth_a_thread(monkeypatch):
    monkeypatch.setattr(jit, "WORTH_A_THREAD", 1)


def everything_asked(batch: Batch, threads: int) -> list[np.ndarray]:
    """What each kernel answers, in one list."""
    lengths = np.array(batch.lengths)
    tag_scores = np.ascontiguousarray(batch.scores[:, :, 0])
    dense = (batch.local_scores, batch.scores, batch.transition, lengths)
    kept = cpu.segments_from_scores(*dense, threads=threads)
    flat = (*kept.graph, kept.score, batch.transition, lengths, False)
    kept_scores = cpu.kept_scores(*dense, threads=threads)
    return [
        *kept,
        kept_scores,
        *cpu.dense_skip_sums(kept_scores, batch.transition, lengths, threads=threads),
        *cpu.dense_skip_best(kept_scores, batch.transition, lengths, threads=threads),
        *cpu.filter_spans(batch.local_scores, lengths, threads=threads)[:2],
        *cpu.filtered_best(*flat, threads=threads),
        *cpu.filtered_sums(*flat, threads=threads),
        *cpu.semi_markov_best(batch.scores, batch.transition, lengths, threads=threads),
        *cpu.semi_markov_sums(batch.scores, batch.transition, lengths, threads=threads),
        *cpu.linear_chain_best(tag_scores, batch.transition, lengths, threads=threads),
        *cpu.linear_chain_sums(tag_scores, batch.transition, lengths, threads=threads),
    ]


def is_same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other))


LENGTHS = (9, 0, 14, 3, 7, 1)


@pytest.mark.usefixtures("any_work_is_worth_a_thread")
@pytest.mark.parametrize("threads", [1, 3])
def test_callers_in_several_threads_do_not_meet(threads):
    batches = [random_batch(seed, LENGTHS, 4, 5) for seed in range(24)]
    expected = [everything_asked(batch, 1) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda batch: everything_asked(batch, threads), batches * 4))
    assert all(is_same(ours, theirs) for ours, theirs in zip(found, expected * 4))


def in_child(batch: Batch, expected: list[np.ndarray]) -> None:
    sys.exit(0 if is_same(everything_asked(batch, 4), expected) else 3)


@pytest.mark.skipif(not hasattr(jit.os, "fork"), reason="no fork here")
@pytest.mark.usefixtures("any_work_is_worth_a_thread")
def test_a_forked_child_has_threads_of_its_own():
    """A data loader forks after the parent has used its threads, which do not come along."""
    batch = random_batch(0, LENGTHS, 4, 5)
    expected = everything_asked(batch, 4)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(batch, expected))
    child.start()
    child.join(60)
    has_ended = not child.is_alive()
    if not has_ended:
        child.kill()
    assert has_ended
    assert child.exitcode == 0
    assert is_same(everything_asked(batch, 4), expected)  # and the parent goes on


# ---- Against the reference, where enumeration does not reach ---------------------------------------------------------

MAKERS = {
    "linear_chain": lambda local, scores, *rest, kernel: LinearChain(scores[:, :, 0], *rest, kernel=kernel),
    "semi_markov": lambda local, *rest, kernel: SemiMarkov(*rest, kernel=kernel),
    "unit_null": lambda local, *rest, kernel: SemiMarkov(*rest, True, kernel=kernel),
    "filtered": lambda *rest, kernel: FilteredSemiMarkov.from_scores(*rest, kernel=kernel),
    "filtered_skip": lambda *rest, kernel: FilteredSemiMarkov.from_scores(*rest, skip=True, kernel=kernel),
}


def agree(make: Callable[..., Distribution], batch: Batch, tolerance: float = 1e-9) -> None:
    inputs = (*batch.tensors(torch.float64), batch.lengths)
    ours, expected = (make(*inputs, kernel=kernel) for kernel in (torch_api, reference))
    for name in ("log_partition", "marginals", "transition_counts"):
        torch.testing.assert_close(getattr(ours, name), getattr(expected, name), rtol=tolerance, atol=tolerance)
    assert ours.max_score.equal(expected.max_score)
    if (expected.max_score > -torch.inf).all():
        assert ours.mode == expected.mode


def extreme_batch(seed: int, scores: list[float], transitions: list[float]) -> Batch:
    """Some of the normal scores replaced by those given."""
    random = np.random.default_rng(seed)
    batch = random_batch(seed, (6, 1, 0, 5), 1 + seed % 4, 1 + seed % 9)
    for array, extremes in ((batch.scores, scores), (batch.transition, transitions)):
        is_extreme = random.random(array.shape) < random.choice([0.2, 0.6, 1.0])
        array[is_extreme] = random.choice(extremes, int(is_extreme.sum()))
    return batch


@pytest.mark.parametrize("model", list(MAKERS))
@pytest.mark.parametrize(
    ("scores", "transitions"),
    [
        ([1e4, -1e4], [0.0]),
        ([1e4, -1e4, -np.inf, 0.0], [1e4, -1e4, -np.inf]),
        ([0.0, 1.0], [2000.0, -2000.0]),
        ([700.0, -700.0, 0.0], [2000.0, -2000.0, 0.0, -np.inf]),
        ([-np.inf, 0.0], [-np.inf, 0.0]),
    ],
    ids=["large_scores", "large_everything", "large_transitions", "beyond_exp", "impossible"],
)
def test_extreme_scores_equal_the_reference(model, scores, transitions):
    for seed in range(18):
        agree(MAKERS[model], extreme_batch(seed, scores, transitions))


@pytest.mark.parametrize("spread", [50.0, 130.0, 137.9, 138.1, 150.0, 400.0])
@pytest.mark.parametrize("num_labels", [2, 7, 8, 9, 31, 41])
def test_a_chain_at_the_edge_of_scaled_probabilities(spread, num_labels):
    """Sums of scaled probabilities give way to sums in log space, sentence by sentence, and nobody sees where."""
    batch = random_batch(num_labels, (6, 5, 0, 1), 1, num_labels)
    batch.scores[0, ::2, :, 0] -= spread
    batch.scores[1, 1:, :, 1:] -= spread
    batch.transition[0] -= spread / 2
    batch.transition[-1, -1] = -np.inf
    agree(MAKERS["linear_chain"], batch)


def test_what_is_impossible_leaves_a_chain_in_range(monkeypatch):
    """Constraints do not send a sentence into log space, which takes twice as long; a score of -1e4 does."""
    seen = []
    monkeypatch.setattr(chain_sweeps, "_sum_in_log_space", lambda which, *_: seen.extend(which))
    batch = random_batch(0, (6, 5, 4), 1, 9)
    batch.transition[3:, :3] = batch.scores[0, 2, :, 4:] = -np.inf
    lengths, tag_scores = np.array(batch.lengths), np.ascontiguousarray(batch.scores[:, :, 0])
    cpu.linear_chain_sums(tag_scores, batch.transition, lengths)
    assert not seen
    tag_scores[1, 0, 0] = -1e4
    cpu.linear_chain_sums(tag_scores, batch.transition, lengths)
    assert seen == [1]


@pytest.mark.parametrize("model", ["linear_chain", "semi_markov"])
def test_what_is_likely_though_the_best_on_both_sides_do_not_meet(model):
    """Label 0 is by far the best before each boundary and label 1 after it, but the one cannot follow the other."""
    batch = random_batch(0, (4, 4), 2, 3)
    batch.transition[:] = [[0.0, -4000.0, -2000.0], [2000.0, 0.0, -1500.0], [1500.0, 0.0, 2000.0]]
    batch.scores[:, :2, :, 0] += 1500.0
    batch.scores[:, 2:, :, 1] += 1500.0
    agree(MAKERS[model], batch)


@pytest.mark.parametrize("num_labels", [1, 3, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("max_width", [1, 2, 5])
def test_all_numbers_of_labels_and_widths(num_labels, max_width):
    """Loops over labels run four at a time, and change their order at eight."""
    for model in ("linear_chain", "semi_markov", "filtered"):
        agree(MAKERS[model], random_batch(num_labels, (9, 2), max_width, num_labels))


@pytest.mark.parametrize("model", list(MAKERS))
def test_long_sentences_equal_the_reference(model):
    batch = random_batch(3, (300, 171), 4, 4)
    batch.local_scores[..., 0] += 0.5
    agree(MAKERS[model], batch)


def test_gradients_of_half_of_a_batch_alone():
    """Each sentence's gradient is scaled by its own weight."""
    batch = random_batch(2, (5, 4, 0, 6), 3, 4)
    _, scores, transition = batch.tensors(torch.float64, requires_grad=True)
    semi = SemiMarkov(scores, transition, batch.lengths)
    weight = torch.tensor([0.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    to_scores, to_transition = torch.autograd.grad((weight * semi.log_partition).sum(), (scores, transition))
    assert not to_scores[0].any()
    torch.testing.assert_close(to_scores[1], 2 * semi.marginals[1].detach())
    torch.testing.assert_close(to_transition, 2 * semi.transition_counts[1].detach())
