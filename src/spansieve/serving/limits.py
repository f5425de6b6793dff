"""Limits of the service, beyond which requests are refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import ClassVar


@dataclass(frozen=True)
class Limits:
    constraints: ClassVar[int] = 2_000  # in a request; checked before anything is made of them
    body_bytes: int = 1_000_000
    texts: int = 128  # in a request
    text_characters: int = 200_000
    sentence_tokens: int = 5_000  # a sentence is one piece of work, for which all others wait
    explained_characters: int = 20_000  # of all texts of a request that asks for alternatives or graphs
    alternatives: int = 10
    queue: int = 128  # requests that wait for the model
    seconds: float = 30.0  # from the body's last byte to the answer; the body itself has as long to come
    header_seconds: float = 10.0  # from the connection, or the answer before, to the end of the headers
    connections: int = 512  # beyond, that which has waited longest for its client is closed
    batch_texts: int = 256
    batch_characters: int = 32_000  # about a fifth of a second of a small model; a longer text goes alone
    batch_wait: float = 0.003  # seconds that a batch waits for more requests

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name in ("alternatives", "batch_wait") else 1 if isinstance(value, int) else 1e-3
            if not lowest <= value < inf:  # as it is of NaN
                raise ValueError(f"{field.name} must be at least {lowest}, got {value}")
