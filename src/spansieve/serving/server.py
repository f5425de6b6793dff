"""A model served until the process is stopped."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn

from spansieve.prediction.onnx.session import usable_cores
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.serving.app import create_app, model_info
from spansieve.serving.connections import protocol_of
from spansieve.serving.limits import Limits
from spansieve.serving.metrics import Metrics
from spansieve.serving.queue import Batcher, Task
from spansieve.serving.schema import ModelInfo, Result
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
        self._load_model, self._on_ready = load_model, on_ready
        self.info: ModelInfo  # from when the model is loaded
        self.batcher: Batcher[Result] = Batcher(self._prepare, self.limits, self.metrics, self._failed)
        self.app = create_app(self.batcher, lambda: self.info, self.limits, token, cors_origins)

    def _prepare(self) -> Callable[[Sequence[Task]], list[Result]]:
        begin = time.perf_counter()
        logger.info("loading %s", self.name)
        predictor = self._load_model()
        worker = Worker(predictor, self.metrics, self.limits.sentence_tokens)
        worker.warm_up()
        self.info = model_info(self.name, predictor, self.limits)
        logger.info("%s is loaded and warm after %.1f s", self.name, time.perf_counter() - begin)
        if self._on_ready is not None:
            self._on_ready()
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

    def __init__(self, config: uvicorn.Config, batcher: Batcher[Result]) -> None:
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
