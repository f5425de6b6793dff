"""Clients that are slow, many or no HTTP: nobody else waits for them, and no connection is held for long."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from spansieve.serving.limits import Limits
from spansieve.serving.middleware import PER_TURN, GuardMiddleware
from spansieve.serving.queue import Metrics
from spansieve.serving.server import max_connections
from tests.serving.running import Running, running, until

TYPE = b"Content-Type: application/json\r\n"
HALF_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_BODY = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n" + TYPE + b"\r\n{"


@contextmanager
def connected(served: Running, *beginnings: bytes):
    host, port = served.address.removeprefix("http://").split(":")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection((host, int(port)), timeout=20)) for _ in beginnings]
        for one, beginning in zip(sockets, beginnings):
            one.sendall(beginning)
        yield sockets


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    received = b""
    try:
        while part := connection.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def probed(served: Running, path: str = "/readyz") -> int:
    return httpx.get(f"{served.address}{path}", timeout=10).status_code


def test_headers_that_do_not_come_to_an_end(predictor):
    with running(predictor, header_seconds=0.5) as served:
        again = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + HALF_HEADERS  # behind an answer, too
        with connected(served, *[HALF_HEADERS] * 200, again, b"") as (*slow, later, silent):
            assert probed(served) == 200
            assert served.predict("word").status_code == 200
            deadline = time.monotonic() + 10
            while not is_closed(silent) and time.monotonic() < deadline:
                with suppress(OSError):
                    slow[0].send(b"x")  # a byte now and then is no help
                time.sleep(0.05)
            assert is_closed(silent)
            assert is_closed(slow[0])
            answer = rest_of(slow[1])
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "headers_too_slow"
            assert b"headers_too_slow" in rest_of(later)
            until(lambda: all(map(is_closed, slow[2:])), 10)


@pytest.mark.parametrize("token", [None, "geheim"])
def test_bodies_that_do_not_come_to_an_end_shut_nobody_out(predictor, token):
    right = b"Authorization: Bearer geheim\r\n\r\n"
    with running(predictor, token=token, queue=4, seconds=20) as served:
        bodies = [HALF_BODY, HALF_BODY.replace(b"\r\n\r\n", b"\r\n" + right)] * 130
        with connected(served, *bodies):
            headers = {"Authorization": "Bearer geheim"}
            for _ in range(3):
                assert probed(served, "/healthz") == probed(served) == 200
                answer = served.client.post("/predict", json={"texts": ["word"]}, headers=headers)
                assert answer.status_code == 200
            until(lambda: len(served.service.server.server_state.connections) > 200)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [(b"GET /healthz", b"200"), (b"POST /nothing", b"404"), (b"PUT /predict", b"401"), (b"POST /predict", b"401")],
)
def test_a_body_that_nobody_reads_is_not_waited_for(predictor, request_line, status):
    head = request_line + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n" + TYPE + b"\r\n{"
    with running(predictor, token="geheim", header_seconds=0.5) as served, connected(served, head) as (one,):
        one.settimeout(5)
        assert one.recv(12) == b"HTTP/1.1 " + status
        until(lambda: not served.service.server.server_state.connections, 10)  # and is not taken in for ever


def test_answers_that_nobody_takes(predictor):
    request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with running(predictor, seconds=0.5) as served, connected(served, request) as (one,):
        one.setblocking(False)
        connections = served.service.server.server_state.connections
        until(lambda: bool(connections))
        deadline = time.monotonic() + 20
        while connections and time.monotonic() < deadline:
            try:
                one.send(request * 100)
            except BlockingIOError:
                time.sleep(0.05)
            except ConnectionError:
                break
        until(lambda: not connections, 5)


def test_a_new_connection_takes_the_place_of_the_slowest(predictor):
    with (
        running(predictor, connections=8) as served,
        connected(served, HALF_BODY, *[HALF_HEADERS] * 30) as (first, *slow),
    ):
        for _ in range(5):
            assert probed(served) == 200
            assert served.predict("word").status_code == 200
        assert is_closed(first)
        until(lambda: sum(map(is_closed, slow)) >= 23)
        assert not is_closed(slow[-1])


def test_half_of_the_files_at_most(monkeypatch):
    resource = pytest.importorskip("resource")
    assert max_connections(Limits(connections=3)) == 3
    for files, expected in ((256, 128), (10**6, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert max_connections(Limits()) == expected


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000,
        b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + TYPE + b"\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_answered_as_every_error_is(server, bad):
    with connected(server, bad) as (one,):
        head, _, body = rest_of(one).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["code"] == "malformed"
    assert probed(server) == 200


def test_a_probe_does_not_wait_for_hundreds_before_it():
    """They have a few turns each time round the event loop, in their order, whoever of them gives up."""
    turn, begun = 0, []  # (turn of the loop, path)
    paths = [f"/{i}" for i in range(100)]

    async def app(scope, receive, send):
        begun.append((turn, scope["path"]))

    async def everybody():
        nonlocal turn
        guard = GuardMiddleware(app, Limits(), Metrics(), None, set())
        body = (b"content-length", b"9")
        asked = [*((path, []) for path in paths), ("/healthz", [body]), ("/readyz", [])]
        scopes = [{"type": "http", "method": "GET", "path": path, "headers": headers} for path, headers in asked]
        tasks = [asyncio.ensure_future(guard(scope, None, None)) for scope in scopes]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[50].cancel()
        while not all(task.done() for task in tasks):
            turn += 1
            await asyncio.sleep(0)

    asyncio.run(everybody())
    assert begun[0] == (0, "/readyz")
    assert [path for _, path in begun[1:]] == [*paths[:1], *paths[2:50], *paths[51:], "/healthz"]
    at_once = Counter(turn for turn, _ in begun[1:])
    assert max(at_once.values()) <= PER_TURN
