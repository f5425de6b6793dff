"""An encoder's part of a training step as CUDA graphs: one launch forward and one backward. Kernel by kernel there are
hundreds, and the GPU waits for the host between them.

Axes: W windows, S subwords in a window, D features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn

MIN_USES = 3  # a shape that comes less often is not worth the time of capturing it
WIDTH_STEP = 16  # windows are padded to a multiple of this, so that few shapes occur
MAX_SUBWORDS = 3_072  # in a batch; with more, the kernels are long enough to hide their launches


class GraphReplay:
    """Replays a module that maps integer tensors (W, S) to (W, S, D), in training, with its gradients.

    A result is valid until the next call, and so are the gradients of the module's parameters that a backward pass
    leaves: there must be one backward pass for each call and one optimizer step for each backward pass. Precision is
    that of the autocast in force when a shape is captured.
    """

    def __init__(self, module: nn.Module, max_width: int) -> None:
        """Prepare to capture a module. `max_width`: of a window, in subwords."""
        self.module, self.max_width = module, max_width
        self._uses: Counter[tuple[int, int]] = Counter()
        self._graphs: dict[tuple[int, int], Callable[..., Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, inputs: tuple[Tensor, ...], padding: tuple[int, ...]) -> Tensor:
        """Run the module. `padding[k]` fills up `inputs[k]`; what is made of it is cut off again."""
        num_windows, width = inputs[0].shape
        padded_width = min(-(-width // WIDTH_STEP) * WIDTH_STEP, self.max_width)
        shape = num_windows, padded_width
        self._uses[shape] += 1
        if num_windows * padded_width > MAX_SUBWORDS or self._uses[shape] < MIN_USES:
            return self.module(*inputs)
        padded = tuple(
            nn.functional.pad(tensor, (0, padded_width - width), value=value) for tensor, value in zip(inputs, padding)
        )
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(padded)
        return self._graphs[shape](*padded)[:, :width]

    def _capture(self, inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        is_mixed, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        module = _Shell(self.module).train()
        try:
            # Casts of the weights belong into the graph: a cached one would be that of this step's weights.
            with torch.autocast("cuda", dtype, enabled=is_mixed, cache_enabled=False):
                samples = tuple(tensor.clone() for tensor in inputs)
                return torch.cuda.make_graphed_callables(module, samples, allow_unused_input=True, pool=self._pool)
        except RuntimeError as error:
            raise RuntimeError(
                f"the encoder cannot be captured as a CUDA graph: train with training.cuda_graphs=false ({error})"
            ) from error


class _Shell(nn.Module):
    """A module of its own for each shape: capturing replaces its forward pass, not that of the encoder."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(*inputs)
