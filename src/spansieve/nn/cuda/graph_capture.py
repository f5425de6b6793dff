"""Work of a GPU captured as CUDA graphs, which are launched as a whole; and whether the weights that they read are
still where they were."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from operator import is_
from typing import Any, cast

import torch
from torch import Tensor, nn

MAX_KEPT = 8 << 20  # bytes that the driver keeps of a graph, at most; what goes beyond are other processes
MAX_LAG = 1.5  # the device's time by that of starting its kernels, above which there is nothing to gain

_one_capture_at_a_time = threading.Lock()  # in a process


class Recorder:
    """Captures what runs on a GPU, on a stream and in memory that all graphs share. `bytes` is what they take of the
    device: that memory, and what the driver keeps of each graph."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._stream = device, torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self.bytes = 0

    def capture(self, run: Callable[[], None]) -> Callable[[], None] | None:
        """Capture a run and return what replays it; None where the device has so much to do in it that it does not wait
        for the host anyway."""
        with _one_capture_at_a_time, torch.cuda.device(self.device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                if not self._is_bound_by_launches(run):
                    return None
                before = self._bytes_in_use()
                graph = captured_graph(run, self._pool, self.device)
                graph.replay()  # for which the driver may need more
                self._stream.synchronize()
                pool, all_of_it = (after - own for after, own in zip(self._bytes_in_use(), before))
                self.bytes += min(max(pool, all_of_it), pool + MAX_KEPT)
            torch.cuda.current_stream().wait_stream(self._stream)
        return graph.replay

    def _bytes_in_use(self) -> tuple[int, int]:
        """The memory that torch has taken, and all that is taken on the device: with the driver's, and with that of
        other processes."""
        free, total = torch.cuda.mem_get_info(self.device)
        return torch.cuda.memory_reserved(self.device), total - free

    def _is_bound_by_launches(self, run: Callable[[], None]) -> bool:
        """Whether the host takes about as long to start the kernels as the device to run them, in one of a few runs:
        others may use the device. The first ones compile all kernels, as capturing needs it."""
        for number in range(5):
            self._stream.synchronize()
            begin = time.perf_counter()
            run()
            started = time.perf_counter()
            self._stream.synchronize()
            if number > 1 and time.perf_counter() - begin < MAX_LAG * (started - begin):
                return True
        return False


class CaptureError(RuntimeError):
    """A capture was begun that could not be ended. Graphs with random numbers that were captured before no longer draw
    those of a seed, and must not be replayed."""


def captured_graph(run: Callable[[], None], pool: Any, device: torch.device) -> torch.cuda.CUDAGraph:
    """Capture a run on the current stream, which is not the default one; other threads may use the device meanwhile."""
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    index = device.index or 0
    generator = torch.cuda.default_generators[index]
    before = generator.clone_state()
    gc.disable()  # what it finds may wait for the device, which is not allowed here
    try:
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            run()
            graph.capture_end()
        except BaseException as error:
            try:
                graph.capture_end()
            except RuntimeError:
                _end_allocation(index, pool)
                generator.graphsafe_set_state(before.graphsafe_get_state())
                if isinstance(error, Exception):
                    raise CaptureError(str(error)) from error
            raise
    finally:
        if collects:
            gc.enable()
    return graph


def _end_allocation(device_index: int, pool: Any) -> None:
    """Do what torch before 2.12 leaves undone where a capture cannot be ended: it would take one to be under way for
    ever, and could no longer free the memory of the device."""
    for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"):  # the second in torch 2.4
        with suppress(AttributeError, RuntimeError):  # has another name, or was done
            getattr(torch._C, name)(device_index, pool)


class Weights:
    """The places of a module's weights, where graphs read them. They are kept until it is seen that others are used."""

    def __init__(self, module: nn.Module) -> None:
        tables: list[tuple[dict[str, Any], str, Any]] = [
            (table, name, part)
            for m in module.modules()
            for table in (m._modules, m._parameters, m._buffers)
            for name, part in cast(dict[str, Any], table).items()
        ]
        self._tables, self._names, self._parts = zip(*tables)
        self._tensors = [part for part in self._parts if isinstance(part, Tensor)]
        self._kept = [tensor.detach() for tensor in self._tensors]  # at their places, wherever the tensors go
        self._places = list(map(Tensor.data_ptr, self._tensors))

    def are_in_use(self) -> bool:
        """Whether none of them was moved or replaced; what is changed where it is does not count."""
        is_there = all(map(is_, map(dict.get, self._tables, self._names), self._parts))
        return is_there and list(map(Tensor.data_ptr, self._tensors)) == self._places
