"""Processor time and memory of this process: who works shows, who sleeps does not."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.process_usage import LEAST_TURNS, TURN, least_times, peak_memory
from benchmarks.timings import Contender


def test_contenders_take_turns_and_sleep_costs_nothing():
    called: list[str] = []

    def sleep() -> None:
        called.append("sleep")
        time.sleep(0.02)

    def work() -> None:
        called.append("work")
        begin = time.process_time()
        while time.process_time() - begin < 0.004:
            pass

    asleep, at_work = least_times([Contender("", "", sleep), Contender("", "", work)], seconds_each=0.0)
    assert asleep < 0.002 < 0.004 <= at_work
    assert called == ["sleep", "work"] + LEAST_TURNS * (TURN * ["sleep"] + TURN * ["work"])


def test_the_peak_is_that_since_the_reset():
    np.ones(8_000_000)
    before = peak_memory(reset=True)
    np.ones(4_000_000)
    assert 30e6 < peak_memory() - before < 60e6
