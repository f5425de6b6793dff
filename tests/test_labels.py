from __future__ import annotations

import pytest

from spansieve.labels import LabelSet


def test_names_and_ids():
    labels = LabelSet(["PER", "ORG"])
    assert [labels.id(name) for name in labels] == [1, 2]
    assert [labels.name(i) for i in (1, 2)] == ["PER", "ORG"]
    assert len(labels) == 3


@pytest.mark.parametrize("names", [["PER", "PER"], [""]])
def test_names_are_distinct_and_not_empty(names):
    with pytest.raises(ValueError, match="distinct and not empty"):
        LabelSet(names)


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(KeyError, match="unknown label 'GPE'; known are ORG, PER"):
        LabelSet(["PER", "ORG"]).id("GPE")


@pytest.mark.parametrize("label", [0, 3, -1])
def test_null_and_beyond_have_no_name(label):
    with pytest.raises(KeyError, match="between 1 and 2"):
        LabelSet(["PER", "ORG"]).name(label)
