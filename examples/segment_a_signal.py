"""Segments of any sequence of vectors: here a signal in which waves, steps and ramps come up out of noise.

A small network of your own makes a vector of each moment; a span scorer makes scores of spans; a layer makes of them
losses to learn by, and a distribution over segmentations to predict with.

    python examples/segment_a_signal.py --output signal.png
"""

from __future__ import annotations

import argparse
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from spansieve import Segment
from spansieve.crf import Distribution, FilteredSemiMarkovLayer, SemiMarkovLayer
from spansieve.nn.span_scorers import span_scorer

LABELS = ("null", "wave", "step", "ramp")
COLOURS = ("none", "tab:blue", "tab:orange", "tab:green")
LENGTH, WIDEST = 80, 16


# ---- Data: (length,) numbers and the segments among them -------------------------------------------------------------


def signal(generator: torch.Generator) -> tuple[Tensor, list[Segment]]:
    def whole_number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    values = 0.15 * torch.randn(LENGTH, generator=generator)
    segments, at = [], whole_number(2, 12)
    while (end := at + whole_number(6, WIDEST + 1)) <= LENGTH:
        label, time = whole_number(1, len(LABELS)), torch.linspace(0, 1, end - at)
        shape = {1: (4 * math.pi * time).sin(), 2: torch.ones_like(time), 3: 2 * time - 1}[label]
        values[at:end] += shape
        segments.append(Segment(at, end, label))
        at = end + whole_number(0, 16)
    return values, segments


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, list[list[Segment]]]:
    signals = [signal(generator) for _ in range(size)]
    return torch.stack([values for values, _ in signals]), [segments for _, segments in signals]


# ---- Models: a network, and a layer over its scores -----------------------------------------------------------------


class Segmenter(nn.Module):
    """(B, L) numbers to (B, L, K, Y) scores, as many sets of them as the layer takes, and the layer."""

    def __init__(self, layer: SemiMarkovLayer | FilteredSemiMarkovLayer, sets: int, size: int = 32) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Conv1d(1, size, 9, padding=4), nn.ReLU(), nn.Conv1d(size, size, 9, padding=4))
        self.scorer = span_scorer("endpoints-content", size, size, WIDEST, len(LABELS), sets, dropout=0.0)
        self.layer = layer

    def scores(self, values: Tensor) -> tuple[Tensor, ...]:
        vectors = self.network(values[:, None]).transpose(1, 2)  # (B, L, D): bring your own
        return self.scorer.dense(self.scorer(vectors)).split(len(LABELS), dim=-1)

    def loss(self, values: Tensor, gold: list[list[Segment]]) -> Tensor:
        losses = self.layer(*self.scores(values), gold)
        if isinstance(losses, dict):  # of the filter, and of the choice among what it keeps
            losses = losses["filtering"] + losses["segmentation"]
        return losses.mean()

    def distribution(self, values: Tensor) -> Distribution:
        return self.layer.distribution(*self.scores(values))


def segmenters() -> dict[str, Segmenter]:
    """Every span with every label, and every moment in one of them; and sets of what a local classifier keeps, among
    them spans whose best label comes close to null, since `skip` can leave them out."""
    return {
        "semi-Markov": Segmenter(SemiMarkovLayer(len(LABELS)), sets=1),
        "filtered": Segmenter(FilteredSemiMarkovLayer(len(LABELS), skip=True, margin=5.0), sets=2),
    }


def train(model: Segmenter, steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)
        optimizer.zero_grad()
        model.loss(*batch(8, generator)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()


def f1(model: Segmenter, values: Tensor, gold: list[list[Segment]]) -> float:
    with torch.no_grad():
        modes = model.distribution(values).mode
    found = {(b, *segment) for b, mode in enumerate(modes) for segment in mode if segment.label}
    golden = {(b, *segment) for b, segments in enumerate(gold) for segment in segments}
    return 2 * len(found & golden) / (len(found) + len(golden))


# ---- A picture -------------------------------------------------------------------------------------------------------


def plot(models: dict[str, Segmenter], values: Tensor, gold: list[Segment], path: str) -> None:
    figure, axes = plt.subplots(len(models) + 1, 1, figsize=(10, 6), sharex=True, constrained_layout=True)
    axes[0].plot(values[0], color="black", linewidth=0.8)
    axes[0].set_ylabel("signal")
    mark(axes[0], gold)
    for axis, (name, model) in zip(axes[1:], models.items()):
        with torch.no_grad():
            distribution = model.distribution(values)
            inside = moments(distribution.marginals[0])
        mark(axis, [segment for segment in distribution.mode[0] if segment.label])
        for y in range(1, len(LABELS)):
            axis.plot(inside[:, y], color=COLOURS[y], label=LABELS[y])
        axis.set_ylabel(f"{name}\nP(label at t)")
        axis.set_ylim(-0.05, 1.05)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    axes[0].set_title("bands: gold above, the most probable segmentation below; lines: marginals", loc="left")
    axes[-1].set_xlabel("t")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def mark(axis: plt.Axes, segments: list[Segment]) -> None:
    for segment in segments:
        axis.axvspan(segment.start - 0.5, segment.end - 0.5, color=COLOURS[segment.label], alpha=0.2, linewidth=0)
        axis.axvline(segment.start - 0.5, color=COLOURS[segment.label], linewidth=0.8, linestyle=":")


def moments(marginals: Tensor) -> Tensor:
    """P(this moment has label y), (L, Y), from P(this segment is there), (L, K, Y)."""
    inside = torch.zeros(LENGTH, len(LABELS))
    for start in range(LENGTH):
        for width in range(1, min(WIDEST, LENGTH - start) + 1):
            inside[start : start + width] += marginals[start, width - 1]
    return inside


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--output", default="signal.png", help="where to draw")
    arguments.add_argument("--steps", type=int, default=150, help="of training, for each model")
    options = arguments.parse_args()
    generator = torch.Generator().manual_seed(0)
    values, gold = batch(50, generator)
    torch.manual_seed(0)
    models = segmenters()
    for name, model in models.items():
        train(model, options.steps, generator)
        print(f"{name}: F1 {100 * f1(model, values, gold):.1f} on 50 new signals")
    varied = max(range(len(gold)), key=lambda b: len({segment.label for segment in gold[b]}))
    plot(models, values[varied : varied + 1], gold[varied], options.output)
    print(f"drawn to {options.output}")


if __name__ == "__main__":
    main()
