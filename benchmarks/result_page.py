"""The one writer of results/: a page that says how it was made, with CSVs and a plot beside it, all of one name."""

from __future__ import annotations

import csv
import math
import platform
import shlex
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from benchmarks.plots import Figure

Row = Mapping[str, object]
PACKAGES = (
    "spansieve", "torch", "numba", "triton", "transformers", "pytorch-crf", "torch-struct", "flash-semicrf", "spacy",
    "onnxruntime",
)  # fmt: skip
LOCAL_OPTIONS = ("--out", "--runs", "--folder", "--note")  # folders of one machine, and what the page says anyway
DPI = 150


@dataclass(frozen=True)
class Table:
    """Rows of a page, with a heading and a paragraph above them where they need one."""

    rows: Sequence[Row]
    title: str = ""
    about: str = ""

    def to_markdown(self) -> str:
        heading = [f"## {self.title}"] if self.title else []
        return "\n\n".join([*heading, *filter(None, [self.about]), markdown_table(self.rows)])


@dataclass(frozen=True)
class ResultPage:
    """What a page says: paragraphs, tables and at most one plot, in their order."""

    stem: str  # of the names of its files
    title: str
    parts: Sequence[str | Table | Figure]
    csv: Sequence[Row] = ()
    more_csv: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # by what their names add to the stem
    device: str = "cpu"  # on which it was measured
    machine: str | None = None  # and the versions, where they are not those of this process

    def write(self, folder: Path, command: str) -> Path:
        """Write the page, its CSVs and its plot into the folder; `command` makes them again."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"# {self.title}", *provenance(command, self.machine or this_machine(self.device))]
        for part in self.parts:
            if isinstance(part, Table):
                lines.append(part.to_markdown())
            elif isinstance(part, str):
                lines.append(part)
            else:
                part.savefig(folder / f"{self.stem}.png", dpi=DPI)
                lines.append(f"![{self.title.partition(':')[0]}]({self.stem}.png)")
        tables = {self.stem: self.csv} | {f"{self.stem}_{name}": rows for name, rows in self.more_csv.items()}
        for name, rows in tables.items():
            if rows:
                _write_csv(folder / f"{name}.csv", rows)
        path = folder / f"{self.stem}.md"
        path.write_text("\n\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        return path


def markdown_table(rows: Sequence[Row]) -> str:
    """Format rows as a table, with bars that are no borders of cells, such as those of |V|, escaped."""
    columns = list(rows[0])
    lines = [columns, *([str(row[column]) for column in columns] for row in rows)]
    head, *body = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n".join([head, "| " + " | ".join(["---"] * len(columns)) + " |", *body])


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


class Spread(NamedTuple):
    """A figure over seeds: its mean and its sample standard deviation, which one seed has none of."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Take both from the figures of the seeds.

        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951)
        """
        return cls(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else math.nan)

    def percent(self) -> str:
        """Format it as a cell of a table.

        >>> Spread(0.9, 0.001).percent(), Spread(0.9, math.nan).percent()
        ('90.00 ± 0.10', '90.00')
        """
        text = percent(self.mean)
        return text if math.isnan(self.deviation) else f"{text} ± {percent(self.deviation)}"


def percent(part: float) -> str:
    return f"{100 * part:.2f}"


# ---- How a page was made ---------------------------------------------------------------------------------------------


def provenance(command: str, machine: str) -> list[str]:
    """The command, the machine with its versions, and the commit with the date, as paragraphs."""
    commit = git("describe", "--always", "--dirty")
    made_on = f"{date.today().isoformat()}{f', commit {commit}' if commit else ''}"
    return [f"Made by `{command}`.", f"{machine}.", f"{made_on}."]


def this_machine(device: str) -> str:
    """The GPU or, unless the device is cuda, the processor, and the versions of what runs on it."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    machine = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return f"{machine}; Python {platform.python_version()}; {', '.join(versions)}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def git(*arguments: str, folder: Path = Path(__file__).parent) -> str:
    """What git answers in a folder of the repository; nothing where there is no git or no repository."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip()


def command_line(arguments: Sequence[str]) -> str:
    """The command as it was typed, but for where things are on this machine: a path is given by its last name.

    >>> command_line(["table1", "--out", "/a/b", "--seeds", "3"])
    'python -m benchmarks table1 --seeds 3'
    """
    kept: list[str] = []
    is_value = False
    for argument in arguments:
        if is_value or argument in LOCAL_OPTIONS:
            is_value = not is_value
        elif not argument.startswith(tuple(f"{name}=" for name in LOCAL_OPTIONS)):
            kept.append(_without_folder(argument))
    return shlex.join(["python", "-m", "benchmarks", *kept])


def _without_folder(argument: str) -> str:
    name, sign, value = argument.rpartition("=")
    is_path = "/" in value and Path(value).exists()
    return f"{name}{sign}{Path(value).name}" if is_path else argument
