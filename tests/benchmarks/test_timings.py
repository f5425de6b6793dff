"""Contenders take turns, and what may compile is not counted."""

from __future__ import annotations

from functools import partial

from benchmarks.timings import Contender, timed_in_rounds, timed_side_by_side


def test_another_contender_goes_first_in_every_round():
    called: list[str] = []
    contenders = {name: partial(called.append, name) for name in "abc"}
    times = timed_in_rounds(contenders, rounds=2, clock=lambda run: (run(), len(called))[1])
    assert "".join(called) == "abc" + "bca" + "cab"
    assert times == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}


def test_a_turn_has_many_calls_of_what_is_fast():
    called: list[str] = []
    contenders = [Contender("task", name, partial(called.append, name)) for name in "ab"]
    first, second = timed_side_by_side(contenders, seconds_each=0.05)
    assert (first.contender, second.contender) == tuple(contenders)
    assert 0 < first.seconds < 0.001
    assert first.rounds >= 2
    assert called[:4] == ["a", "a", "b", "b"]  # one call that may compile and one to plan the turns by
