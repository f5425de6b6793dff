"""How good the predictions are, how sure one can be of that, and what the probabilities are worth."""

from spansieve.evaluation.calibration import Calibration, Threshold, calibrate, outcomes, threshold_for
from spansieve.evaluation.error_types import ErrorAnalysis, SegmentError, analyse_errors
from spansieve.evaluation.scores import Counts, Scores, evaluate
from spansieve.evaluation.significance import Comparison, Difference, Interval, Intervals, bootstrap, compare

__all__ = [
    "Calibration",
    "Comparison",
    "Counts",
    "Difference",
    "ErrorAnalysis",
    "Interval",
    "Intervals",
    "Scores",
    "SegmentError",
    "Threshold",
    "analyse_errors",
    "bootstrap",
    "calibrate",
    "compare",
    "evaluate",
    "outcomes",
    "threshold_for",
]
