"""The mathematics: scores in, distributions over segmentations out. Needs torch, NumPy and Numba, and has no text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spansieve._lazy import lazy_members

if TYPE_CHECKING:
    from spansieve.crf.candidates import Candidates as Candidates
    from spansieve.crf.conditioning import given as given
    from spansieve.crf.distribution import Distribution as Distribution
    from spansieve.crf.divergence import cross_entropy as cross_entropy
    from spansieve.crf.divergence import kl_divergence as kl_divergence
    from spansieve.crf.evidence import Known as Known
    from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov as FilteredSemiMarkov
    from spansieve.crf.flat_segments import best_disjoint as best_disjoint
    from spansieve.crf.gold import Gold as Gold
    from spansieve.crf.layers import FilteredSemiMarkovLayer as FilteredSemiMarkovLayer
    from spansieve.crf.layers import LinearChainLayer as LinearChainLayer
    from spansieve.crf.layers import NestedLayer as NestedLayer
    from spansieve.crf.layers import SemiMarkovLayer as SemiMarkovLayer
    from spansieve.crf.linear_chain import LinearChain as LinearChain
    from spansieve.crf.linear_chain import TagConstraints as TagConstraints
    from spansieve.crf.losses import FilteredLosses as FilteredLosses
    from spansieve.crf.losses import filtered_losses as filtered_losses
    from spansieve.crf.losses import filtering_loss as filtering_loss
    from spansieve.crf.nested import NestedSegments as NestedSegments
    from spansieve.crf.semi_markov import SemiMarkov as SemiMarkov

_MODULES = {
    "candidates": ("Candidates",),
    "conditioning": ("given",),
    "distribution": ("Distribution",),
    "divergence": ("cross_entropy", "kl_divergence"),
    "evidence": ("Known",),
    "filtered_semi_markov": ("FilteredSemiMarkov",),
    "flat_segments": ("best_disjoint",),
    "gold": ("Gold",),
    "layers": ("FilteredSemiMarkovLayer", "LinearChainLayer", "NestedLayer", "SemiMarkovLayer"),
    "linear_chain": ("LinearChain", "TagConstraints"),
    "losses": ("FilteredLosses", "filtered_losses", "filtering_loss"),
    "nested": ("NestedSegments",),
    "semi_markov": ("SemiMarkov",),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)
__getattr__ = lazy_members(__name__, _MODULES)  # so that the NumPy kernels come without torch


def __dir__() -> list[str]:
    return __all__
