"""An exponential moving average (EMA) of the weights: steadier than the last ones, at no cost in prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class EMA:
    """The exponential moving average of the weights. At step n it keeps min(decay, (1 + n) / (10 + n)) of itself: the
    first steps soon lose their weight."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.average = {name: p.detach().clone() for name, p in self._live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        kept = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self._live.values()], 1 - kept)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the averaged weights into the model, while this lasts."""
        own = {name: p.detach().clone() for name, p in self._live.items()}
        self._fill(self.average)
        try:
            yield
        finally:
            self._fill(own)

    def load(self, average: Mapping[str, Tensor]) -> None:
        for name, tensor in self.average.items():
            tensor.copy_(average[name])

    @torch.no_grad()
    def _fill(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self._live.items():
            parameter.copy_(values[name])
