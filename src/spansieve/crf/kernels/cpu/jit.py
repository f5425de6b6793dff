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
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime import rtsys


class _CacheOfUsed:
    """Numba's cache of a function on disk, found when the function is first called rather than when it is defined.

    To load compiled code Numba would first import all that it could compile, and SciPy with it, which takes longer
    than a sentence does. What code on disk needs of that is the allocator alone.
    """

    def __init__(self, function: Callable) -> None:
        self._function = function

    @functools.cached_property
    def _cache(self) -> FunctionCache | NullCache:
        """Where Numba keeps compiled code: in NUMBA_CACHE_DIR, beside the source or in the user's home. Where none can
        be written, in the folder for temporary files, or nowhere."""
        try:
            return _function_cache(self._function)
        except RuntimeError:  # no place that can be written
            folder, before = _temporary_cache(), config.CACHE_DIR
        if folder is None:
            return NullCache()
        try:
            config.CACHE_DIR = folder  # which is looked at here only
            return _function_cache(self._function)
        finally:
            config.CACHE_DIR = before

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        try:
            loaded = self._cache._load_overload(signature, target_context)
        except (OSError, AttributeError):  # being written by another process, another version of Numba, or no cache
            loaded = None
        # Numba's own way, after which it can compile.
        return self._cache.load_overload(signature, target_context) if loaded is None else loaded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _cached(**options: Any) -> Callable[[Callable], Callable]:
    """Return the decorator that compiles a function at its first call, and keeps it on disk for other processes."""

    def decorate(function: Callable) -> Callable:
        dispatcher = njit(nogil=True, error_model="numpy", **options)(function)
        dispatcher._cache = _CacheOfUsed(function)
        return dispatcher

    return decorate


def _function_cache(function: Callable) -> FunctionCache:
    """Numba's cache, renewed when any file of kernels has changed: by itself Numba looks at the function's own file,
    and would go on with what was inlined of another."""
    cache = FunctionCache(function)
    file = getattr(cache, "_cache_file", None)  # which another version of Numba may not have
    if file is not None:
        file._source_stamp = (file._source_stamp, _stamp_of_kernels())
    return cache


@functools.cache
def _stamp_of_kernels() -> tuple[tuple[int, int], ...]:
    """When each file of kernels was written, and its size."""
    found = (path.stat() for path in sorted(Path(__file__).parent.glob("*.py")))
    return tuple((file.st_mtime_ns, file.st_size) for file in found)


@functools.cache
def _temporary_cache() -> str | None:
    """A folder for code that is run, and so one that no other user can write."""
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
    if hasattr(os, "register_at_fork"):
        # Threads do not survive a fork: a child that inherited a pool would wait for them for ever.
        os.register_at_fork(after_in_child=_pool.cache_clear)
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="spansieve")
