"""The batch loop of prediction: plan batches of like length, launch each, decode, and return the input's order.

What runs the model stands behind `Backend`: torch on a CPU or GPU, or ONNX Runtime. No torch here.

Axes: B sentences.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np

from spansieve.crf.kernels import ScoreError
from spansieve.data.batching import batches_of_groups, prepared_ahead
from spansieve.decoding.constraints import (
    NO_RULES,
    Constraints,
    Rules,
    Support,
    checked_constraints,
    group_by_banned_pairs,
)
from spansieve.decoding.decoders import Decoded
from spansieve.decoding.prediction import Prediction
from spansieve.persistence.manifest import ModelError
from spansieve.segments import LabelSet

MAX_TOKENS = 4_000  # in a batch, padding included; where the encoder reads subwords, of those
MAX_SENTENCES = 256  # in a batch
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: a string can hold it, UTF-8 cannot


_between_batches: ContextVar[Callable[[], None] | None] = ContextVar("between_batches", default=None)


@contextmanager
def between_batches(call: Callable[[], None]) -> Iterator[None]:
    """Have this called after each batch of the predictions made within, in this thread. What it raises gives the
    prediction up: this is how a service keeps its deadlines."""
    token = _between_batches.set(call)
    try:
        yield
    finally:
        _between_batches.reset(token)


class PreparedBatch(NamedTuple):
    """Sentences of a batch as an encoder reads them, made on the host."""

    features: Any  # what the backend takes
    lengths: np.ndarray  # (B,): in tokens, none of them 0
    sentence: Sequence[int] | np.ndarray  # (B,): the index of each among all sentences


class Backend(Protocol):
    """What runs a model."""

    labels: LabelSet
    depth: int  # how many batches are launched before the first is waited for; 0: it computes where it is called

    @property
    def support(self) -> Support:
        """What constraints are checked against."""

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Return the size of each sentence as input: sentences of one batch should be alike in it."""

    def features(self, sentences: Sequence[Sequence[str]]) -> Any:
        """Prepare sentences on the host, none of them empty."""

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        """Start on a batch; what is returned waits for the result. All rules ban the same pairs."""


def predict_with(
    backend: Backend,
    sentences: Sequence[Sequence[str]],
    with_probabilities: bool = False,
    constraints: Sequence[Constraints | None] | None = None,
    batch_tokens: int | None = None,
) -> list[Prediction]:
    """Predict sentences of tokens; constraints, one per sentence, are in tokens. At most `batch_tokens` are read at
    once, or one sentence; the result does not depend on it."""
    if batch_tokens is not None and batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
    readable = readable_sentences(sentences)
    rules, groups = None, [list(range(len(readable)))]
    if constraints is not None:
        rules = _rules_of_sentences(backend.support, checked_constraints(constraints, len(readable)), readable)
        groups = group_by_banned_pairs(rules)
    groups = [[i for i in group if readable[i]] for group in groups]
    plan = batches_of_groups(backend.sizes(readable), groups, batch_tokens or MAX_TOKENS, MAX_SENTENCES)

    def prepare(indices: Sequence[int]) -> PreparedBatch:
        words = [readable[i] for i in indices]
        return PreparedBatch(backend.features(words), np.fromiter(map(len, words), np.int64, len(words)), indices)

    # Beside an accelerator the next batches are prepared while it works.
    batches = prepared_ahead(plan, prepare) if backend.depth and len(plan) > 1 else map(prepare, plan)
    predictions = [Prediction([], [] if with_probabilities else None) for _ in readable]
    names = ("", *backend.labels.names)  # by id: null has none
    for batch, decoded in decoded_batches(backend, batches, with_probabilities, rules):
        for i, prediction in zip(batch.sentence, decoded.predictions(names, batch.lengths)):
            predictions[i] = prediction
    return predictions


def give_way() -> None:
    """Call what is to be called between batches, if anything is."""
    if (call := _between_batches.get()) is not None:
        call()


def _rules_of_sentences(
    support: Support, constraints: Sequence[Constraints | None], sentences: Sequence[Sequence[str]]
) -> list[Rules]:
    """Translate the constraints of each sentence; what concerns labels alone once for all sentences that share it."""
    shared: dict[int, Rules] = {}
    rules = []
    for own, sentence in zip(constraints, sentences):
        if own is None or own.has_spans or id(own) not in shared:
            shared[id(own)] = support.rules(own, sentence)
        rules.append(shared[id(own)])
    return rules


def decoded_batches(
    backend: Backend, batches: Iterable[PreparedBatch], with_probabilities: bool, rules: Sequence[Rules] | None = None
) -> Iterator[tuple[PreparedBatch, Decoded]]:
    """Run batches, in their order, and give way after each; `rules` are of each sentence."""
    in_flight: deque[tuple[PreparedBatch, Callable[[], Decoded]]] = deque()
    try:
        for batch in batches:
            in_flight.append((batch, backend.launch(batch, with_probabilities, _rules_of(batch, rules))))
            if len(in_flight) > backend.depth:
                first, wait = in_flight.popleft()
                yield first, wait()
                give_way()
        for batch, wait in in_flight:
            yield batch, wait()
            give_way()
    except ScoreError as error:
        raise ModelError(f"the model's weights give no scores to decode: {error}") from error


def _rules_of(batch: PreparedBatch, rules: Sequence[Rules] | None) -> list[Rules] | None:
    """Return the rules of a batch; None where there are none at all, which is faster."""
    own = [] if rules is None else [rules[i] for i in batch.sentence]
    return own if any(rule != NO_RULES for rule in own) else None


def readable_sentences(sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Check sentences and make them as encoders take them: half a character, which a string can hold and no encoding of
    text can, becomes the sign for what cannot be shown."""
    readable: list[Sequence[str]] = []
    for sentence in sentences:
        if isinstance(sentence, str):  # its characters would be the tokens
            raise TypeError(f"a sentence must be a sequence of tokens, got {sentence!r}")
        if not {str}.issuperset(map(type, sentence)):
            for token in sentence:
                if not isinstance(token, str):
                    raise TypeError(f"a token must be a string, got {token!r}")
        is_whole = not SURROGATE.search("".join(sentence))
        readable.append(sentence if is_whole else [SURROGATE.sub("\ufffd", token) for token in sentence])
    return readable
