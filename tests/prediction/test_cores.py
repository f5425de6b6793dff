"""Cores are those of the process."""

from __future__ import annotations

import os

import pytest

from spansieve.prediction.onnx.session import usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process cannot be bound to cores here")
def test_a_process_that_is_bound_to_one_core_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)
