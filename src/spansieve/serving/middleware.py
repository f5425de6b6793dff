"""The middleware before the application: authentication, limits on the body, headers of every response, and the access
log, which never holds a text."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import re
import time
from collections import deque

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spansieve.serving.limits import CLIENT_GONE, Limits, RefusedError
from spansieve.serving.queue import Metrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
REQUEST_ID = "X-Request-ID"
PROBES = {"/healthz", "/readyz"}
OPERATION = {*PROBES, "/metrics"}  # come every few seconds, and are logged for debugging only
PER_TURN = 8  # requests: some 3 ms
_ID = re.compile(rb"[\w.:-]{1,64}", re.ASCII)  # no blanks and no line breaks: it stands in the log

logger = logging.getLogger(__name__)


class Turns:
    """A few requests for each turn of the event loop, in their order: of hundreds that come at once none holds up what
    comes behind them, above all the probes, which take no turn."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        self._waiting.append(loop.create_future())
        await self._waiting[-1]

    def _next(self) -> None:
        for _ in range(min(PER_TURN, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():  # given up
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


class GuardMiddleware:
    """The application behind a check of the token and of the body's size."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str | None, protected: set[str]) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.token = None if token is None else token.encode()
        self.protected, self.turns = protected, Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), CLIENT_GONE
        given = dict(scope["headers"]).get(REQUEST_ID.lower().encode(), b"")
        scope["request_id"] = request_id = given.decode() if _ID.fullmatch(given) else f"{random.getrandbits(128):032x}"

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = (REQUEST_ID.lower().encode(), request_id.encode())
                message["headers"] = [*message.get("headers", ()), *HEADERS, own]
            await send(message)

        try:
            await self._guarded(scope, receive, sent)
        finally:
            path = scope["path"] if scope.get("route") is not None or scope["path"] in self.protected else "other"
            seconds = time.perf_counter() - begin
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.request_seconds.labels(path).observe(seconds)
            level = logging.DEBUG if path in OPERATION else logging.INFO
            # A path that is not ours, or a query, might hold a text.
            logger.log(level, "%s %s %d %.1f ms id=%s", scope["method"], path, status, 1000 * seconds, request_id)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = dict(scope["headers"])
            if scope["path"] not in PROBES or headers.get(b"content-length", b"0") != b"0":
                await self.turns.wait()
            self._check_token(scope["path"], headers.get(b"authorization", b""))
            if scope["method"] != "POST" or scope["path"] != "/predict":  # nothing else has a body that is read
                await self.app(scope, receive, send)
                return
            _check_content_type(headers.get(b"content-type", b"").decode("latin-1"))
            body = await self._body(headers, receive)
        except RefusedError as refused:
            await refused.response()(scope, receive, send)
            return
        if body is None:
            return
        is_given = False

        async def replayed() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replayed, send)

    def _check_token(self, path: str, given: bytes) -> None:
        if self.token is None or path not in self.protected:
            return
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token):
            reason = "this needs the header `Authorization: Bearer TOKEN` with the service's token"
            raise RefusedError(401, "unauthorized", reason, {"WWW-Authenticate": "Bearer"})

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The whole body; None where the client has gone. What comes is counted, whatever the client announced."""
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and (len(announced) > 15 or int(announced) > self.limits.body_bytes):
            raise self._too_large()
        try:
            return await asyncio.wait_for(self._read(receive), self.limits.seconds)
        except (asyncio.TimeoutError, TimeoutError):
            reason = f"the body did not come within {self.limits.seconds:g} s"
            raise RefusedError(408, "body_too_slow", reason, {"Connection": "close"}) from None

    async def _read(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while (message := await receive())["type"] != "http.disconnect":
            body += message.get("body", b"")
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)
        return None

    def _too_large(self) -> RefusedError:
        reason = f"the body must have at most {self.limits.body_bytes:,} bytes; send fewer texts at a time"
        return RefusedError(413, "body_too_large", reason, {"Connection": "close"})


def _check_content_type(given: str) -> None:
    media_type = given.partition(";")[0].strip().lower()
    if media_type != "application/json" and not re.fullmatch(r"application/[\w.-]+\+json", media_type):
        got = f"got {given[:60]!r}" if given else "got none"
        reason = f"the body must be sent with the header `Content-Type: application/json`, {got}"
        raise RefusedError(415, "unsupported_media_type", reason)
