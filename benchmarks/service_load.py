"""The service under load: many clients at once for a while, how long they wait, and what memory it takes.

Each client sends a request when it has the answer to the one before, over a connection that stays open. The clients run
on the same machine and take their share of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.plots import Figure, panels
from benchmarks.result_page import ResultPage, Table
from spansieve.data.sample import sample_corpus

WARM_UP = 1_000  # requests
SECONDS_TO_START = 120.0


@dataclass
class Load:
    """What was seen. Times in seconds, memory in bytes."""

    clients: int
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)  # of the answers while the time was taken
    statuses: Counter[int] = field(default_factory=Counter)  # of all requests after the warm-up
    memory: list[tuple[int, float]] = field(default_factory=list)  # (requests after the warm-up, resident memory)
    words: int = 0  # of the answers while the time was taken
    batch_texts: float = 0.0  # mean

    @property
    def growth(self) -> float:
        """Of the memory since the warm-up, at its most."""
        first, *rest = (size for _, size in self.memory)
        return max(rest, default=first) / first - 1

    def wait(self, share: float) -> float:
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def row(self) -> dict[str, object]:
        return {
            "clients": self.clients,
            "seconds": f"{self.seconds:.0f}",
            "requests/s": f"{len(self.waits) / self.seconds:.0f}",
            "words/s": f"{self.words / self.seconds:,.0f}",
            "p50 ms": f"{1000 * self.wait(0.5):.1f}",
            "p90 ms": f"{1000 * self.wait(0.9):.1f}",
            "p99 ms": f"{1000 * self.wait(0.99):.1f}",
            "max ms": f"{1000 * max(self.waits):.1f}",
            "texts/batch": f"{self.batch_texts:.1f}",
            "requests in all": f"{sum(self.statuses.values()):,}",
            "answers": ", ".join(f"{status}: {count:,}" for status, count in sorted(self.statuses.items())),
            "MB after warm-up": f"{self.memory[0][1] / 1e6:.1f}",
            "MB at its most": f"{max(size for _, size in self.memory) / 1e6:.1f}",
            "growth": f"{100 * self.growth:.1f} %",
        }


def run_service_load(
    model: Path, clients: int = 32, seconds: float = 60.0, requests: int = 10_000, threads: int | None = None
) -> Load:
    """`seconds` of load after a warm-up, and then more until there were `requests`."""
    with served(model, threads) as (host, port):
        return asyncio.run(_load(host, port, Load(clients), seconds, requests, sample_texts()))


def sample_texts(seed: int = 0) -> list[str]:
    """One to four sentences each."""
    sentences = [" ".join(example.tokens) for example in sample_corpus().test]
    chance = random.Random(seed)
    return [" ".join(chance.sample(sentences, chance.randint(1, 4))) for _ in range(2_000)]


@contextmanager
def served(model: Path, threads: int | None, token: str | None = None) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "spansieve", "serve", str(model), "--port", "0", "--log-level", "warning"]
    command += [] if threads is None else ["--threads", str(threads)]
    environment = os.environ | ({} if token is None else {"SPANSIEVE_TOKEN": token})
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://([\d.]+):(\d+)", line)
        if found is None:
            raise RuntimeError(f"the service did not start: {line.strip() or process.wait(SECONDS_TO_START)}")
        yield found.group(1), int(found.group(2))
    finally:
        process.terminate()
        process.wait(SECONDS_TO_START)
        process.stderr.close()


async def _load(host: str, port: int, load: Load, seconds: float, requests: int, texts: Sequence[str]) -> Load:
    sent = 0
    begin = end = float("inf")

    async def client(number: int) -> None:
        nonlocal sent
        connection = await Connection.opened(host, port)
        chance = random.Random(number)
        while sent < WARM_UP + requests or time.perf_counter() < end:
            sent += 1
            is_counted, text = sent > WARM_UP, chance.choice(texts)
            asked = time.perf_counter()
            status, _ = await connection.ask("POST", "/predict", {"texts": [text]})
            answered = time.perf_counter()
            if is_counted:
                load.statuses[status] += 1
                if status == 200 and begin <= asked and answered <= end:
                    load.waits.append(answered - asked)
                    load.words += text.count(" ") + 1
        connection.close()

    async def watch() -> None:
        nonlocal begin, end
        connection = await Connection.opened(host, port)
        while True:
            if sent > WARM_UP:
                if not load.memory:
                    begin = time.perf_counter()
                    end = begin + seconds
                metrics = await read_metrics(connection)
                load.memory.append((sent - WARM_UP, metrics["process_resident_memory_bytes"]))
                load.batch_texts = metrics["spansieve_batch_texts_sum"] / metrics["spansieve_batch_texts_count"]
            await asyncio.sleep(0.5 if load.memory else 0.02)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*map(client, range(load.clients)))
    watching.cancel()
    load.seconds = min(end, time.perf_counter()) - begin
    return load


async def read_metrics(connection: Connection, token: str | None = None) -> dict[str, float]:
    """The service's metrics that have no labels."""
    _, body = await connection.ask("GET", "/metrics", token=token)
    lines = (line.split(" ") for line in body.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines if "{" not in name}


class Connection:
    """Just enough HTTP for clients that cost less than what they measure."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def opened(cls, host: str, port: int) -> Connection:
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, method: str, path: str, content: Any = None, token: str | None = None) -> tuple[int, bytes]:
        """Send a request, whose content may be the bytes of its body already."""
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += "" if token is None else f"Authorization: Bearer {token}\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        size = re.search(rb"(?i)content-length: *(\d+)", answer)
        assert size is not None
        return status, await self.reader.readexactly(int(size.group(1)))

    def close(self) -> None:
        self.writer.close()


def service_page(load: Load) -> ResultPage:
    row = load.row()
    return ResultPage(
        "service_cpu",
        f"The service with {load.clients} clients at once",
        [
            "Requests of one text of one to four sentences, sent without pause; the clients share the machine.",
            Table([{"": name, "measured": value} for name, value in row.items()]),
            draw(load),
        ],
        csv=[row],
    )


def draw(load: Load) -> Figure:
    """Draw how long clients waited, and the memory of the service over the requests."""
    figure, (waits, memory) = panels(9, 3.2, columns=2)
    waits.hist([1000 * wait for wait in load.waits], bins=80, color="#2f5fc4")
    waits.set(xlabel="milliseconds to the answer", ylabel="requests")
    for share, style in ((0.5, "-"), (0.99, "--")):
        waits.axvline(
            1000 * load.wait(share), color="#1d2129", linestyle=style, linewidth=1, label=f"p{100 * share:.0f}"
        )
    waits.legend(frameon=False)
    memory.plot([count for count, _ in load.memory], [size / 1e6 for _, size in load.memory], color="#2f5fc4")
    memory.set_ylim(0, 1.25 * max(size for _, size in load.memory) / 1e6)
    memory.set(xlabel="requests after the warm-up", ylabel="resident memory, MB")
    return figure
