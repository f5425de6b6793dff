"""How the CPU kernels are compiled and spread over threads."""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from numba import config, njit


def _cached(**options: Any) -> Callable[[Callable], Any]:
    """Make a decorator that compiles, and keeps what was compiled where Numba keeps it: in NUMBA_CACHE_DIR, beside the
    source or in the user's home. Where none can be written, in the folder for temporary files, or nowhere."""
    options = {"nogil": True, "error_model": "numpy", **options}

    def compile(function: Callable) -> Any:
        try:
            return njit(function, cache=True, **options)
        except RuntimeError:  # no place that can be written
            folder, before = _temporary_cache(), config.CACHE_DIR
        if folder is None:
            return njit(function, **options)
        try:
            config.CACHE_DIR = folder  # which is looked at here only
            return njit(function, cache=True, **options)
        finally:
            config.CACHE_DIR = before

    return compile


@functools.cache
def _temporary_cache() -> str | None:
    """A folder for code that is run, and so one that nobody else can write."""
    user = os.getuid() if hasattr(os, "getuid") else None  # elsewhere every user has temporary files of their own
    try:
        folder = Path(tempfile.gettempdir(), "spansieve-numba" if user is None else f"spansieve-numba-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = user is None or (found.st_uid == user and not found.st_mode & 0o077)
    return str(folder) if stat.S_ISDIR(found.st_mode) and is_ours and os.access(folder, os.W_OK) else None


# May allocate. Elsewhere `_nrt=False` turns Numba's reference counting off: counts are atomic operations, taken for
# every view of an array, and would cost more than the arithmetic. Such code works on arrays that its caller holds.
allocating = _cached()
compiled = _cached(_nrt=False)
# Contraction to fused multiply-add rounds less, and infinities keep their meaning.
vectorised = _cached(_nrt=False, fastmath={"contract"})
# Reductions may be reordered, so that they can be vectorised: no NaN reaches a kernel, the distributions see to that.
reduction = _cached(_nrt=False, fastmath={"reassoc", "nnan", "nsz", "contract"})

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
