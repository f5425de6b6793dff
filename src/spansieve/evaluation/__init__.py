"""How good the predictions are, how sure one can be of that, and what the probabilities are worth."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spansieve.evaluation.bootstrap_intervals import Interval as Interval
    from spansieve.evaluation.bootstrap_intervals import Intervals as Intervals
    from spansieve.evaluation.bootstrap_intervals import bootstrap as bootstrap
    from spansieve.evaluation.calibration import Calibration as Calibration
    from spansieve.evaluation.calibration import Threshold as Threshold
    from spansieve.evaluation.calibration import calibrate as calibrate
    from spansieve.evaluation.calibration import outcomes as outcomes
    from spansieve.evaluation.calibration import threshold_for as threshold_for
    from spansieve.evaluation.scores import Counts as Counts
    from spansieve.evaluation.scores import Scores as Scores
    from spansieve.evaluation.scores import evaluate as evaluate
    from spansieve.evaluation.significance import Comparison as Comparison
    from spansieve.evaluation.significance import Difference as Difference
    from spansieve.evaluation.significance import compare as compare

_MEMBERS = {
    "bootstrap_intervals": ("Interval", "Intervals", "bootstrap"),
    "calibration": ("Calibration", "Threshold", "calibrate", "outcomes", "threshold_for"),
    "scores": ("Counts", "Scores", "evaluate"),
    "significance": ("Comparison", "Difference", "compare"),
}
_HOMES = {name: module for module, names in _MEMBERS.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a member when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
