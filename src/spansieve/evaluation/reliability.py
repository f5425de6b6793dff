"""A reliability diagram: what the probabilities promise, beside what came true."""

from __future__ import annotations

from pathlib import Path

from spansieve.evaluation.calibration import Calibration

RIGHT, PROMISED = "#3b6fb6", "#b0b0b0"


def draw_reliability(calibration: Calibration, path: Path, title: str = "") -> None:
    """Draw a reliability diagram: above, the share of predictions that are right against their probability, calibrated
    ones on the diagonal; below, how many predictions there are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    bins = [bin for bin in calibration.bins if bin.count]
    width = 0.9 / max(1, len(calibration.bins))
    middle = [(bin.low + bin.high) / 2 for bin in bins]
    upper.plot([0, 1], [0, 1], color=PROMISED, linestyle="--", label="as promised")
    upper.bar(middle, [bin.accuracy for bin in bins], width, color=RIGHT, alpha=0.35)
    upper.plot(
        [bin.probability for bin in bins],
        [bin.accuracy for bin in bins],
        "o-",
        color=RIGHT,
        markersize=5,
        label="right",
    )
    told = f"calibration error {100 * calibration.expected_error:.2f} %\nBrier score {calibration.brier:.4f}"
    upper.text(0.97, 0.05, told, transform=upper.transAxes, ha="right", va="bottom")
    upper.set(ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(frameon=False, loc="upper left")
    lower.bar(middle, [bin.count for bin in bins], width, color=RIGHT, alpha=0.6)
    is_wide = bool(bins) and max(bin.count for bin in bins) > 20 * min(bin.count for bin in bins)
    lower.set(xlabel="probability", ylabel="entities", yscale="log" if is_wide else "linear")
    for panel in (upper, lower):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
        panel.set_axisbelow(True)
    if title:
        figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150, format="png")
