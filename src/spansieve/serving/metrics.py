"""The metrics for Prometheus, in a registry of the service's own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "spansieve_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "spansieve_request_seconds",
            "From a request's first byte to the end of its answer.",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.queue_length = Gauge("spansieve_queue_length", "Requests that wait for the model.", registry=registry)
        self.ready = Gauge("spansieve_ready", "1 when the model is loaded and warm.", registry=registry)
        self.batch_texts = Histogram(
            "spansieve_batch_texts", "Texts that went to the model together.", buckets=TEXTS, registry=registry
        )
        self.batch_seconds = Histogram(
            "spansieve_batch_seconds", "Time that the model took for a batch.", buckets=SECONDS, registry=registry
        )
        self.tokens = Counter("spansieve_tokens", "Tokens that were read.", registry=registry)
        self.texts = Counter("spansieve_texts", "Texts that were read.", registry=registry)
        self.failed_texts = Counter("spansieve_failed_texts", "Texts that the model failed on.", registry=registry)

    def watch(self, queue_length: Callable[[], float], is_ready: Callable[[], bool]) -> None:
        """Read these gauges whenever Prometheus scrapes."""
        self.queue_length.set_function(queue_length)
        self.ready.set_function(lambda: float(is_ready()))

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
