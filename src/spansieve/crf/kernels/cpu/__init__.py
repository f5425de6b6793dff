"""Compiled sweeps for the CPU, with Numba: NumPy in, NumPy out, no torch, no GIL, sentences in parallel.

Axes: B sentences, L tokens, K widths, Y labels (or tags), N candidates. Each function takes `threads`, and uses them
only where the work outweighs the cost of starting them.
"""

from spansieve._lazy import lazy_members

_MODULES = {
    "chain_sweeps": ("Predecessors", "allowed_chain_best", "linear_chain_sums", "segments_of_tags"),
    "dense_skip": ("dense_skip_best", "dense_skip_sums", "is_dense_cheaper", "kept_scores"),
    "filter": ("dense_expectations", "filter_spans", "segments_from_scores"),
    "filtered_sweeps": ("filtered_best", "filtered_sums"),
    "laminar_sweeps": ("nested_best", "nested_sums"),
    "semi_markov_sweeps": ("linear_chain_best", "semi_markov_best", "semi_markov_sums"),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)
__getattr__ = lazy_members(__name__, _MODULES)  # so that a model compiles, or loads, what it uses


def __dir__() -> list[str]:
    return __all__
