"""Training speed: whole steps of our models, of a plain token softmax and of pytorch-crf on the same encoder.

Each contender has a copy of the encoder, the same batches, already on the device, and the same optimizer; they take
turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.result_page import ResultPage, Row, Table
from benchmarks.timings import seconds_of, timed_in_rounds
from spansieve.config import Config, with_settings
from spansieve.crf.losses import IGNORED
from spansieve.data.batching import plan_epoch
from spansieve.data.example import Example
from spansieve.data.tag_schemes import tags_of_segments
from spansieve.models.head import HeadGold
from spansieve.models.tagger import Batch, Tagger
from spansieve.segments import LabelSet
from spansieve.training.optimizer import build_optimizer, rates, set_rates
from spansieve.training.packed_batches import pack
from spansieve.training.run_folder import RESULTS
from spansieve.training.step_graphs import StepGraphs, StepInputs

SOFTMAX, PEER = "token softmax", "pytorch-crf"
OURS = ("fsemicrf", "crf", "semicrf", "semicrf-unit-null", "filter-only")
ABOUT_PROCESSES = (
    "`spansieve train` on the CPU with the built-in encoder on the sample corpus, scores on dev included, one thread a "
    "process; two processes are started as `accelerate launch` starts them. Steps there are no CUDA graphs, whatever "
    "the setting: the losses are the same. A step of two processes has twice as many sentences, and an epoch half as "
    "many steps, so that theirs is another loss."
)
PART = 0.5  # of the full learning rates


class TokenHead(nn.Module):
    """A linear layer over the tokens, and a loss over their BIO tags, which are gold's labels."""

    max_width = 1

    def __init__(self, size: int, num_tags: int, is_crf: bool) -> None:
        super().__init__()
        self.output = nn.Linear(size, num_tags)
        self.crf: Any = None
        if is_crf:
            from torchcrf import CRF

            self.crf = CRF(num_tags, batch_first=True)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        scores, tags = self.output(vectors).float(), gold.labels()
        if self.crf is not None:
            return {"sequence": -self.crf(scores, tags.clamp(min=0), mask=tags != IGNORED, reduction="none")}
        losses = nn.functional.cross_entropy(
            scores.flatten(0, 1), tags.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return {"tags": losses.view(tags.shape).sum(1)}


@dataclass(frozen=True, eq=False)
class Contender:
    """A model to train, its batches on the host, and its optimizer."""

    tagger: Tagger
    batches: list[Batch]
    optimizer: torch.optim.Optimizer
    precision: str

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        with torch.autocast(batch.lengths.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return self.tagger(batch)

    @property
    def weights(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.tagger.parameters() if parameter.requires_grad]

    def by_kernels(self, device: str) -> Callable[[], None]:
        """What takes all the steps once, kernel by kernel, of batches on the device."""
        batches, weights = [batch.to(device) for batch in self.batches], self.weights

        def run() -> None:
            set_rates(self.optimizer, rates(self.optimizer, PART))
            for batch in batches:
                loss = reduce(torch.add, self.losses(batch).values()).sum() / len(batch)
                with torch.autograd.set_multithreading_enabled(False):  # as the training loop has it
                    loss.backward()
                nn.utils.clip_grad_norm_(weights, 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)

        return run

    def by_graphs(self, batch_size: int) -> tuple[Callable[[], None], StepGraphs]:
        """What takes all the steps once, as CUDA graphs, from padded batches on the host, which it copies."""
        graphs = StepGraphs(self.losses, self.weights, self.optimizer, clip=1.0, is_demanded=True)
        packed = [pack(batch, self.tagger, batch_size) for batch in self.batches]
        inputs = StepInputs(batch_size, rates(self.optimizer, PART), None, seed=0)

        def run() -> None:
            for batch in packed:
                assert batch is not None
                assert graphs(batch, inputs)

        return run, graphs


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
    config = with_settings(config or Config(), {"model.encoder.name": encoder})
    rows: list[dict[str, object]] = []
    for batch_size in batch_sizes:
        contenders = {
            name: contender(name, examples, batch_size, device, steps, config).by_kernels(device) for name in _names()
        }
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


def run_processes(train: Path, dev: Path, num_sentences: int, folder: Path, epochs: int = 3) -> list[Row]:
    """Sentences per second of training on the CPU, with one process and with two, by each setting of CUDA graphs."""
    rows: list[Row] = []
    for processes in (1, 2):
        for value in ("none", "false"):
            output = folder / f"{value}-{processes}"
            launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
            command = ["-m", "spansieve", "train", str(train), str(dev), "--set=run.cpu=true", "--epochs", str(epochs)]
            command += ["--set", f"training.cuda_graphs={value}", "--output", str(output)]
            one_thread = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
            subprocess.run([sys.executable, *launch, *command], check=True, stdout=subprocess.DEVNULL, env=one_thread)
            results = json.loads((output / RESULTS).read_text(encoding="utf-8"))
            rows.append(
                {
                    "processes": processes,
                    "training.cuda_graphs": value,
                    "sentences/s": f"{epochs * num_sentences / results['seconds']:,.0f}",
                    "loss of the last epoch": f"{results['history'][-1]['loss']:.4f}",
                }
            )
    return rows


def training_speed_page(
    rows: Sequence[dict[str, object]], encoder: str, device: str, processes: Sequence[Row] = ()
) -> ResultPage:
    title = f"Training steps on {encoder}"
    tables = [Table(rows), *([Table(processes, "Two processes on the CPU", ABOUT_PROCESSES)] if processes else [])]
    return ResultPage(f"throughput_{encoder}_{device}", title, tables, csv=rows, device=device)


def _names() -> list[str]:
    return [SOFTMAX, *([PEER] if find_spec("torchcrf") else []), *OURS]


def contender(
    name: str, examples: Sequence[Example], batch_size: int, device: str, steps: int, config: Config
) -> Contender:
    """Make a contender: one of our heads, or a layer over tokens."""
    head: Any = name if name in OURS else "crf"
    torch.manual_seed(0)
    tagger = Tagger.for_data(replace(config.model, head=head, scheme="BIO"), examples)
    batches = _batches(tagger, examples, batch_size, steps, with_tags=name not in OURS)
    if name not in OURS:
        tagger.head = TokenHead(tagger.encoder.size, len(_tags(tagger.labels)), name == PEER)  # type: ignore[assignment]
    tagger = tagger.to(device).train()
    return Contender(tagger, batches, build_optimizer(tagger, config.training), config.training.precision)


def _batches(
    tagger: Tagger, examples: Sequence[Example], batch_size: int, steps: int, with_tags: bool = False
) -> list[Batch]:
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
        if with_tags:
            assert isinstance(batch.gold, HeadGold)
            tags = torch.full((len(chosen), int(batch.lengths.max())), IGNORED)
            for row, example, segments in zip(tags, chosen, gold):
                names = tags_of_segments(segments, len(example), "BIO")
                row[: len(example)] = torch.tensor([ids[tag] for tag in names])
            batch = replace(batch, gold=replace(batch.gold, span_labels=tags))
        made.append(batch)
    return made


def _tags(labels: LabelSet) -> list[str]:
    return ["O", *(f"{prefix}-{name}" for name in labels for prefix in "BI")]
