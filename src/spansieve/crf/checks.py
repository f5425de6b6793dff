"""What the constructors check, once: shapes and types everywhere, values where looking at them makes nobody wait.

On an accelerator reading a value back would stop the host until the device has caught up, so values are looked at on
the CPU only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

DIMENSIONS = {1: "(N,)", 2: "(Y, Y)", 3: "(B, L, Y)", 4: "(B, L, K, Y)"}


def checked_scores(name: str, scores: Tensor, ndim: int, look: bool = True) -> Tensor:
    """A floating tensor with `ndim` axes and no NaN; half precision comes back as float32."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {scores.dtype}")
    if scores.ndim != ndim:
        raise ValueError(f"{name} must have shape {DIMENSIONS[ndim]}, got {tuple(scores.shape)}")
    # amax is NaN when one entry is, so one pass finds both what is not a number and what is too large to be one.
    if look and scores.device.type == "cpu" and scores.numel() and not scores.detach().amax() < torch.inf:
        raise ValueError(f"{name} must be numbers below +inf (-inf: impossible), got NaN or +inf")
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def checked_transition(transition: Tensor, scores: Tensor, num_labels: int | None = None) -> Tensor:
    transition = checked_scores("transition", transition, 2)
    if transition.shape[0] != transition.shape[1]:
        raise ValueError(f"transition must be square, (Y, Y), got {tuple(transition.shape)}")
    if num_labels is not None and transition.shape[0] != num_labels:
        wanted = f"({num_labels}, {num_labels}), as scores has {num_labels} labels"
        raise ValueError(f"transition must be {wanted}, got {tuple(transition.shape)}")
    if transition.device != scores.device:
        raise ValueError(f"transition must be on the device of scores, {scores.device}, got {transition.device}")
    return transition.to(scores.dtype)


def checked_lengths(
    lengths: Tensor | Sequence[int], num_sentences: int, num_tokens: int, device: torch.device
) -> Tensor:
    """(B,) int64 on the device of the scores, between 0 and L."""
    on_host = not isinstance(lengths, Tensor) or lengths.device.type == "cpu"
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    if lengths.shape != (num_sentences,):
        raise ValueError(f"lengths must have shape ({num_sentences},), one per sentence, got {tuple(lengths.shape)}")
    lengths = lengths.to(torch.int64)
    if on_host and num_sentences:
        low, high = (int(value) for value in lengths.aminmax())
        if low < 0 or high > num_tokens:
            raise ValueError(
                f"lengths must lie between 0 and {num_tokens}, the number of tokens, got {low if low < 0 else high}"
            )
    return to_device(lengths, device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Without making the host wait: from pinned memory, asynchronously."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
