"""Requests that a stranger might send, drawn with a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

TEXT = "Ada Lovelace lives in New York . we went to Paris yesterday"
NUMBERS = [-1, 0, 1, 2, 59, 60, 2**31, 2**63, 2**64, 10**30, -(2**63), 0.5, 1e308, float("nan"), float("inf"), True]
VALUES: list[Any] = [*NUMBERS, None, "", "PER", "\x1b[2J", "\ud800", "x" * 1000, [], {}, [[]], [None], {"a": 1}]
RAW = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"texts": ["a"',
    b'{"texts": ["a"]} {}',
    b"\xff\xfe",
    b'{"texts": ["\xff"]}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"texts": ["a"], "alternatives": ' + b"9" * 10_000 + b"}",
    b'{"texts": ["a"], "threshold": 1e400}',
    b'{"texts": ["a"], "texts": 3}',
    b'{"texts": [' + b'"a",' * 120_000 + b'"a"]}',
    b" " * 999_999 + b"{}",
]


def hostile_requests(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield a name and a body for each of `count` requests: raw ones first, then JSON with a part gone wrong."""
    chance = random.Random(seed)
    for number in range(count):
        if number < len(RAW):
            yield f"raw {number}", RAW[number]
        else:
            body = _body(chance)
            yield f"{seed}/{number} {json.dumps(body)[:200]}", json.dumps(body).encode()


def _body(chance: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {
        "texts": [TEXT] * chance.choice([1, 1, 1, 2, 127, 129]),
        "probabilities": chance.random() < 0.5,
        "alternatives": chance.choice([0, 0, 1, 10]),
        "graph": chance.random() < 0.3,
        "threshold": chance.choice([0.0, 0.5, 1.0]),
        "constraints": None,
    }
    if chance.random() < 0.6:
        body["constraints"] = [_constraints(chance) for _ in body["texts"]]
    for _ in range(chance.choice([0, 1, 1, 2])):
        _spoil(body, chance)
    return body


def _constraints(chance: random.Random) -> dict[str, Any] | None:
    def span() -> dict[str, Any]:
        start = chance.randrange(-2, 62)
        return {"start": start, "end": start + chance.randrange(-1, 12)}

    def entity() -> dict[str, Any]:
        return {**span(), "label": chance.choice(["PER", "LOC", "ORG", "LOC", "unheard"])}

    few = chance.choice([1, 1, 2, 40])
    return {
        name: value
        for name, value in {
            "required": [entity() for _ in range(few)],
            "forbidden": [chance.choice([entity, span])() for _ in range(few)],
            "complete": [span() for _ in range(few)],
            "banned": [["PER", chance.choice(["LOC", "PER", "?"])]],
            "thresholds": {chance.choice(["PER", "?"]): chance.choice(NUMBERS)},
        }.items()
        if chance.random() < 0.4
    }


def _spoil(value: Any, chance: random.Random) -> None:
    """Put something else in the place of a value, anywhere."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        if not isinstance(value[key], (dict, list)) or not value[key] or chance.random() < 0.3:
            value[key] = chance.choice(VALUES)
            return
        value = value[key]
