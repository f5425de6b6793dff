"""The service beside those who mean it harm: good clients and probes, and how long they wait while others send headers
and bodies that never end, the largest requests that are taken, and the constraints that cost most.

All run on the machine of the service and take their share of it.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.result_page import ResultPage, Table
from benchmarks.service_load import Connection, read_metrics, sample_texts, served
from spansieve.serving.limits import Limits

TOKEN = "benchmark"
PROBES = ("/healthz", "/readyz")
SECONDS_BETWEEN_PROBES = 0.1
SECONDS_BETWEEN_BYTES = 1.0  # of a slow client


@dataclass
class Party:
    """What clients of one kind saw. Waits in seconds."""

    name: str
    waits: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)  # by status, or by what went wrong

    def wait(self, share: float) -> float:
        ordered = sorted(self.waits) or [float("nan")]
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def row(self) -> dict[str, object]:
        waits = {f"p{100 * share:g} ms": f"{1000 * self.wait(share):.0f}" for share in (0.5, 0.99)}
        largest = f"{1000 * max(self.waits):.0f}" if self.waits else "-"
        answers = ", ".join(f"{answer}: {count:,}" for answer, count in sorted(self.answers.items()))
        return {"who": self.name, "answers": answers or "none", **waits, "max ms": largest}


@dataclass
class HostileLoad:
    """What everybody saw, and the memory of the service in bytes."""

    seconds: float
    slow_clients: int
    good: Party
    probes: Party
    large: Party
    constraints: Party
    slow: Party
    memory: list[float] = field(default_factory=list)

    @property
    def parties(self) -> list[Party]:
        return [self.good, self.probes, self.large, self.constraints, self.slow]


def run_hostile_load(
    model: Path, clients: int = 32, slow_clients: int = 300, seconds: float = 60.0, threads: int | None = None
) -> HostileLoad:
    names = (
        f"{clients} good clients", "probes", "the largest requests", "the most constraints",
        f"{slow_clients} slow clients",
    )  # fmt: skip
    good, probes, large, constraints, slow = map(Party, names)
    load = HostileLoad(seconds, slow_clients, good, probes, large, constraints, slow)
    with served(model, threads, TOKEN) as address:
        asyncio.run(_run(Attack(address, load), clients))
    return load


@dataclass
class Attack:
    """Where the service is, what is seen, and when it ends."""

    address: tuple[str, int]
    load: HostileLoad
    end: float = float("inf")

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.end

    async def ask(self, party: Party, connection: Connection | None, path: str, content: Any = None) -> Connection:
        """Ask once and count the answer; over a new connection where there is none. Returns that for the next."""
        asked = time.perf_counter()
        try:
            connection = connection or await Connection.opened(*self.address)
            status, _ = await connection.ask("GET" if content is None else "POST", path, content, TOKEN)
            party.answers[str(status)] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            party.answers[type(error).__name__] += 1
            connection = None
        party.waits.append(time.perf_counter() - asked)
        return connection  # type: ignore[return-value]


async def _run(attack: Attack, clients: int) -> None:
    model = await _model(attack)
    load, chance = attack.load, random.Random(0)
    texts = [{"texts": [text]} for text in sample_texts()]
    large, constraints = largest_requests(), worst_constraints(model)
    await _ask_on(attack, load.good, texts, most=64)
    load.good.waits.clear()
    load.good.answers.clear()
    attack.end = time.perf_counter() + load.seconds
    work: list[Awaitable[None]] = [_ask_on(attack, load.good, chance.sample(texts, 200)) for _ in range(clients)]
    work += [_ask_on(attack, load.large, large), _ask_on(attack, load.constraints, constraints)]
    work += [_send_slowly(attack, number) for number in range(load.slow_clients)]
    await asyncio.gather(*work, _probe(attack), _watch(attack))


async def _model(attack: Attack) -> dict[str, Any]:
    connection = await Connection.opened(*attack.address)
    return json.loads((await connection.ask("GET", "/model", token=TOKEN))[1])


async def _ask_on(attack: Attack, party: Party, contents: Sequence[Any], most: int | None = None) -> None:
    """Ask for one after the other, without pause."""
    connection: Connection | None = None
    for number, content in enumerate(cycle(contents)):
        if attack.is_over or number == most:
            break
        connection = await attack.ask(party, connection, "/predict", content)
    if connection is not None:
        connection.close()


async def _probe(attack: Attack) -> None:
    for path in cycle(PROBES):
        if attack.is_over:
            break
        connection = await attack.ask(attack.load.probes, None, path)
        if connection is not None:
            connection.close()
        await asyncio.sleep(SECONDS_BETWEEN_PROBES)


async def _watch(attack: Attack) -> None:
    connection: Connection | None = None
    while not attack.is_over:
        try:
            connection = connection or await Connection.opened(*attack.address)
            metrics = await read_metrics(connection, TOKEN)
            attack.load.memory.append(metrics["process_resident_memory_bytes"])
        except (OSError, asyncio.IncompleteReadError):
            connection = None
        await asyncio.sleep(1.0)


async def _send_slowly(attack: Attack, number: int) -> None:
    """Begin a request and never end it, byte by byte, until the connection is closed; then again."""
    beginning = slow_beginnings()[number % len(slow_beginnings())]
    while not attack.is_over:
        asked = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(*attack.address)
            writer.write(beginning)
            while not attack.is_over:
                try:
                    answer = await asyncio.wait_for(reader.read(16), SECONDS_BETWEEN_BYTES)
                except (asyncio.TimeoutError, TimeoutError):
                    writer.write(b"x")
                else:
                    attack.load.slow.answers[answer[9:12].decode() or "closed"] += 1
                    attack.load.slow.waits.append(time.perf_counter() - asked)
                    await asyncio.sleep(SECONDS_BETWEEN_BYTES)
                    break
            writer.close()
        except OSError as error:
            attack.load.slow.answers[type(error).__name__] += 1
            await asyncio.sleep(SECONDS_BETWEEN_BYTES)


def slow_beginnings() -> list[bytes]:
    """Headers that do not end, a body with the token, one without, one where none is read, and nothing at all."""
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with_token = head + f"Authorization: Bearer {TOKEN}\r\n".encode()
    length = b"Content-Length: 900000\r\n\r\n"
    return [head, with_token + length, head + length, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + length, b""]


def largest_requests() -> list[bytes]:
    """The largest that are taken: many sentences, the longest one, very many very short ones, and alternatives."""
    limits = Limits()
    characters = limits.text_characters
    natural = (" ".join(sample_texts()) * 2)[:characters]
    texts_at_most = (limits.body_bytes - 1_000) // characters
    explained: dict[str, Any] = {"alternatives": limits.alternatives, "graph": True}
    unpunctuated = "Ada Lovelace lives in New York " * 42 + ". "
    requests: list[dict[str, Any]] = [
        {"texts": [natural] * texts_at_most},
        {"texts": ["word " * limits.sentence_tokens]},
        {"texts": [("A! " * characters)[:characters]]},
        {"texts": [(unpunctuated * 20)[: limits.explained_characters]], **explained},
        {"texts": [natural[: limits.explained_characters]], **explained},
    ]
    return [json.dumps(request).encode() for request in requests]


def worst_constraints(model: dict[str, Any]) -> list[bytes]:
    """As many as are taken, in one sentence and in many, and more than that."""
    most, label = Limits.constraints, model["labels"][0]
    sentence, text = "word " * Limits.sentence_tokens, "we went to Paris yesterday .\n\n" * 6_000
    spans = [{"start": 5 * i, "end": 5 * i + 4} for i in range(most)]
    apart = [{"start": 10 * i, "end": 10 * i + 4, "label": label} for i in range(most)]
    in_each = [{"start": 30 * i, "end": 30 * i + 2} for i in range(most)]
    pairs = [[a, b] for a in model["labels"] for b in model["labels"]]
    too_many = [{"start": 5 * i, "end": 5 * i + 4} for i in range(25_000)]
    requests: list[tuple[str, dict[str, Any]]] = [
        (sentence, {"forbidden": spans}),
        (sentence, {"forbidden": [span | {"end": 5 * most} for span in spans]}),
        (sentence, {"required": apart}),
        (text, {"forbidden": in_each[: most - len(pairs)], "banned": pairs}),
        (text, {"banned": pairs, "thresholds": dict.fromkeys(model["labels"], 0.5)}),
        ("word " * 25_000, {"forbidden": too_many}),
    ]
    return [json.dumps({"texts": [one], "constraints": [known]}).encode() for one, known in requests]


def hostile_page(load: HostileLoad) -> ResultPage:
    rows = [party.row() for party in load.parties]
    about = (
        f"{load.seconds:g} s; the service wants a token. Good clients send one to four sentences without pause; a "
        "probe comes every tenth of a second, over a connection of its own. The slow ones send a byte a second of "
        "headers or bodies, with the token, without, or nothing at all, and come back when they are closed. One client "
        "sends the largest requests that are taken and one the constraints that cost most, both without pause. All "
        "share the machine. The times of slow clients are those until they were answered or closed."
    )
    memory = f"Resident memory of the service: {max(load.memory, default=0) / 1e6:.0f} MB at its most."
    return ResultPage(
        "service_hostile_cpu", "The service beside those who mean it harm", [about, Table(rows), memory], csv=rows
    )
