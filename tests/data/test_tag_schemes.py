"""Tags ↔ segments: round trips, conlleval's reading of ill-formed sequences, strictness, detection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.example import DataError
from spansieve.data.tag_schemes import SCHEMES, scheme_of_tags, segments_of_tags, tags_of_segments
from spansieve.segments import NamedSegment

LABELS = ("PER", "ORG-GPE", "E-MAIL")
PREFIXED = [scheme for scheme in SCHEMES if scheme not in ("IO", "plain")]


@st.composite
def segmentations(draw, may_touch=True):
    """A length and disjoint segments within it; without `may_touch` there is a token between any two."""
    position, segments = 0, []
    for _ in range(draw(st.integers(0, 5))):
        start = position + draw(st.integers(0, 3)) + (0 if may_touch else 1)
        end = start + draw(st.integers(1, 4))
        segments.append(NamedSegment(start, end, draw(st.sampled_from(LABELS))))
        position = end
    return position + draw(st.integers(0, 3)), segments


def conlleval_segments(tags):
    """What conlleval counts, written the way it decides: does a segment end before this token, does one start at it?"""
    segments, start = [], None
    before, label_before = "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, label = tag.partition("-")
        differs = label != label_before
        ends = before != "O" and (before in "ES" or prefix in "BSO" or differs)
        starts = prefix != "O" and (prefix in "BS" or before in "ESO" or differs)
        if ends:
            segments.append((start, position, label_before))
        if starts:
            start = position
        before, label_before = prefix, label
    return segments


@pytest.mark.parametrize("scheme", PREFIXED)
@given(segmentations())
def test_tags_and_back(scheme, case):
    length, segments = case
    tags = tags_of_segments(segments, length, scheme)
    assert len(tags) == length
    assert segments_of_tags(tags, scheme, strict=True) == segments


@pytest.mark.parametrize("scheme", ["IO", "plain"])
@given(segmentations(may_touch=False))
def test_tags_and_back_where_none_touch(scheme, case):
    length, segments = case
    assert segments_of_tags(tags_of_segments(segments, length, scheme), scheme) == segments


@given(st.lists(st.sampled_from(["O", *(f"{p}-{label}" for p in "BIES" for label in ("X", "Y"))])))
def test_any_sequence_is_read_as_conlleval_reads_it(tags):
    assert segments_of_tags(tags, "BIOES") == conlleval_segments(tags)


@given(segmentations())
def test_schemes_are_found_out_from_a_file(case):
    length, segments = case
    touching = [NamedSegment(0, 2, "PER"), NamedSegment(2, 3, "PER"), NamedSegment(4, 5, "ORG")]
    for scheme in PREFIXED:
        file = [tags_of_segments(segments, length, scheme), tags_of_segments(touching, 6, scheme)]
        assert scheme_of_tags(file) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ([], "BIO"),
        (["O", "O"], "BIO"),
        (["I-A", "O", "I-B"], "IO"),
        (["I-A", "B-A"], "IOB1"),
        (["B-A", "O", "I-A"], "BIO"),  # ill-formed, read the same
        (["S-A"], "BIOES"),
        (["B-A", "M-A", "E-A"], "BIOES"),
        (["U-A"], "BILOU"),
        (["PER", "O"], "plain"),
        (["B", "I", "O"], "BIO"),
    ],
)
def test_what_a_scheme_looks_like(tags, scheme):
    assert scheme_of_tags([tags]) == scheme


def test_tags_of_two_kinds_are_refused():
    with pytest.raises(DataError, match=r"must all have a prefix or none, got 'B-PER' and 'LOC'"):
        scheme_of_tags([["B-PER", "LOC"]])
    assert segments_of_tags(["E-MAIL", "LOC"], "plain") == [(0, 1, "E-MAIL"), (1, 2, "LOC")]


@pytest.mark.parametrize(
    ("tags", "scheme", "position"),
    [
        (["O", "I-A"], "BIO", 2),
        (["B-A", "I-B"], "BIO", 2),
        (["O", "B-A"], "IOB1", 2),
        (["B-A", "O"], "BIOES", 2),
        (["B-A"], "BILOU", 2),
        (["S-A", "E-A"], "BIOES", 2),
        (["B-A", "S-A"], "BIO", 2),
        (["L-A"], "BIOES", 1),
    ],
)
def test_strict_names_the_first_position_that_breaks_the_scheme(tags, scheme, position):
    with pytest.raises(DataError, match=rf"tag {position} .*{scheme}"):
        segments_of_tags(tags, scheme, strict=True)
    assert segments_of_tags(tags, scheme)


def test_tags_without_a_label_still_mark_segments():
    assert segments_of_tags(["B", "I", "O", "B"]) == [(0, 2, "ENTITY"), (3, 4, "ENTITY")]


def test_a_tag_without_prefix_is_named():
    with pytest.raises(DataError, match=r"tag 2 must be O or begin with a prefix such as B- or I-, got '0'"):
        segments_of_tags(["O", "0"], "BIO")


def test_what_tags_cannot_say_is_refused():
    with pytest.raises(ValueError, match=r"must not overlap .* got \(0, 2, 'A'\) and \(1, 3, 'B'\)"):
        tags_of_segments([(1, 3, "B"), (0, 2, "A")], 3)
    with pytest.raises(ValueError, match="within the 2 tokens"):
        tags_of_segments([(1, 3, "A")], 2)
    with pytest.raises(ValueError, match="cannot tell two adjacent A segments apart"):
        tags_of_segments([(0, 1, "A"), (1, 2, "A")], 2, "IO")
    with pytest.raises(ValueError, match="means null"):
        tags_of_segments([(0, 1, "O")], 1, "plain")
    with pytest.raises(ValueError, match="scheme must be one of BIO, IOB1"):
        tags_of_segments([], 1, "BOI")


def test_names_that_others_use_for_a_scheme():
    assert tags_of_segments([(0, 1, "A")], 1, "iobes") == ["S-A"]
    assert tags_of_segments([(0, 1, "A")], 1, "IOB2") == ["B-A"]
