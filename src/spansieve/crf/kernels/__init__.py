"""One file per backend, the same functions in each, chosen by where the tensors are. No torch here."""

from __future__ import annotations

import functools
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

NO_BUDGET = 1 << 62  # stands for no limit in compiled code
MIN_TRITON = (3, 3)  # before it some of what the kernels do cannot be compiled


class ScoreError(ValueError):
    """Scores are no numbers, or leave nothing possible."""


class Sums(NamedTuple):
    """The sums over all structures, which forward-backward gives. Tensors or NumPy arrays, as the kernel takes them."""

    log_partition: Any  # (B,), in the type of the scores or in float64
    marginals: Any  # like the scores: P(this part is in the structure); None when not wanted
    transition_counts: Any  # (B, Y, Y): expected number of times y' is followed by y; None when not wanted

    @classmethod
    def allocated(cls, scores: np.ndarray, num_sentences: int, num_labels: int, with_marginals: bool) -> Sums:
        """Allocate arrays in the type of the scores for compiled code to fill; without marginals, for log Z alone."""
        return cls(
            np.empty(num_sentences, scores.dtype),
            np.zeros(scores.shape if with_marginals else (0,) * scores.ndim, scores.dtype),
            np.zeros((num_sentences if with_marginals else 0, num_labels, num_labels), scores.dtype),
        )

    def wanted(self, with_marginals: bool) -> Sums:
        return self if with_marginals else Sums(self.log_partition, None, None)


class RequiredDepths(NamedTuple):
    """How deep in required segments each token lies, and the content of each label of a container.

    A token may lie in no further segment only right below a container whose content is as deep as the token: between
    any other and the token a required segment is missing.
    """

    token: Any  # (B, L) NumPy: in how many required segments the token is
    content: Any  # (Y,) NumPy: in how many of them is what lies right below a container with this label


class FilterLimits(NamedTuple):
    """How much of what stands above null a filter keeps. The paper's keeps the best label of each span."""

    labels_per_span: int = 1  # the best so many labels of a span, as far as they stand above null
    budget: int | None = None  # candidates of a sentence: the best so many, by how far they stand above null

    def within(self, num_labels: int) -> FilterLimits:
        """Bound the limits by what there can be: compiled code computes sizes from them, which must not wrap."""
        budget = None if self.budget is None or self.budget >= NO_BUDGET else self.budget
        return FilterLimits(min(self.labels_per_span, num_labels), budget)


PLAIN_FILTER = FilterLimits()


# ---- Which kernel runs for which tensors ----------------------------------------------------------------------------


def kernel_for(scores: Tensor) -> ModuleType:
    """Choose the kernel: compiled code on the CPU, Triton on a GPU, and plain torch anywhere else."""
    return _kernel("cpu" if scores.is_cpu else scores.device.type)


@functools.cache
def can(kernel: ModuleType, name: str) -> bool:
    """Whether a kernel has a function of this name; looked up once, since to look for what is not there takes long."""
    return hasattr(kernel, name)


@functools.cache
def _kernel(device: str) -> ModuleType:
    name = "reference"
    if device == "cpu":
        name = "cpu.torch_api"
    elif device != "cuda":
        way_out = "compute on the CPU or on CUDA, which have them"
        _warn_of_plain_torch(f"there are no compiled kernels for {device!r}", way_out)
    elif has_triton():
        name = "cuda"
    return import_module(f"{__name__}.{name}")


@functools.cache
def has_triton() -> bool:
    """Whether kernels for CUDA can be compiled. The first call warns where they cannot."""
    if find_spec("triton") is None:
        problem, way_out = "Triton is not installed", "install triton"
    elif triton_version() < MIN_TRITON:
        problem, way_out = f"Triton is {_dotted(triton_version())}", f"take {_dotted(MIN_TRITON)} (torch 2.7) or later"
    else:
        return True
    _warn_of_plain_torch(f"{problem}, so there are no compiled kernels for 'cuda'", way_out)
    return False


def triton_version() -> tuple[int, ...]:
    import triton

    return tuple(map(int, triton.__version__.split(".")[:2]))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _warn_of_plain_torch(cause: str, way_out: str) -> None:
    consequence = "plain torch gives the same results many times slower"
    warnings.warn(f"{cause}: {consequence}; {way_out}", RuntimeWarning, stacklevel=2)
