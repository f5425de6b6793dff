"""What the constructors check, once: shapes and types everywhere, values where that synchronises no device.

On an accelerator reading a value back would stop the host until the device has caught up, so values are looked at on
the CPU only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

DIMENSIONS = {1: "(N,)", 2: "(Y, Y)", 3: "(B, L, Y)", 4: "(B, L, K, Y)"}


def checked_scores(name: str, scores: Tensor, ndim: int, look: bool = True) -> Tensor:
    """Check for a floating tensor with `ndim` axes and no NaN; half precision comes back as float32."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {scores.dtype}")
    if scores.ndim != ndim:
        raise ValueError(f"{name} must have shape {DIMENSIONS[ndim]}, got {tuple(scores.shape)}")
    if scores.dtype is not torch.float32 and scores.dtype is not torch.float64:
        scores = scores.float()
    # A maximum is NaN when one entry is, so one pass finds both what is not a number and what is too large to be one.
    if look and scores.is_cpu and scores.numel() and not _largest(scores) < torch.inf:
        raise ValueError(f"{name} must be numbers below +inf (-inf: impossible), got NaN or +inf")
    return scores


def _largest(scores: Tensor) -> float:
    scores = scores.detach()
    # NumPy is done with a small array before torch has started.
    return scores.numpy().max() if scores.numel() < 4096 else scores.amax().item()


def checked_transition(transition: Tensor, scores: Tensor, num_labels: int | None = None, look: bool = True) -> Tensor:
    """Check that the transition is square, with a row for each label; on the device and in the type of the scores."""
    transition = checked_scores("transition", transition, 2, look)
    rows, columns = transition.shape
    if rows != columns:
        raise ValueError(f"transition must be square, (Y, Y), got {tuple(transition.shape)}")
    if num_labels is not None and rows != num_labels:
        wanted = f"({num_labels}, {num_labels}), as scores has {num_labels} labels"
        raise ValueError(f"transition must be {wanted}, got {tuple(transition.shape)}")
    if not (transition.is_cpu and scores.is_cpu) and transition.device != scores.device:
        raise ValueError(f"transition must be on the device of scores, {scores.device}, got {transition.device}")
    return transition if transition.dtype is scores.dtype else transition.to(scores.dtype)


def checked_lengths(
    lengths: Tensor | Sequence[int], num_sentences: int, num_tokens: int, like: Tensor, look: bool = True
) -> Tensor:
    """Check that lengths are between 0 and L; (B,) int64 on the device of `like`."""
    if not isinstance(lengths, Tensor):
        lengths = torch.as_tensor(lengths, dtype=None if len(lengths) else torch.int64)
    if lengths.is_floating_point() or lengths.dtype is torch.bool:
        way_out = "; mask.sum(1) has the lengths of a mask" if lengths.dtype is torch.bool else ""
        raise TypeError(f"lengths must be integers, got {lengths.dtype}{way_out}")
    if lengths.ndim != 1 or len(lengths) != num_sentences:
        raise ValueError(f"lengths must have shape ({num_sentences},), one per sentence, got {tuple(lengths.shape)}")
    if look and lengths.is_cpu and num_sentences:
        values = lengths.tolist()
        low, high = min(values), max(values)
        if low < 0 or high > num_tokens:
            wrong = low if low < 0 else high
            raise ValueError(f"lengths must lie between 0 and {num_tokens}, the number of tokens, got {wrong}")
    lengths = lengths if lengths.dtype is torch.int64 else lengths.to(torch.int64)
    return lengths if lengths.is_cpu and like.is_cpu else to_device(lengths, like.device)


def lengths_of_mask(mask: Tensor, like: Tensor, name: str = "mask") -> Tensor:
    """The lengths, (B,), by a mask (B, L) that is true for the tokens of each sentence of `like`, which come first.
    Looked at on any device: with holes it would be another sentence."""
    if mask.is_floating_point() or mask.shape != like.shape[:2]:
        came = str(mask.dtype if mask.is_floating_point() else tuple(mask.shape))
        raise ValueError(f"{name} must have a boolean or integer per token, {tuple(like.shape[:2])}, got {came}")
    is_token = mask.bool()
    if (is_late := is_token[:, 1:] & ~is_token[:, :-1]).any():
        b, i = is_late.nonzero()[0].tolist()
        way_out = "invert a mask that is true for padding; leave out what has no tag or score, such as special tokens"
        came = f"padding at token {i} of sentence {b} and a token after it"
        raise ValueError(f"{name} must have the tokens of a sentence first, then padding, got {came}; {way_out}")
    return is_token.sum(1)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to a device without synchronising the host: from pinned memory, asynchronously."""
    if device.type == "cuda" and tensor.is_cpu:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def arrays_to_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Integer arrays as tensors, in one transfer."""
    if device.type == "cpu":
        return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    together = to_device(torch.from_numpy(np.concatenate([array.ravel() for array in arrays])), device)
    parts = together.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays)]
