"""A CUDA device that the CPU stands for, so that what runs on a GPU alone is tested without one.

It is a backend of torch's own dispatcher (`device.cpp`), with streams, events and graphs in its place in `torch.cuda`:
tensors are on `cuda`, the host cannot read them, a capture computes nothing, a replay reads memory as it is by then,
and what would synchronise the host in a capture raises, and spoils it. Triton's kernels run in its interpreter, and
those of CUDA C compiled by a C++ compiler. What it cannot show is speed, and what is wrong with asynchronous work.

`make test-emulated-cuda` runs the tests that need a GPU on it.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

SOURCE = Path(__file__).with_name("device.cpp")
BUILD = Path(__file__).parents[2] / "build" / "emulated-cuda"
TOTAL_MEMORY = 64 << 30


def install() -> None:
    """Make torch see the device. Torch asks for its devices once, so that it must not be imported yet."""
    assert "torch" not in sys.modules, "torch must not be imported before the emulated device is installed"
    os.environ["TRITON_INTERPRET"] = "1"
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    library = _compiled(folder)
    ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
    device = ctypes.CDLL(str(library))
    device.begin_capture.restype = ctypes.c_void_p
    device.end_capture.restype = ctypes.c_bool
    device.bytes_allocated.restype = device.max_bytes_allocated.restype = ctypes.c_int64
    captures = Captures(device)
    _patch_torch(device, captures)
    _patch_kernels(captures)


def _compiled(torch_folder: Path) -> Path:
    version = (torch_folder / "version.py").read_bytes()
    name = hashlib.sha256(SOURCE.read_bytes() + version).hexdigest()[:16]
    library = BUILD / f"{name}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=BUILD) as folder:
            made = Path(folder) / library.name
            includes, libraries = f"-I{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}"
            command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", includes, str(SOURCE), libraries]
            subprocess.run([*command, "-lc10", "-ltorch_cpu", "-o", str(made)], check=True)
            made.replace(library)  # whole or not at all: other processes may do the same
    return library


class Captures(threading.local):
    """The graph that this thread captures, where it captures one, and the device that it captures on."""

    graph: Any = None

    def __init__(self, device: ctypes.CDLL) -> None:
        self.device = device

    def enqueue(self, work: Callable[[], None]) -> None:
        """Run a kernel, or in a capture have each replay run it."""
        if self.graph is None:
            work()
            return
        call = ctypes.CFUNCTYPE(None)(work)
        self.graph.calls.append(call)  # which keeps it
        self.device.add_work(call)


# ---- What torch.cuda has ---------------------------------------------------------------------------------------------


def _patch_torch(device: ctypes.CDLL, captures: Captures) -> None:
    import torch

    ops = torch.ops.emulated_cuda

    class Stream:
        cuda_stream = 0

        def __init__(self, *arguments: object, **options: object) -> None:
            self.device = torch.device("cuda", 0)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream)

        def __hash__(self) -> int:
            return 0

        def wait_stream(self, other: Stream) -> None:
            """Everything before has happened by now."""

        def synchronize(self) -> None:
            ops.synchronise()

        def query(self) -> bool:
            return True

    class Event:
        cuda_event = 0

        def __init__(self, *arguments: object, **options: object) -> None:
            self.record()

        def record(self, stream: Stream | None = None) -> None:
            self.time = time.perf_counter()

        def synchronize(self) -> None:
            ops.synchronise()

        def query(self) -> bool:
            return True

        def elapsed_time(self, end: Event) -> float:
            return 1000 * (end.time - self.time)

    class CUDAGraph:
        graph: int | None = None

        def capture_begin(self, pool: object = None, **options: object) -> None:
            assert captures.graph is None
            captures.graph, self.calls, self.pool = self, [], pool
            self.graph = device.begin_capture()
            allocating_to.append(pool)

        def capture_end(self) -> None:
            if captures.graph is not self:
                raise RuntimeError("CUDA error: the stream is not capturing")
            captures.graph = None
            if not device.end_capture():  # of which torch then leaves the rest undone
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
            allocating_to.remove(self.pool)

        def replay(self) -> None:
            assert captures.graph is None
            ops.replay(self.graph)

        def __del__(self) -> None:
            if self.graph is not None:
                device.delete_graph(ctypes.c_void_p(self.graph))

    class CurrentDevice(nullcontext):
        idx = 0

    class Generator:
        """The device draws from the host's generator, so that both draw the same numbers."""

        def clone_state(self) -> Generator:
            copy = Generator()
            copy.state = torch.default_generator.get_state()
            return copy

        def graphsafe_get_state(self) -> Generator:
            return self

        def graphsafe_set_state(self, other: Generator) -> None:
            torch.default_generator.set_state(other.state)

    allocating_to: list[object] = []  # pools of memory, by the captures that are not over
    handles = itertools.count(1)

    def end_allocation(device: int, pool: object) -> None:
        if pool not in allocating_to:
            raise RuntimeError("not currently recording to mempool_id")
        allocating_to.remove(pool)

    def empty_cache() -> None:
        assert not allocating_to, "INTERNAL ASSERT FAILED: captures_underway.empty()"

    debug_modes = {"default": 0, "warn": 1, "error": 2}
    debug_mode = threading.local()

    def set_sync_debug_mode(mode: int | str) -> None:
        debug_mode.value = debug_modes.get(str(mode), mode)
        device.forbid_synchronisation(ctypes.c_bool(debug_mode.value == debug_modes["error"]))

    properties = SimpleNamespace(
        name="emulated", major=9, minor=0, total_memory=TOTAL_MEMORY, multi_processor_count=1,
        shared_memory_per_block_optin=227 << 10,
    )  # fmt: skip
    generator = torch.default_generator
    replacements: dict[str, Any] = {
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "device": CurrentDevice,
        "device_of": CurrentDevice,
        "default_generators": [Generator()],
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "get_device_name": lambda _=None: properties.name,
        "get_device_capability": lambda _=None: (properties.major, properties.minor),
        "get_device_properties": lambda _=None: properties,
        "current_stream": lambda _=None: Stream(),
        "default_stream": lambda _=None: Stream(),
        "stream": nullcontext,
        "graph_pool_handle": lambda: (0, next(handles)),
        "is_current_stream_capturing": lambda: captures.graph is not None,
        "synchronize": lambda _=None: ops.synchronise(),
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "get_rng_state": lambda _=None: generator.get_state(),
        "set_rng_state": lambda state, _=None: generator.set_state(state),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        "mem_get_info": lambda _=None: (TOTAL_MEMORY - device.bytes_allocated(), TOTAL_MEMORY),
        "memory_allocated": lambda _=None: device.bytes_allocated(),
        "memory_reserved": lambda _=None: device.bytes_allocated(),
        "max_memory_allocated": lambda _=None: device.max_bytes_allocated(),
        "reset_peak_memory_stats": lambda _=None: device.reset_max_bytes_allocated(),
        "empty_cache": empty_cache,
        "get_sync_debug_mode": lambda: getattr(debug_mode, "value", 0),
        "set_sync_debug_mode": set_sync_debug_mode,
    }
    for name, replacement in replacements.items():
        setattr(torch.cuda, name, replacement)

    private: Any = torch._C
    private._host_emptyCache = lambda: None
    private._cuda_endAllocateToPool = end_allocation

    def cloned(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        made = torch.empty(storage.nbytes(), dtype=torch.uint8, device=storage.device)
        return made.untyped_storage().copy_(storage)

    torch.UntypedStorage.clone = cloned  # type: ignore[method-assign]


# ---- Kernels ---------------------------------------------------------------------------------------------------------


def _patch_kernels(captures: Captures) -> None:
    import torch
    from triton.runtime.interpreter import GridExecutor

    from spansieve.models import device_decoder
    from spansieve.models.device_decoder import Task
    from spansieve.nn import span_scorers
    from tests.crf.kernels.cuda_on_cpu import KernelOnCpu

    interpret, compiled_for = GridExecutor.__call__, span_scorers.compiled_for

    def interpret_on_host(self: GridExecutor, *arguments: Any, **options: Any) -> None:
        is_tensor = [isinstance(argument, torch.Tensor) for argument in arguments]
        on_host = torch.ops.emulated_cuda.on_host
        tensors = [on_host(x.detach()) if is_one else x for x, is_one in zip(arguments, is_tensor)]
        captures.enqueue(lambda: interpret(self, *tensors, **options))

    class Kernel(KernelOnCpu):
        """A kernel of CUDA C. A launch has the argument as it was when it was launched, or captured."""

        lock = threading.Lock()

        def launch(self, grid: tuple[int, int], threads: int, shared_memory: int, argument: Any) -> None:
            task = Task.from_buffer_copy(Task.from_address(argument[0]))
            pointer = (ctypes.c_void_p * 1)(ctypes.addressof(task))

            def run() -> None:
                assert task  # is kept
                with self.lock:
                    super(Kernel, self).launch(grid, threads, shared_memory, pointer)

            captures.enqueue(run)

    GridExecutor.__call__ = interpret_on_host
    device_decoder.kernel = lru_cache(maxsize=32)(Kernel)
    # The hidden layer of all spans takes the interpreter minutes: it has tests of its own there.
    span_scorers.compiled_for = lambda projected, width: compiled_for(projected, width) if projected.is_cpu else None
