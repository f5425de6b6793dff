"""Connections that a slow client cannot hold for long, and that make room for others: HTTP/1.1 by uvicorn and h11.

uvicorn times out a connection that is idle between two requests, and nothing else: one byte ends that, and headers that
never end, a body that nobody reads or an answer that the client does not take hold a connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from spansieve.serving.errors import RefusedError
from spansieve.serving.limits import Limits
from spansieve.serving.middleware import HEADERS


def protocol_of(limits: Limits, max_connections: int) -> type[asyncio.Protocol]:
    """Make the protocol of one server, whose connections know of one another."""
    waiting: dict[Connection, None] = {}  # those whose client has something to do, in the order since when
    members = {"limits": limits, "max_connections": max_connections, "waiting": waiting}
    return type("ServerConnection", (Connection,), members)


class Connection(H11Protocol):
    """A connection of uvicorn's with a time for the headers and, behind an answer, for the rest of what was sent.

    The connection that has waited longest for its client is closed where there are too many: a new one, such as a
    probe's, is never refused, and one whose request is complete is never closed.
    """

    limits: Limits
    max_connections: int
    waiting: dict[Connection, None]
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_client()
        if len(self.connections) > self.max_connections:
            slowest = next(iter(self.waiting))  # itself, where all others are being answered
            del self.waiting[slowest]
            slowest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look_at_request()

    def on_response_complete(self) -> None:
        self._wait_for_client()
        super().on_response_complete()  # which may begin with the next request, if that has come already
        self._look_at_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_client()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look_at_request()

    def _wait_for_client(self) -> None:
        self._stop_timer()
        self.waiting.pop(self, None)
        self.waiting[self] = None
        is_taking = self.transport.get_write_buffer_size() > 0
        seconds = self.limits.seconds if is_taking else self.limits.header_seconds
        self.timer = self.loop.call_later(seconds, self._too_slow)

    def _look_at_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete or self.flow.write_paused:
            return
        self._stop_timer()  # the time of the body is that of who reads it
        if not self.cycle.more_body:
            self.waiting.pop(self, None)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _too_slow(self) -> None:
        has_begun = bool(self.conn.trailing_data[0]) and self.conn.our_state is h11.IDLE
        if has_begun and not self.transport.is_closing():
            reason = f"the headers did not come within {self.limits.header_seconds:g} s"
            self._refuse(RefusedError(408, "headers_too_slow", reason))
        else:  # what the client has not taken of an answer is dropped
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, by h11's reading, as every error is answered."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(RefusedError(400, "malformed", "the request must be HTTP/1.1"))
        else:  # it comes while an answer is being sent, or behind one
            self.transport.close()

    def _refuse(self, refused: RefusedError) -> None:
        response = refused.response()
        headers = [*response.raw_headers, *HEADERS, (b"connection", b"close")]
        events = h11.Response(status_code=refused.status, headers=headers), h11.Data(data=bytes(response.body))
        for event in (*events, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
