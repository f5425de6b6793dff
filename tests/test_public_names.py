"""What the package offers can be had from it, by name."""

from __future__ import annotations

import pytest

import spansieve


def test_every_public_name_is_there():
    assert {"Constraints", "Entity", "Segment", "load", "push_to_hub", "to_dataframe", "__version__"} == set(
        dir(spansieve)
    )
    for name in dir(spansieve):
        assert getattr(spansieve, name) is not None


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="module 'spansieve' has no attribute 'unheard_of'"):
        _ = spansieve.unheard_of
