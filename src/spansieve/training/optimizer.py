"""The optimizer: learning rates of groups of weights, their schedule over a run, and the average of the weights (EMA).

Learning rates follow from the number of the step alone, so there is nothing to restore when a run goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from spansieve.config import TrainingConfig
from spansieve.models.tagger import Tagger


def build_optimizer(tagger: Tagger, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build the optimizer: pretrained weights and the rest apart; biases, norms and tables have no weight decay."""
    # The embedding tables: rows that a batch has no token for would only ever shrink.
    tables = {module.weight for module in tagger.modules() if isinstance(module, (nn.Embedding, nn.EmbeddingBag))}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in tagger.named_parameters():
        if parameter.requires_grad:
            is_pretrained = tagger.encoder.is_pretrained and name.startswith("encoder.model.")
            rate = config.encoder_learning_rate if is_pretrained else config.learning_rate
            decay = config.weight_decay if parameter.ndim > 1 and parameter not in tables else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    listed = [
        {"params": parameters, "lr": rate, "weight_decay": decay, "full_rate": rate}
        for (rate, decay), parameters in groups.items()
    ]
    # A captured step has its rates and its count on the device.
    return kind(listed, fused=True, capturable=tagger.device.type == "cuda")


def rates(optimizer: torch.optim.Optimizer, part: float) -> list[float]:
    """The learning rate of each group, at a part of the full ones."""
    return [group["full_rate"] * part for group in optimizer.param_groups]


def set_rates(optimizer: torch.optim.Optimizer, rates: Sequence[float]) -> None:
    """Set the learning rate of each group."""
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate


def rate_part(config: TrainingConfig, step: int, num_steps: int) -> float:
    """The part of the full learning rates at a step: linear warm-up, then the schedule.

    >>> [round(rate_part(TrainingConfig(warmup=0.2), step, 10), 3) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.125]
    """
    rising = round(config.warmup * num_steps)
    if step < rising:
        return (step + 1) / rising
    left = (num_steps - step) / max(num_steps - rising, 1)
    if config.schedule == "linear":
        return left
    return 0.5 * (1 - math.cos(math.pi * left)) if config.schedule == "cosine" else 1.0


class EMA:
    """The exponential moving average of the weights. At step n it keeps min(decay, (1 + n) / (10 + n)) of itself: the
    first steps soon lose their weight."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.average = {name: p.detach().clone() for name, p in self._live.items()}

    def kept(self, step: int) -> float:
        """How much of itself the average keeps at a step."""
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, kept: float | Tensor) -> None:
        """Move towards the weights. A captured step takes a tensor, whose value is another in each replay."""
        averages, weights = list(self.average.values()), [p.detach() for p in self._live.values()]
        if isinstance(kept, Tensor):
            torch._foreach_mul_(averages, kept)
            torch._foreach_add_(averages, torch._foreach_mul(weights, 1 - kept))
        else:
            torch._foreach_lerp_(averages, weights, 1 - kept)

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
