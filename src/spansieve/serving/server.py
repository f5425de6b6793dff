"""A model served until the process is stopped, over connections that a slow client cannot hold for long.

uvicorn times out a connection that is idle between two requests, and nothing else: one byte ends that, and headers that
never end, a body that is not read or an answer that the client does not take hold a connection for ever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from spansieve.prediction.onnx.session import usable_cores
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.serving.app import create_app, model_info
from spansieve.serving.limits import Limits, RefusedError
from spansieve.serving.middleware import HEADERS
from spansieve.serving.queue import Batcher, Metrics, Task
from spansieve.serving.schema import ModelInfo
from spansieve.serving.worker import Worker

logger = logging.getLogger(__name__)


class Service:
    """A model, its queue and its application. `load_model` is called in the thread that owns the model."""

    def __init__(
        self,
        load_model: Callable[[], TextPredictor],
        name: str,
        limits: Limits | None = None,
        token: str | None = None,
        on_ready: Callable[[], None] | None = None,
        cors_origins: Sequence[str] = (),
    ) -> None:
        self.name, self.limits = name, limits or Limits()
        self.metrics = Metrics()
        self.failure: BaseException | None = None
        self.server: Server | None = None
        self._load_model = load_model
        self.info: ModelInfo  # from when the model is loaded
        self.batcher = Batcher(self._prepare, self.limits, self.metrics, self._failed, on_ready)
        self.app = create_app(self.batcher, lambda: self.info, self.limits, token, cors_origins)

    def _prepare(self) -> Callable[[Sequence[Task]], list[str]]:
        begin = time.perf_counter()
        logger.info("loading %s", self.name)
        predictor = self._load_model()
        worker = Worker(predictor, self.metrics, self.limits.sentence_tokens)
        worker.warm_up()
        self.info = model_info(self.name, predictor, self.limits)
        logger.info("%s is loaded and warm after %.1f s", self.name, time.perf_counter() - begin)
        return worker

    def _failed(self, error: BaseException) -> None:
        self.failure = error
        if self.server is not None:
            self.server.is_ending = True

    def run(self, listener: socket.socket) -> None:
        """Serve until SIGTERM or Ctrl-C; what was accepted by then is finished. Raises what made loading fail."""
        config = uvicorn.Config(
            self.app,
            log_config=None,  # the caller sets up `logging`
            log_level="warning",
            access_log=False,
            lifespan="on",
            http=protocol_of(self.limits, max_connections(self.limits)),
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=int(self.limits.seconds) + 5,
        )
        self.server = Server(config, self.batcher)
        self.server.run(sockets=[listener])
        if self.failure is not None:
            raise self.failure
        logger.info("ended")


class Server(uvicorn.Server):
    """A uvicorn server that ends in good order, with exit code 0; a second Ctrl-C ends it at once.

    By `is_ending`, which is looked at once it has started: uvicorn's own `should_exit` has it leave a start half done,
    with a traceback.
    """

    def __init__(self, config: uvicorn.Config, batcher: Batcher) -> None:
        super().__init__(config)
        self.batcher, self.is_ending = batcher, False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.is_ending and sig == signal.SIGINT
        self.is_ending = True
        self.batcher.refuse_new()

    async def on_tick(self, counter: int) -> bool:
        if self.is_ending:  # not in the signal's handler, which may have interrupted a line of the log
            logger.info("shutting down; what was accepted is finished")
        return await super().on_tick(counter) or self.is_ending


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


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port; 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def max_connections(limits: Limits) -> int:
    """How many connections may be open: no more than half of the files that this process may open."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are no files
        return limits.connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if files == resource.RLIM_INFINITY else max(1, min(limits.connections, files // 2))


def default_threads() -> int:
    """The default number of the model's threads: all processors but one, which the connections need. Threads that wait
    for a processor make all others wait."""
    return max(1, usable_cores() - 1)


def set_torch_threads(threads: int | None) -> None:
    """Set the threads of a model that torch runs, for the whole process; by default no more than torch would take."""
    import torch

    # oneDNN keeps what it compiled for each shape of input, a tenth of a megabyte each and by default 1,024 of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    torch.set_num_threads(threads or min(torch.get_num_threads(), default_threads()))
