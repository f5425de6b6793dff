"""Whole training steps as CUDA graphs: encoder, losses, backward pass, clipping, optimizer and EMA in one launch.

Kernel by kernel a step has more than a thousand launches, and the GPU waits for the host between them. A graph is of
one shape, so that batches are padded to few: see `packed_batches.py`. Python runs while a step is captured, and not
when it is replayed: what changes from step to step is in the inputs.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from spansieve.config import TrainingConfig
from spansieve.crf.kernels import has_triton
from spansieve.models.tagger import Batch, Tagger
from spansieve.nn.cuda.graph_capture import CaptureError, captured_graph
from spansieve.training.optimizer import EMA
from spansieve.training.packed_batches import Layout, PackedBatch
from spansieve.training.run_folder import TrainingError

MEGABYTE = 1 << 20
STEPS_AHEAD = 8  # of the device, that the host may be
FREE_PART = 2  # one part in so many of the free memory of the device is for graphs, unless a setting says how much


def step_graphs(
    accelerator: Accelerator,
    config: TrainingConfig,
    model: Callable[[Batch], dict[str, Tensor]],
    tagger: Tagger,
    optimizer: torch.optim.Optimizer,
    ema: EMA | None,
) -> StepGraphs | None:
    """Make what captures the steps of a run; None where steps cannot be captured, which is warned of on a GPU, or where
    they are not to be."""
    device, processes, is_demanded = accelerator.device, accelerator.num_processes, config.cuda_graphs
    if is_demanded is False or (is_demanded is None and device.type != "cuda"):
        return None
    obstacle = None
    if device.type != "cuda" or processes > 1:
        obstacle = f"one process on a GPU, got {processes} on {device.type}"
    elif config.accumulation > 1:
        obstacle = f"training.accumulation=1, got {config.accumulation}"
    elif not tagger.head.takes_padded_gold:
        obstacle = f"a head with takes_padded_gold, got {type(tagger.head).__name__}"
    elif tagger.config.encoder.gradient_checkpointing:
        obstacle = "model.encoder.gradient_checkpointing=false, got true"
    elif not has_triton():  # plain torch looks at all parts of gold, those that fill up, too
        obstacle = "Triton, which is not installed"
    if obstacle is not None:
        if is_demanded:
            raise ValueError(f"training.cuda_graphs needs {obstacle}")
        if accelerator.is_main_process:
            _warn_of_no_graphs(f"CUDA graphs need {obstacle}")
        return None
    weights = [parameter for parameter in tagger.parameters() if parameter.requires_grad]
    return StepGraphs(model, weights, optimizer, ema, config.clip, config.graph_memory, bool(is_demanded))


def _warn_of_no_graphs(reason: str) -> None:
    warnings.warn(f"training goes on kernel by kernel: {reason}", RuntimeWarning, stacklevel=3)


class StepInputs(NamedTuple):
    """What a step takes beside its batch."""

    num_sentences: int
    rates: Sequence[float]  # of each group of the optimizer
    kept: float | None  # how much the EMA keeps of itself; None where there is none
    seed: int


class CapturedStep(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: Tensor  # on the device: all inputs in one, so that a step takes one copy


class StepGraphs:
    """The captured steps of a run, one for each shape, with one pool of memory.

    Replays of a shape draw the random numbers of the seed that they are given. A step that cannot be captured, or that
    there is no memory for, is the caller's to run: the first time, it is warned of.
    """

    def __init__(
        self,
        losses: Callable[[Batch], dict[str, Tensor]],
        parameters: Sequence[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        ema: EMA | None = None,
        clip: float | None = None,
        max_memory: int | None = None,
        is_demanded: bool = False,
    ) -> None:
        """Prepare to capture steps. `max_memory`: that the graphs may take, in MB; None: half of what is free. With
        `is_demanded`, what cannot be captured is an error."""
        self.losses, self.parameters, self.optimizer, self.ema, self.clip = losses, parameters, optimizer, ema, clip
        self.device = parameters[0].device
        free = torch.cuda.mem_get_info(self.device)[0]
        self.max_memory = free // FREE_PART if max_memory is None else max_memory * MEGABYTE
        self.memory = 0  # bytes of the device, taken so far
        self.is_demanded, self._is_warned = is_demanded, False
        self._is_hopeless = False  # the first shape cannot be captured, and no other one will be
        self.total = torch.zeros((), device=self.device)  # the loss of the last step, summed over its sentences
        self.norm = torch.zeros((), device=self.device)  # of its gradient
        self._steps: dict[Layout, CapturedStep | None] = {}
        nothing = torch.empty(0, dtype=torch.uint8)
        self._staging = deque((nothing, torch.cuda.Event()) for _ in range(STEPS_AHEAD))
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)

    @property
    def num_shapes(self) -> int:
        """How many shapes were captured."""
        return sum(step is not None for step in self._steps.values())

    def __call__(self, packed: PackedBatch, inputs: StepInputs) -> bool:
        """Take a step; False where it was not taken, since it cannot be captured."""
        packed.set_header([1 / inputs.num_sentences, 0.0 if inputs.kept is None else inputs.kept, *inputs.rates])
        if packed.layout not in self._steps:
            self._steps[packed.layout] = self._captured(packed)
        step = self._steps[packed.layout]
        if step is None:
            return False
        self._copy(packed.data, step.inputs)
        torch.cuda.manual_seed(inputs.seed)
        step.graph.replay()
        return True

    def _copy(self, block: Tensor, target: Tensor) -> None:
        """Copy to the device by way of pinned memory, so that the host need not wait, unless it is steps ahead."""
        pinned, copied = self._staging.popleft()
        copied.synchronize()
        if len(pinned) < len(block):
            pinned = torch.empty(len(block), dtype=torch.uint8, pin_memory=True)
        pinned[: len(block)].copy_(block)
        target.copy_(pinned[: len(block)], non_blocking=True)
        copied.record()
        self._staging.append((pinned, copied))

    # ---- Capturing ---------------------------------------------------------------------------------------------------

    def _captured(self, packed: PackedBatch) -> CapturedStep | None:
        if self._is_hopeless:
            return None
        inputs = packed.data.to(self.device)
        batch, header = packed.on(inputs)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(self._stream):
                needed = self._warm_up(batch, header)
                if (wanted := self.memory + needed) > self.max_memory:
                    megabytes = f"{wanted / MEGABYTE:,.0f} MB, and {self.max_memory / MEGABYTE:,.0f} are allowed"
                    self._warn_once(f"some shapes are not captured, since the graphs would need {megabytes}")
                    return None
                graph = self._capture(batch, header)
        except RuntimeError as error:
            reason = f"a step cannot be captured as a CUDA graph ({str(error).strip().splitlines()[0]})"
            if self.is_demanded:
                raise TrainingError(f"{reason}: train with training.cuda_graphs=false") from error
            self._warn_once(reason)
            if isinstance(error, CaptureError):
                self._steps.clear()
            self._is_hopeless = not self._steps
            return None
        finally:
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.current_stream(self.device).wait_stream(self._stream)
        self.memory += len(inputs)
        return CapturedStep(graph, inputs)

    def _warn_once(self, reason: str) -> None:
        if not self._is_warned:
            _warn_of_no_graphs(reason)
        self._is_warned = True

    def _warm_up(self, batch: Batch, header: Tensor) -> int:
        """Compile what a step needs and look for what would synchronise the host, without taking the step. Returns the
        memory that a step takes, in bytes."""
        self._backward(batch, header)
        self.optimizer.zero_grad(set_to_none=True)
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        with _no_synchronisation():
            self._backward(batch, header)
        needed = torch.cuda.max_memory_allocated(self.device) - before
        fill_state(self.optimizer, self.parameters)
        return needed

    def _capture(self, batch: Batch, header: Tensor) -> torch.cuda.CUDAGraph:
        self.optimizer.zero_grad(set_to_none=True)  # those of the graph are in its pool
        torch.cuda.synchronize(self.device)
        reserved = torch.cuda.memory_reserved(self.device)
        graph = captured_graph(lambda: self._step(batch, header), self._pool, self.device)
        self.memory += torch.cuda.memory_reserved(self.device) - reserved
        return graph

    def _step(self, batch: Batch, header: Tensor) -> None:
        total = self._backward(batch, header)
        if self.clip is not None:
            self.norm.copy_(nn.utils.clip_grad_norm_(self.parameters, self.clip))
        for group, rate in zip(self.optimizer.param_groups, header[2:]):
            group["lr"] = rate
        self.optimizer.step()
        if self.ema is not None:
            self.ema.update(header[1])
        self.total.copy_(total)
        self.optimizer.zero_grad(set_to_none=True)

    def _backward(self, batch: Batch, header: Tensor) -> Tensor:
        total = reduce(torch.add, self.losses(batch).values()).sum()
        with torch.autograd.set_multithreading_enabled(False):
            (total * header[0]).backward()
        return total.detach()


def fill_state(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Make the optimizer's state of parameters that have a gradient and none yet, as it is before a first step. Made in
    a capture, it would be new in each replay. Gradients are lost; all else stays as it is."""
    is_new = [parameter.grad is not None and parameter not in optimizer.state for parameter in parameters]
    new = [parameter for parameter, is_without in zip(parameters, is_new) if is_without]
    optimizer.zero_grad(set_to_none=True)
    for parameter in new:
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for parameter in new:
        for tensor in optimizer.state[parameter].values():
            tensor.zero_()


@contextmanager
def _no_synchronisation() -> Iterator[None]:
    """Raise where the host is synchronised: in a capture, that would leave the device in a state of failure."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
