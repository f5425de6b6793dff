"""Sentences in capitals, now and then."""

from __future__ import annotations

import pytest

from spansieve.data.augmentation import recased

TOKENS = ("Straße", "in", "Rome", "ﬁn", "42")


def test_lengths_and_what_has_no_capitals_stay():
    assert list(recased(TOKENS, 1.0, "0")) == ["Straße", "IN", "ROME", "ﬁn", "42"]


def test_never_and_the_same_for_the_same_seed():
    assert recased(TOKENS, 0.0, "0") is TOKENS
    assert [recased(TOKENS, 0.5, str(i)) for i in range(20)] == [recased(TOKENS, 0.5, str(i)) for i in range(20)]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_as_often_as_asked_for(rate):
    changed = sum(recased(TOKENS, rate, str(i)) is not TOKENS for i in range(2000))
    assert abs(changed / 2000 - rate) < 0.04
