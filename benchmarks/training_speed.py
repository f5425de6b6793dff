"""Training speed: whole steps of our models, of a plain token softmax and of pytorch-crf on the same encoder.

Each contender has a copy of the encoder, the same batches, already on the device, and the same optimizer; they take
turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib.util import find_spec
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import seconds_of, timed_in_rounds
from spansieve.config import Config
from spansieve.data.batching import plan_epoch
from spansieve.data.example import Example
from spansieve.data.tag_schemes import tags_of_segments
from spansieve.models.tagger import Batch, Tagger
from spansieve.segments import LabelSet
from spansieve.training.optimizer import build_optimizer

SOFTMAX, PEER = "token softmax", "pytorch-crf"
OURS = ("fsemicrf", "crf", "semicrf", "semicrf-unit-null", "filter-only")
IGNORED = -100


class TokenHead(nn.Module):
    """A linear layer over the tokens, and a loss over their BIO tags."""

    def __init__(self, size: int, num_tags: int, is_crf: bool) -> None:
        super().__init__()
        self.output = nn.Linear(size, num_tags)
        self.crf: Any = None
        if is_crf:
            from torchcrf import CRF

            self.crf = CRF(num_tags, batch_first=True)

    def forward(self, vectors: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
        scores = self.output(vectors)
        if self.crf is None:
            total = nn.functional.cross_entropy(
                scores.flatten(0, 1), tags.flatten(), ignore_index=IGNORED, reduction="sum"
            )
            return total / len(lengths)
        is_token = tags != IGNORED
        return -self.crf(scores, tags.clamp(min=0), mask=is_token, reduction="mean")


@dataclass(frozen=True, eq=False)
class TaggedBatch:
    batch: Batch
    tags: Tensor  # (B, L)

    def to(self, device: str) -> TaggedBatch:
        return TaggedBatch(self.batch.to(device), self.tags.to(device))


def run_throughput(
    encoder: str,
    examples: Sequence[Example],
    batch_sizes: Sequence[int],
    device: str,
    rounds: int = 11,
    steps: int = 12,
    config: Config | None = None,
) -> list[dict[str, object]]:
    """One row per contender and batch size, with the ratio to the token softmax. A configuration may be given, whose
    head, encoder and scheme are those of the contenders in any case."""
    config = config or Config()
    rows: list[dict[str, object]] = []
    for batch_size in batch_sizes:
        contenders = {name: _stepper(name, encoder, examples, batch_size, device, steps, config) for name in _names()}
        times = timed_in_rounds(contenders, rounds, partial(seconds_of, device=device))
        for name, some in times.items():
            rate = steps / statistics.median(some)
            ratio = statistics.median(times[SOFTMAX]) / statistics.median(some)
            rows.append(
                {
                    "batch": batch_size,
                    "model": name,
                    "steps/s": f"{rate:.1f}",
                    "sentences/s": f"{rate * batch_size:,.0f}",
                    "ms/step": f"{1000 / rate:.2f}",
                    f"ratio to {SOFTMAX}": f"{ratio:.3f}",
                }
            )
    return rows


def training_speed_page(rows: Sequence[dict[str, object]], encoder: str, device: str) -> ResultPage:
    title = f"Training steps on {encoder}"
    return ResultPage(f"throughput_{encoder}_{device}", title, [Table(rows)], csv=rows, device=device)


def _names() -> list[str]:
    return [SOFTMAX, *([PEER] if find_spec("torchcrf") else []), *OURS]


def _stepper(
    name: str, encoder: str, examples: Sequence[Example], batch_size: int, device: str, steps: int, config: Config
) -> Callable[[], None]:
    """Runs `steps` whole training steps."""
    head: Any = name if name in OURS else "crf"
    model = replace(config.model, head=head, scheme="BIO", encoder=replace(config.model.encoder, name=encoder))
    torch.manual_seed(0)
    tagger = Tagger.for_data(model, examples)
    batches = [made.to(device) for made in _batches(tagger, examples, batch_size, steps)]
    if name not in OURS:
        tagger.head = TokenHead(tagger.encoder.size, len(_tags(tagger.labels)), name == PEER)  # type: ignore[assignment]
    tagger = tagger.to(device).train()
    optimizer = build_optimizer(tagger, config.training)

    def run() -> None:
        for made in batches:
            if name in OURS:
                loss = reduce(torch.add, tagger(made.batch).values()).sum() / len(made.batch)
            else:
                loss = tagger.head(tagger.vectors(made.batch), made.batch.lengths, made.tags)
            with torch.autograd.set_multithreading_enabled(False):  # as the training loop has it
                loss.backward()
            nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return run


def _batches(tagger: Tagger, examples: Sequence[Example], batch_size: int, steps: int) -> list[TaggedBatch]:
    plan = plan_epoch([len(example) for example in examples], batch_size, seed=0, epoch=0)
    ids = {tag: i for i, tag in enumerate(_tags(tagger.labels))}
    made = []
    whole = [step for step in plan if len(step) == batch_size]
    if not whole:
        raise ValueError(f"there must be at least one batch of {batch_size} sentences, got {len(examples)} sentences")
    for step in islice(cycle(whole), steps):
        chosen = [examples[i] for i in step]
        gold = [tagger.training_segments(example)[0] for example in chosen]
        batch = tagger.batch([example.tokens for example in chosen], gold)
        tags = torch.full((len(chosen), int(batch.lengths.max())), IGNORED)
        for row, example, segments in zip(tags, chosen, gold):
            row[: len(example)] = torch.tensor([ids[tag] for tag in tags_of_segments(segments, len(example), "BIO")])
        made.append(TaggedBatch(batch, tags))
    return made


def _tags(labels: LabelSet) -> list[str]:
    return ["O", *(f"{prefix}-{name}" for name in labels for prefix in "BI")]
