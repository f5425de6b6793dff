"""How the CPU kernels are compiled and spread over threads."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from numba import njit

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
# May allocate. Elsewhere `_nrt=False` turns Numba's reference counting off: counts are atomic operations, taken for
# every view of an array, and would cost more than the arithmetic. Such code works on arrays that its caller holds.
allocating = njit(**OPTIONS)
compiled = njit(**OPTIONS, _nrt=False)
# Contraction to fused multiply-add rounds less, and infinities keep their meaning.
vectorised = njit(**OPTIONS, _nrt=False, fastmath={"contract"})
# Reductions may be reordered, so that they can be vectorised: no NaN reaches a kernel, the distributions see to that.
reduction = njit(**OPTIONS, _nrt=False, fastmath={"reassoc", "nnan", "nsz", "contract"})

WORTH_A_THREAD = 1 << 19  # scores; below this a thread costs more than it saves


def over_sentences(sweep: Callable, num_sentences: int, threads: int, work: int, *arguments) -> list:
    """The results of sweep(first, last, *arguments) over runs of sentences, in several threads where that pays.

    Threads of our own around code that holds no lock, rather than Numba's: its thread layers differ in whether they
    survive a fork or a second calling thread, and both happen to a library (data loaders, services).
    """
    threads = min(threads, num_sentences, 1 + work // WORTH_A_THREAD)
    if threads <= 1:
        return [sweep(0, num_sentences, *arguments)]
    bounds = [num_sentences * t // threads for t in range(threads + 1)]
    others = [_pool(threads).submit(sweep, a, z, *arguments) for a, z in zip(bounds[1:], bounds[2:])]
    return [sweep(bounds[0], bounds[1], *arguments)] + [other.result() for other in others]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    _forget_pools_in_children()
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="spansieve")


@functools.cache
def _forget_pools_in_children() -> None:
    """Drop the pools: threads do not survive a fork, and a child that inherited a pool would wait for them for ever."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_pool.cache_clear)
