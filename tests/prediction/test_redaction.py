"""Redaction: what is covered is replaced, and nothing else changes."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spansieve.prediction.redaction import Redactor, redact_stream
from tests.prediction.trained import FAMILIAR, trained

TEXT = "Ada Lovelace lives in New York ."
KEY = b"sixteen bytes at least"
UNICODE = st.lists(st.sampled_from(FAMILIAR) | st.text(st.characters(exclude_categories=["Cs"])), max_size=8).map(
    " ".join
)


def unchanged(text: str, redacted) -> bool:
    """Whether both texts are the same but for the replacements."""
    reached = redacted_reached = 0
    for r in redacted.replacements:
        if text[reached : r.start] != redacted.text[redacted_reached : r.redacted_start]:
            return False
        reached, redacted_reached = r.end, r.redacted_end
    return text[reached:] == redacted.text[redacted_reached:]


@pytest.mark.parametrize(
    ("style", "expected"),
    [("label", "[PER] lives in [LOC] ."), ("mask", "************ lives in ******** .")],
)
def test_entities_are_replaced(predictor, style, expected):
    (redacted,) = Redactor(predictor, style=style)([TEXT])
    assert redacted.text == expected
    assert [TEXT[r.start : r.end] for r in redacted.replacements] == ["Ada Lovelace", "New York"]
    assert unchanged(TEXT, redacted)


def test_a_pseudonym_is_the_same_for_the_same_words_under_the_same_key(predictor):
    def pseudonyms(text, key):
        (redacted,) = Redactor(predictor, style="pseudonym", key=key)([text])
        return {redacted.text[r.redacted_start : r.redacted_end] for r in redacted.replacements}

    name = pseudonyms("Ada Lovelace", KEY)
    assert pseudonyms("Ada  Lovelace lives in New York .", KEY) > name
    assert pseudonyms("Ada Lovelace", KEY + b"x") != name
    assert pseudonyms("Ada Lovelace", None) != pseudonyms("Ada Lovelace", None)


def test_a_lower_threshold_covers_more_and_always_what_is_predicted(one_thread):
    predictor = trained("crf")  # without a filter, so that every token has some probability
    texts = [TEXT, "the word lives in Rome , we went to Ada"]
    found = [
        [{i for r in one.replacements for i in range(r.start, r.end)} for one in Redactor(predictor, threshold)(texts)]
        for threshold in (1.0, 0.5, 0.01, 1e-6)
    ]
    for more, fewer in zip(found[1:], found):
        assert all(a >= b for a, b in zip(more, fewer))
    assert found[-1] != found[0]
    for text, covered in zip(texts, found[0]):
        assert covered >= {i for e in predictor.predict(text) for i in range(e.start, e.end)}


def test_labels_that_are_not_asked_for_stay(predictor):
    assert Redactor(predictor, {"LOC": 0.5})([TEXT])[0].text == "Ada Lovelace lives in [LOC] ."


@given(UNICODE)
@settings(max_examples=60, deadline=None)
@example("\ufeffAda Lovelace\u2028 in New\u00a0York \x00 👍🏽")
def test_all_outside_of_the_replaced_spans_is_unchanged(predictor, text):
    for style in ("label", "mask", "pseudonym"):
        (redacted,) = Redactor(predictor, 0.05, style=style)([text])
        assert unchanged(text, redacted)
        assert style != "mask" or len(redacted.text) == len(text)


@given(st.lists(UNICODE, max_size=5), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_stream_is_redacted_line_by_line(predictor, texts, newline, by_paragraph):
    content = newline.join(texts)
    redactor = Redactor(predictor, 0.05)
    form = "paragraphs" if by_paragraph else "lines"
    lines = [line for batch in redact_stream(redactor, io.BytesIO(content.encode()), form) for line in batch]
    found = b"".join(line.raw for line in lines).decode()
    if not by_paragraph:
        pieces = content.split("\n")
        bodies = [piece.rstrip("\r") if i < len(pieces) - 1 else piece.rstrip("\r\n") for i, piece in enumerate(pieces)]
        expected = [
            redacted.text + piece[len(body) :] for redacted, body, piece in zip(redactor(bodies), bodies, pieces)
        ]
        assert found == "\n".join(expected)


def test_offsets_of_a_long_line_go_on_from_piece_to_piece(predictor, monkeypatch):
    monkeypatch.setattr("spansieve.data.text_fields.MAX_PIECE", 64)
    text = "word word Ada Lovelace lives in New York . " * 20
    lines = [line for batch in redact_stream(Redactor(predictor), io.BytesIO(text.encode())) for line in batch]
    assert len(lines) > 3
    redacted = b"".join(line.raw for line in lines).decode()
    found = [replacement for line in lines for _, replacement in line.replacements]
    assert {text[r.start : r.end] for r in found} <= {"Ada Lovelace", "Ada", "Lovelace", "New York", "New", "York"}
    assert {redacted[r.redacted_start : r.redacted_end] for r in found} == {"[PER]", "[LOC]"}


def test_a_line_is_answered_before_the_next_one_comes(predictor):
    answered: list[bytes] = []
    for batch in redact_stream(Redactor(predictor), Gate(answered)):
        answered += [line.raw for line in batch]
    assert answered == [b"[PER]\n"] * 3


class Gate(io.RawIOBase):
    """A stream of three lines, each of which comes when the ones before have been answered."""

    def __init__(self, answered):
        self.answered, self.sent = answered, 0

    def readline(self, size=-1):
        until = time.monotonic() + 30
        while len(self.answered) < self.sent:
            assert time.monotonic() < until, "a line was not answered before the next one came"
            time.sleep(0.01)
        self.sent += 1
        return b"Ada Lovelace\n" if self.sent <= 3 else b""


def test_what_cannot_be_is_refused(predictor):
    with pytest.raises(ValueError, match="unknown label 'XYZ'; known are LOC, PER"):
        Redactor(predictor, {"XYZ": 0.5})
    with pytest.raises(ValueError, match="threshold must lie in"):
        Redactor(predictor, 0.0)
    with pytest.raises(ValueError, match="style must be one of"):
        Redactor(predictor, style="black")
    with pytest.raises(ValueError, match="at least 16 bytes, got 3"):
        Redactor(predictor, key=b"abc")
