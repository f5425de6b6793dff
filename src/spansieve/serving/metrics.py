"""The metrics for Prometheus, in a registry of the service's own."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        took = "From a request's first byte to the end of its answer."
        self.requests = counter("spansieve_requests", "Requests by path and status.", ["path", "status"])
        self.request_seconds = histogram("spansieve_request_seconds", took, ["path"], buckets=SECONDS)
        self.queue_length = gauge("spansieve_queue_length", "Requests that wait for the model.")
        self.ready = gauge("spansieve_ready", "1 when the model is loaded and warm.")
        self.batch_texts = histogram("spansieve_batch_texts", "Texts that went to the model together.", buckets=TEXTS)
        self.batch_seconds = histogram("spansieve_batch_seconds", "The model's time for a batch.", buckets=SECONDS)
        self.tokens = counter("spansieve_tokens", "Tokens that were read.")
        self.texts = counter("spansieve_texts", "Texts that were read.")
        self.failed_texts = counter("spansieve_failed_texts", "Texts that the model failed on.")

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
