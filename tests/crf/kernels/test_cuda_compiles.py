"""The Triton kernels are not only interpreted: all of them compile for a real GPU, without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("spansieve.crf.kernels.cuda", reason="needs Triton", exc_type=ImportError)
KERNELS = (
    "_cross_entropy", "_fill", "_spread_gradient", "expectations", "filter_spans", "filtered_sweep", "follow_paths",
    "semi_markov_sweep", "trace_back", "weighted",
)  # fmt: skip


def test_every_kernel_compiles(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    program = Path(__file__).with_name("compiling.py")
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert tuple(done.stdout.split()) == KERNELS
