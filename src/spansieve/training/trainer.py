"""Training, from examples to the best model on dev.

Everything that happens in a step follows from the configuration and the step's number: which sentences it has, its
rates, its randomness. A run that goes on from a checkpoint therefore ends as an unbroken one does.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import ProjectConfiguration, gather_object
from torch import Tensor

from spansieve.config import Config
from spansieve.data.batching import plan_epoch, prepared_ahead, process_batches
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.models.filtered import GraphCounts
from spansieve.models.storage import MODEL as MODEL_FOLDER
from spansieve.models.storage import save_model
from spansieve.models.tagger import Batch, Tagger
from spansieve.models.torch_backend import graph_counter, predict_segments
from spansieve.persistence.manifest import refusing
from spansieve.training.callbacks import EpochReport, Observer, StepReport, learnable_gold, vector_coverage
from spansieve.training.checkpoints import newest_checkpoint, restore, tensors_of, write_checkpoint
from spansieve.training.optimizer import EMA, build_optimizer, rate_part, rates, set_rates
from spansieve.training.packed_batches import PackedBatch, pack
from spansieve.training.run_folder import CHECKPOINTS, LOGS, MODEL, TrainingError, on_disk
from spansieve.training.step_graphs import StepInputs, step_graphs
from spansieve.training.teacher import Teacher, TeacherTargets
from spansieve.training.warm_start import Start, take_weights

SECONDS_PER_REPORT, STEPS_PER_REPORT = 0.5, 20
SMALLEST_STEP = 8  # a last step with less than this part of the others' sentences is joined to one of them


@dataclass
class Progress:
    """The progress of a run: everything but the weights, and all of it in each checkpoint."""

    step: int = 0
    epoch: int = 0  # complete ones
    loss: float = 0.0  # summed over the sentences of the current epoch
    best: float = -1.0
    best_epoch: int = 0
    seconds: float = 0.0  # of training
    history: list[dict[str, Any]] = field(default_factory=list)


class PreparedStep(NamedTuple):
    """What a step takes, made on the host while the steps before it run."""

    batches: list[Batch]
    packed: PackedBatch | None  # the one batch of a step that can be captured


class Trainer:
    """One run in one folder."""

    def __init__(
        self,
        config: Config,
        train: Sequence[Example],
        dev: Sequence[Example],
        folder: Path,
        observer: Observer,
        trackers: Sequence[str] = (),
        use_cpu: bool = False,
        before_step: Callable[[int, Tagger], None] | None = None,
        start: Start | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        self.config, self.folder, self.observer, self.before_step = config.training, folder, observer, before_step
        self.train_examples, self.dev_examples = train, dev
        self.accelerator = build_accelerator(self.config.precision, folder, trackers, use_cpu)
        if len(train) < self.accelerator.num_processes:
            raise ValueError(
                f"training data must have a sentence for each of {self.accelerator.num_processes} processes, "
                f"got {len(train)}"
            )
        torch.manual_seed(self.config.seed)
        labels = None if teacher is None else teacher.tagger.labels
        self.tagger = Tagger.for_data(config.model, train, start and start.encoder_folder(config.model), labels)
        started = take_weights(self.tagger, start) if start else ()
        self.tagger.to(self.accelerator.device)
        self.gold, counts = learnable_gold(self.tagger, train, dev)
        vectors = vector_coverage(self.tagger, train, dev)
        taught = "" if teacher is None else teacher.described(train)
        self.counts = replace(counts, started_from=started, vectors=vectors, teacher=taught)
        self.targets: TeacherTargets | None = None
        if teacher is not None:
            self.tagger.head.check_teacher(teacher.tagger.head)
            with self.accelerator.main_process_first():  # the others read what it has written
                self.targets = teacher.targets(train, folder, self.accelerator.device)
        self.optimizer = build_optimizer(self.tagger, self.config)
        decay = self.config.ema_decay
        self.ema = None if decay is None else EMA(self.tagger, decay)
        self.model = self.accelerator.prepare_model(self.tagger)
        self.graphs = step_graphs(self.accelerator, self.config, self.model, self.tagger, self.optimizer, self.ema)
        self.lengths = [len(example.tokens) for example in train]
        self.step_size = self.config.batch_size * self.accelerator.num_processes * self.config.accumulation
        self.progress = Progress()
        self.num_steps = self.config.epochs * len(self._plan(0))

    # ---- The run -----------------------------------------------------------------------------------------------------

    def run(self, resume: bool) -> Progress:
        """Train until the last epoch or until patience ends. The best model on dev is then in `folder/model`."""
        if resume:
            self._go_on()
        if self.accelerator.is_main_process:
            self.observer.on_start(self.counts, self.num_steps, self.progress.step)
        self._started = self._reported = self._saved = time.monotonic()
        self._seconds_before = self.progress.seconds
        patience = math.inf if self.config.patience is None else self.config.patience
        while self.progress.epoch < self.config.epochs and self.progress.epoch - self.progress.best_epoch < patience:
            self._run_epoch()
        self.accelerator.wait_for_everyone()  # the main process may still be writing
        self.accelerator.end_training()
        return self.progress

    def _go_on(self) -> None:
        if self.accelerator.is_main_process:
            MODEL_FOLDER.recover(self.folder / MODEL)
        self.accelerator.wait_for_everyone()
        checkpoint = newest_checkpoint(self.folder / CHECKPOINTS)
        steps = set(gather_object([None if checkpoint is None else checkpoint.step]))
        if len(steps) > 1:
            raise TrainingError(f"every process must see the same checkpoints in {self.folder}, got steps {steps}")
        if checkpoint is not None:
            restore(checkpoint, self.tagger, self.optimizer, self.ema)
            with refusing(f"the checkpoint of step {checkpoint.step} is not of this run"):
                self.progress = Progress(**checkpoint.state["progress"])

    def _run_epoch(self) -> None:
        steps = self._plan(self.progress.epoch)
        remaining = steps[self.progress.step - self.progress.epoch * len(steps) :]
        self._open_sums()
        self.model.train()
        for step, prepared in zip(remaining, prepared_ahead(remaining, self._prepared)):
            self._train_step(step, prepared)
            if step is not remaining[-1] and self._is_checkpoint_due():
                self._take_in_losses()
                self._save_checkpoint()
        self._take_in_losses()
        self._end_epoch()

    def _plan(self, epoch: int) -> list[list[int]]:
        smallest = max(self.accelerator.num_processes * self.config.accumulation, self.step_size // SMALLEST_STEP)
        return plan_epoch(self.lengths, self.step_size, self.config.seed, epoch, smallest)

    def _prepared(self, step: Sequence[int]) -> PreparedStep:
        """The batches of this process's part of a step; packed, too, where steps are captured."""
        accelerator = self.accelerator
        parts = process_batches(step, accelerator.process_index, accelerator.num_processes, self.config.accumulation)
        batches = [self._batch(part) for part in parts]
        packed = None if self.graphs is None else pack(batches[0], self.tagger, self.config.batch_size)
        return PreparedStep(batches, packed)

    def _batch(self, part: Sequence[int]) -> Batch:
        seed, rate = f"{self.config.seed}/{self.progress.epoch}", self.config.uppercase_rate
        tokens = [uppercased(self.train_examples[i].tokens, rate, f"{seed}/{i}") for i in part]
        gold = [self.gold[i] for i in part]
        if self.targets is not None:
            return self.targets.mixed(self.tagger.batch(tokens, gold), part, self.tagger)
        return self.tagger.batch(tokens, gold, [self.train_examples[i].unknown for i in part])

    def _train_step(self, step: Sequence[int], prepared: PreparedStep) -> None:
        if self.before_step is not None:
            self.before_step(self.progress.step, self.tagger)
        # The step's own seed: there is no state of chance to restore, and each process draws its own.
        seed = (self.config.seed * 1_000_003 + self.progress.step) * 1_009 + self.accelerator.process_index
        part = rate_part(self.config, self.progress.step, self.num_steps)
        kept = None if self.ema is None else self.ema.kept(self.progress.step + 1)
        inputs = StepInputs(len(step), rates(self.optimizer, part), kept, seed % 2**63)
        if not self._replayed(prepared, inputs):
            self._step_by_kernels(prepared.batches, inputs)
        self.progress.step += 1
        self._sentences += len(step)
        self._tokens += sum(self.lengths[i] for i in step)
        if self._is_report_due():
            self._report_step(part)

    def _replayed(self, prepared: PreparedStep, inputs: StepInputs) -> bool:
        """Take the step by its graph; False where there is none."""
        if self.graphs is None or prepared.packed is None:
            return False
        is_taken = self.graphs(prepared.packed, inputs)
        if is_taken:
            self._totals.append(self.graphs.total.clone())
            self._norm: Tensor | None = self.graphs.norm
        return is_taken

    def _step_by_kernels(self, batches: Sequence[Batch], inputs: StepInputs) -> None:
        torch.manual_seed(inputs.seed)
        set_rates(self.optimizer, inputs.rates)
        for batch in batches[:-1]:
            with self.accelerator.no_sync(self.model):
                self._backward(batch, inputs.num_sentences)
        self._backward(batches[-1], inputs.num_sentences)
        if self.config.clip is not None:
            self._norm = self.accelerator.clip_grad_norm_(self.tagger.parameters(), self.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None and inputs.kept is not None:
            self.ema.update(inputs.kept)

    def _is_report_due(self) -> bool:
        """Whether to report: by the clock; with several processes, by the count of steps, on which all agree."""
        if self.accelerator.num_processes > 1:
            return self.progress.step % STEPS_PER_REPORT == 0
        return time.monotonic() - self._reported > SECONDS_PER_REPORT

    def _is_checkpoint_due(self) -> bool:
        """Whether to save a checkpoint: by the clock of the main process, which the others follow now and then."""
        is_due = time.monotonic() - self._saved > self.config.checkpoint_seconds
        if self.accelerator.num_processes == 1:
            return is_due
        if self.progress.step % STEPS_PER_REPORT:
            return False
        votes = torch.tensor(float(is_due and self.accelerator.is_main_process), device=self.accelerator.device)
        return bool(self.accelerator.reduce(votes, "sum"))

    def _backward(self, batch: Batch, num_sentences: int) -> None:
        """The loss is a mean over the sentences of the whole step, on all processes, whose gradients are averaged."""
        with self._finite_weights():
            losses = self.model(batch.to(self.accelerator.device))
        total = reduce(torch.add, losses.values()).sum()
        # On this thread: autograd's own one for a GPU would have to be woken up for each step.
        with torch.autograd.set_multithreading_enabled(False):
            self.accelerator.backward(total * (self.accelerator.num_processes / num_sentences))
        # Added up when they are reported: a GPU would wait for each small sum.
        self._totals.append(total.detach())

    @contextmanager
    def _finite_weights(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:  # no distribution takes scores that are no numbers
            if all(bool(torch.isfinite(parameter).all()) for parameter in self.tagger.parameters()):
                raise
            raise self._diverged("weights", math.nan) from error

    def _diverged(self, what: str, value: float) -> TrainingError:
        return TrainingError(
            f"the {what} must be finite, got {value} by step {self.progress.step}: "
            "a lower rate (training.learning_rate, training.encoder_learning_rate) may help"
        )

    # ---- What is reported and kept -----------------------------------------------------------------------------------

    def _open_sums(self) -> None:
        self._loss = self.progress.loss if self.accelerator.is_main_process else 0.0  # of the epoch, on this process
        self._norm = None  # of the last step's gradient
        self._totals: list[Tensor] = []  # the losses since the last report
        self._sentences = self._tokens = 0

    def _take_in_losses(self) -> float:
        """Take in the losses since the last time, per sentence. Synchronises the host, which not every step does."""
        losses = torch.stack(self._totals).tolist() if self._totals else []
        mean = sum(gather_object([sum(losses)])) / max(self._sentences, 1)
        for loss in losses:
            self._loss += loss  # one by one, so that the sum is the same whenever there are reports
        self.progress.loss = sum(gather_object([self._loss]))
        self._totals, self._sentences, self._tokens = [], 0, 0
        for name, value in (("loss", self.progress.loss), ("norm of the gradient", self._norm)):
            if value is not None and not math.isfinite(value):
                raise self._diverged(name, float(value))
        return mean

    def _report_step(self, part: float) -> None:
        tokens, elapsed = self._tokens, time.monotonic() - self._reported
        loss = self._take_in_losses()
        self._reported = time.monotonic()
        self._clock()
        step, epoch = self.progress.step, self.progress.epoch + 1
        seconds_left = self.progress.seconds / step * (self.num_steps - step)
        if self.accelerator.is_main_process:
            self.observer.on_step(StepReport(step, self.num_steps, epoch, loss, tokens / elapsed, seconds_left))
            self.accelerator.log({"train/loss": loss, "train/rate": part}, step=step)

    def _clock(self) -> None:
        self.progress.seconds = self._seconds_before + time.monotonic() - self._started

    def _end_epoch(self) -> None:
        progress = self.progress
        with self._finite_weights(), nullcontext() if self.ema is None else self.ema.applied():
            dev, graph = score_on(self.tagger, self.dev_examples, self.accelerator)
        progress.epoch += 1
        is_best = dev["f1"] > progress.best
        if is_best:
            progress.best, progress.best_epoch = dev["f1"], progress.epoch
        self._clock()
        loss, progress.loss = progress.loss / max(len(self.train_examples), 1), 0.0
        report = EpochReport(progress.epoch, progress.step, loss, dev, is_best, progress.seconds, graph)
        progress.history.append(asdict(report))
        if self.accelerator.is_main_process:
            if is_best:
                # The weights that are kept as the model: the EMA where there is one.
                weights = dict(self.tagger.state_dict()) | ({} if self.ema is None else self.ema.average)
                with on_disk(self.folder):
                    save_model(self.tagger, self.folder / MODEL, weights=weights)
            self.observer.on_epoch(report)
            values = {f"dev/{name}": value for name, value in (dev | graph).items()}
            self.accelerator.log(values, step=progress.step)
        self._save_checkpoint()
        self._reported = time.monotonic()

    def _save_checkpoint(self) -> None:
        self._clock()
        if self.accelerator.is_main_process:
            state = {"progress": vars(self.progress)}
            tensors = tensors_of(self.tagger, self.optimizer, self.ema)
            with on_disk(self.folder):
                write_checkpoint(self.folder / CHECKPOINTS, self.progress.step, state, tensors)
        self._saved = time.monotonic()


def build_accelerator(precision: str, folder: Path, trackers: Sequence[str] = (), use_cpu: bool = False) -> Accelerator:
    # Accelerate has one state in a Python process, and would refuse a run with another precision or device.
    if AcceleratorState._shared_state and PartialState().num_processes == 1:
        state = AcceleratorState()
        if state.mixed_precision != precision or (state.device.type == "cpu") != use_cpu:
            AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        mixed_precision=precision,
        cpu=use_cpu,
        log_with=list(trackers) or None,
        project_config=ProjectConfiguration(str(folder), logging_dir=str(folder / LOGS)),
        # An encoder may have weights that no token's vector depends on.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def score_on(
    tagger: Tagger, examples: Sequence[Example], accelerator: Accelerator
) -> tuple[dict[str, float], dict[str, float]]:
    """The dev scores, each process with its share of the sentences; and of a filtered model the size of its graphs, per
    sentence, and the filter's recall."""
    own = examples[accelerator.process_index :: accelerator.num_processes]
    counts, count = graph_counter(tagger, own)
    with accelerator.autocast():
        predictions = predict_segments(tagger, [example.tokens for example in own], on_batch=count)
    pairs = [(list(example.segments), prediction.segments) for example, prediction in zip(own, predictions)]
    pairs, counts = gather_object(pairs), gather_object(counts)
    micro = evaluate([gold for gold, _ in pairs], [segments for _, segments in pairs]).micro
    dev = {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1}
    total = GraphCounts(*map(sum, zip(*counts)))
    if not total.sentences:
        return dev, {}
    nodes, edges = total.nodes / total.sentences, total.edges / total.sentences
    return dev, {"nodes": nodes, "edges": edges, "filter_recall": total.gold_kept / total.gold if total.gold else 1.0}


def uppercased(tokens: Sequence[str], rate: float, seed: str) -> Sequence[str]:
    """Data augmentation: the tokens in capitals in one of 1 / rate cases, which follow from the seed; else as they are.

    A model that learns some sentences in capitals, as headlines are, relies less on case. Where a token has no
    capitals, or would become longer by them, it stays.

    >>> uppercased(["Straße", "in", "Rome"], 1.0, "0/0/0")
    ['Straße', 'IN', 'ROME']
    """
    if not rate or random.Random(seed).random() >= rate:
        return tokens
    return [token.upper() if len(token.upper()) == len(token) else token for token in tokens]
