"""What a table compares: heads on one encoder, with one preset, the same settings and the same seeds.

Whatever one head is given beyond the others is kept apart, so that a page can show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.plots import Figure
from benchmarks.reproduce.corpora import Corpus
from benchmarks.result_page import ResultPage, Row, Table
from spansieve.config import BUILTIN, Config, ModelConfig, preset, to_dict, with_settings
from spansieve.training.run_folder import dotted

PAPER_RECIPE = "fsemicrf-paper"
NAMES = {
    "crf": "CRF",
    "semicrf": "Semi-CRF",
    "semicrf-unit-null": "Semi-CRF + unit null",
    "fsemicrf": "FSemiCRF",
    "filter-only": "FSemiCRF w/o global loss",
    PAPER_RECIPE: "FSemiCRF, paper's recipe",
}  # the rows, as the paper calls them; the last is FSemiCRF with PAPER_SETTINGS
OURS = "fsemicrf"
# The loss over what the filter keeps, one label a span, maximal paths: the defaults of `ModelConfig`.
PAPER_SETTINGS = {
    f"model.{name}": getattr(ModelConfig(), name)
    for name in ("skip", "margin", "labels_per_span", "budget", "global_loss", "score_null")
}
FILTERS = frozenset(PAPER_SETTINGS)  # settings that only FSemiCRF reads


@dataclass(frozen=True)
class Plan:
    corpus: Corpus
    seeds: tuple[int, ...] = (0, 1, 2)
    encoder: str | None = None  # None: the preset's
    preset: str | None = None  # None: builtin or pretrained, as the encoder is
    settings: Mapping[str, Any] = field(default_factory=dict)  # of every head
    settings_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of one head alone
    heads: tuple[str, ...] = tuple(NAMES)
    device: str = "cpu"
    runs: Path = Path("runs/reproduce")
    jobs: int = 1  # training processes side by side

    def __post_init__(self) -> None:
        for head in (*self.heads, *self.settings_of):
            if head not in NAMES:
                raise ValueError(f"a head must be one of {', '.join(NAMES)}, got {head!r}")
        for name in (*self.settings, *(name for own in self.settings_of.values() for name in own)):
            if name in ("model.head", "training.seed"):
                raise ValueError(f"{name} cannot be set: the heads and the seeds are those of the table")
        if not self.seeds or not self.heads:
            raise ValueError("there must be at least one seed and one head, got none")

    @property
    def base(self) -> Config:
        """The preset on the encoder."""
        chosen = preset(self.preset_name)
        return chosen if self.encoder is None else with_settings(chosen, {"model.encoder.name": self.encoder})

    @property
    def preset_name(self) -> str:
        return self.preset or ("builtin" if self.encoder in (None, BUILTIN) else "pretrained")

    @property
    def encoder_name(self) -> str:
        return Path(self.base.model.encoder.name).name

    def config(self, row: str, seed: int) -> Config:
        head, own = (OURS, PAPER_SETTINGS) if row == PAPER_RECIPE else (row, {})
        shared = with_settings(self.base, {"model.head": head, "training.seed": seed, **self.settings, **own})
        return with_settings(shared, self.settings_of.get(row, {}))

    def stem(self, table: str) -> str:
        """What the files of a table are called."""
        return f"{table}_{self.corpus.name}_{self.encoder_name}_{'gpu' if self.device == 'cuda' else 'cpu'}"

    def page(
        self,
        table: str,
        title: str,
        tables: Sequence[Table],
        figure: Figure,
        more_csv: Mapping[str, Sequence[Row]] | None = None,
    ) -> ResultPage:
        """The page of a table or figure of the paper; its first table is its CSV."""
        where = "on a GPU" if self.device == "cuda" else "on the CPU"
        return ResultPage(
            self.stem(table),
            f"{title}: {self.corpus.name}, {self.encoder_name} encoder, {where}",
            [*self.describe(), *tables, figure],
            tables[0].rows,
            more_csv or {},
            self.device,
        )

    def describe(self) -> list[str]:
        """The data, the seeds and the settings as lines for below a table."""
        return [f"Data: {self.corpus.describe()}.", f"Seeds: {', '.join(map(str, self.seeds))}.", *self.describe_rows()]

    def describe_rows(self) -> list[str]:
        """What the rows have in common, and what they have of their own."""
        lines = []
        config = with_settings(self.base, self.settings)
        beyond = _beyond(config, Config()) | {"model.encoder.name": self.encoder_name}
        shared = written({name: value for name, value in beyond.items() if name not in FILTERS})
        lines.append(f"Settings of every head, beyond the defaults (preset {self.preset_name}): {shared}.")
        filters = {name: value for name, value in beyond.items() if name in FILTERS}
        if filters:
            lines.append(
                f"Beside them, of {NAMES[OURS]}'s filter and graph, which no other head reads: {written(filters)}."
            )
        if PAPER_RECIPE in self.heads:
            lines.append(f"{NAMES[PAPER_RECIPE]}, has in their place {written(PAPER_SETTINGS)}.")
        for head, own in self.settings_of.items():
            lines.append(f"Of {NAMES[head]} alone: {written(own)}.")
        if not self.settings_of:
            lines.append("No head has settings of its own.")
        return lines


def written(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={'none' if value is None else value}`" for name, value in sorted(settings.items()))


def _beyond(config: Config, other: Config) -> dict[str, Any]:
    """The settings in which the first differs; not those that every row of a table has of its own."""
    new, old = dotted(to_dict(config)), dotted(to_dict(other))
    skipped = ("model.head", "training.seed")
    return {name: value for name, value in new.items() if value != old[name] and name not in skipped}
