"""What goes into a model and what comes out of it, whatever runs it: no torch here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from spansieve.segments import NamedSegment

MOST_TOKENS = 4_000  # in a batch, padding included; where the encoder reads subwords, of those
MOST_SENTENCES = 256
# Of an entity under a model that filters: its marginal given what the filter kept, or that times the filter's own
# probability of the span's label. Under other models both are the marginal.
Probability = Literal["given-candidates", "with-filter"]

SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: a string can hold it, UTF-8 cannot


class Found(NamedTuple):
    """The segments that a model finds in a sentence."""

    segments: list[NamedSegment]
    probabilities: list[float] | None  # of each segment, where they were wanted


def check_probability(kind: str) -> None:
    if kind not in get_args(Probability):
        raise ValueError(f"probability must be one of {', '.join(get_args(Probability))}, got {kind!r}")


def readable_sentences(sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Check sentences and make them as encoders take them: half a character, which a string can hold and no encoding of
    text can, becomes the sign for what cannot be shown."""
    readable: list[Sequence[str]] = []
    for sentence in sentences:
        if isinstance(sentence, str):  # its characters would be the tokens
            raise TypeError(f"a sentence must be a sequence of tokens, got {sentence!r}")
        if not {str}.issuperset(map(type, sentence)):
            for token in sentence:
                if not isinstance(token, str):
                    raise TypeError(f"a token must be a string, got {token!r}")
        is_whole = not SURROGATE.search("".join(sentence))
        readable.append(sentence if is_whole else [SURROGATE.sub("\ufffd", token) for token in sentence])
    return readable
