"""Where compiled kernels are kept when neither the package's folder nor the user's home can be written."""

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
