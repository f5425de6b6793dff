"""How good the predictions are, how sure one can be of that, and what the probabilities are worth."""

from spansieve.evaluation.bootstrap_intervals import Interval, Intervals, bootstrap
from spansieve.evaluation.calibration import Calibration, Threshold, calibrate, outcomes, threshold_for
from spansieve.evaluation.scores import Counts, Scores, evaluate
from spansieve.evaluation.significance import Comparison, Difference, compare

__all__ = [
    "Calibration",
    "Comparison",
    "Counts",
    "Difference",
    "Interval",
    "Intervals",
    "Scores",
    "Threshold",
    "bootstrap",
    "calibrate",
    "compare",
    "evaluate",
    "outcomes",
    "threshold_for",
]
