"""How long compiled kernels are kept; and where, when neither the package's folder nor the home can be written."""

from __future__ import annotations

import os
import tempfile

import pytest
from numba import config

from spansieve.crf.kernels.cpu import jit


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder for temporary files; where Numba keeps kernels by itself nothing can be written."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jit._temporary_cache.cache_clear()
    really = jit.FunctionCache

    def cache(function):
        if not config.CACHE_DIR.startswith(str(tmp_path)):
            raise RuntimeError(f"cannot cache function {function.__name__!r}: no locator available")
        return really(function)

    monkeypatch.setattr(jit, "FunctionCache", cache)
    yield tmp_path
    jit._temporary_cache.cache_clear()


def twice(x):
    return 2 * x


def test_kernels_are_kept_among_temporary_files(temporary):
    before = config.CACHE_DIR
    assert jit._cached()(twice)(3) == 6
    assert before == config.CACHE_DIR  # other packages' functions go where they went
    (folder,) = temporary.iterdir()
    assert list(folder.rglob("*.nbi"))
    if hasattr(os, "getuid"):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs a POSIX system")
@pytest.mark.parametrize("kind", ["others can write it", "a link", "a file"])
def test_code_of_others_is_not_run(temporary, kind):
    folder = temporary / f"spansieve-numba-{os.getuid()}"
    if kind == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(temporary / "elsewhere")
    elif kind == "a file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert jit._temporary_cache() is None
    assert jit._cached()(twice)(3) == 6  # compiled, and not kept
    assert not list(temporary.rglob("*.nbi"))


def test_a_change_of_any_kernel_renews_all(temporary, monkeypatch):
    def hits_on_disk() -> int:
        doubled = jit._cached()(twice)
        assert doubled(3) == 6
        return sum(doubled.stats.cache_hits.values())

    assert [hits_on_disk(), hits_on_disk()] == [0, 1]
    monkeypatch.setattr(jit, "_stamp_of_kernels", lambda: ((1, 2),))
    assert [hits_on_disk(), hits_on_disk()] == [0, 1]


def test_the_stamp_is_of_every_kernel(tmp_path, monkeypatch):
    stamp = jit._stamp_of_kernels.__wrapped__
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    for name in ("jit.py", "sweeps.py"):
        (tmp_path / name).write_text("x = 1")
    before = stamp()
    assert before == stamp()
    (tmp_path / "sweeps.py").write_text("x = 1.5")
    assert before != stamp()
