"""Distillation of a pretrained encoder's model into the built-in encoder with word vectors: what is chosen on dev, and
what that gives on test.

The teacher is trained first, then its distributions are computed, once for each temperature and amount of text; the
students are trained side by side. What is finished is not done again, so that a page can be made of what runs left.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.reproduce.all_corpora import machines
from benchmarks.reproduce.corpora import Corpus
from benchmarks.reproduce.plan import OURS
from benchmarks.reproduce.runs import Outcome, Run, finish, is_finished, is_trained, read_outcome, side_by_side
from benchmarks.result_page import ResultPage, Row, Spread, Table, percent
from spansieve.config import preset, with_settings
from spansieve.data.example import Example
from spansieve.training.run import train
from spansieve.training.run_folder import MODEL, RESULTS, TEACHER
from spansieve.training.teacher import Teacher


class Way(NamedTuple):
    """A way to learn: the teacher's part beside gold, what divides its scores, and sentences that it alone labels."""

    mixture: float
    temperature: float
    texts: int

    @property
    def name(self) -> str:
        return f"mixture-{self.mixture:g}_temperature-{self.temperature:g}_texts-{self.texts}"


def parsed_way(text: str) -> Way:
    """
    >>> parsed_way("0.5,1,10000")
    Way(mixture=0.5, temperature=1.0, texts=10000)
    """
    try:
        mixture, temperature, texts = text.split(",")
        return Way(float(mixture), float(temperature), int(texts))
    except ValueError as error:
        raise ValueError(f"--way must be mixture, temperature and sentences, such as 0.5,1,0, got {text!r}") from error


@dataclass(frozen=True)
class Distillation:
    """One teacher, and students that learn from it in several ways, with several seeds each."""

    corpus: Corpus
    texts: Sequence[Example]
    ways: Sequence[Way]
    teacher: Run
    student: Mapping[str, Any]  # settings, beyond the preset
    folder: Path
    seeds: Sequence[int] = (0, 1, 2)
    device: str = "cpu"
    jobs: int = 1

    def examples(self, way: Way) -> list[Example]:
        return [*self.corpus.train, *self.texts[: way.texts]]

    def run_of(self, way: Way, seed: int) -> Run:
        """The run of a student, which has the teacher's `max_width`."""
        width = json.loads((self.teacher.folder / RESULTS).read_text(encoding="utf-8"))["counts"]["max_width"]
        settings = {**self.student, "training.seed": seed, "model.max_width": width}
        return Run(OURS, seed, with_settings(preset("builtin"), settings), self.folder / f"{way.name}_{seed}")

    def targets_folder(self, way: Way) -> Path:
        return self.folder / f"targets_temperature-{way.temperature:g}_texts-{way.texts}"


def teacher_run(encoder: str, settings: Mapping[str, Any], folder: Path) -> Run:
    config = with_settings(preset("pretrained"), {**settings, "model.encoder.name": encoder})
    return Run(OURS, config.training.seed, config, folder / "teacher")


def run_distillation(plan: Distillation, seen: Callable[[str], None]) -> tuple[Outcome, dict[Way, list[Outcome]]]:
    """Train what is not finished; the outcomes of the teacher and of the students, way by way."""
    if not is_finished(plan.teacher, plan.corpus):
        finish(plan.teacher, plan.corpus, plan.device)
    teacher = read_outcome(plan.teacher, plan.corpus)
    seen(f"teacher: dev {percent(teacher.dev.f1)} F1")
    students = [(way, plan.run_of(way, seed)) for seed in plan.seeds for way in plan.ways]
    missing = [(way, run) for way, run in students if not is_finished(run, plan.corpus)]
    for way in dict.fromkeys(way for way, _ in missing):
        store_targets(plan, way)
    missing.sort(key=lambda one: -one[0].texts)  # the longest first
    tasks = {run: (teach, (plan, way, run)) for way, run in missing}
    side_by_side(tasks, plan.jobs, lambda run: seen(f"{run.folder.name}: dev {percent(dev_f1(run))} F1"))
    return teacher, {way: [read_outcome(run, plan.corpus) for own, run in students if own == way] for way in plan.ways}


def dev_f1(run: Run) -> float:
    return json.loads((run.folder / RESULTS).read_text(encoding="utf-8"))["dev"]["micro"]["f1"]


def store_targets(plan: Distillation, way: Way) -> None:
    """Compute the teacher's distributions, where they are not stored."""
    folder = plan.targets_folder(way)
    if not (folder / TEACHER).exists():
        folder.mkdir(parents=True, exist_ok=True)
        teacher = Teacher.read(plan.teacher.folder / MODEL, way.temperature, way.mixture)
        teacher.targets(plan.examples(way), folder, torch.device(plan.device))


def teach(plan: Distillation, way: Way, run: Run) -> None:
    """Train a student, and leave its predictions on the test data in its folder."""
    if not is_trained(run, plan.corpus):
        teacher = Teacher.read(plan.teacher.folder / MODEL, way.temperature, way.mixture)
        run.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(plan.targets_folder(way) / TEACHER, run.folder / TEACHER)
        options: dict[str, Any] = {"resume": True, "use_cpu": plan.device == "cpu", "teacher": teacher}
        train(run.config, plan.examples(way), plan.corpus.dev, run.folder, **options)
        (run.folder / TEACHER).unlink()
    finish(run, plan.corpus, plan.device)


# ---- The page --------------------------------------------------------------------------------------------------------


def distilled_page(
    plan: Distillation, teacher: Outcome, students: Mapping[Way, Sequence[Outcome]], note: str = ""
) -> ResultPage:
    """The page: dev of all ways; test of the teacher and of the way that is best on dev, and of no other."""
    best = max(students, key=lambda way: statistics.mean(one.dev.f1 for one in students[way]))
    rows = [_row(way, some, way == best) for way, some in students.items()]
    encoder = Path(plan.teacher.config.model.encoder.name).name
    seeds = ", ".join(map(str, plan.seeds))
    about = (
        f"{plan.corpus.name}, by the sentence: the teacher is FSemiCRF on {encoder}, the students are the built-in "
        f"encoder with word vectors, preset `builtin`, seeds {seeds}. Mean and sample standard deviation of micro F1, "
        "percent. Mixture is the teacher's part beside gold, temperature divides its scores, and texts are the "
        "sentences without labels that it alone labels; no test text is among them. Of the ways to learn, the one with "
        "the best mean on dev is chosen, and only that is tested."
    )
    of_teacher = f"The teacher: dev {percent(teacher.dev.f1)}, test {percent(teacher.test.f1)}."
    every = [teacher, *(one for some in students.values() for one in some)]
    parts: list[str | Table] = [about, *filter(None, [note]), of_teacher, Table(rows)]
    title = f"Distilled into the built-in encoder: {plan.corpus.name}"
    return ResultPage(f"distilled_{plan.device}", title, parts, csv=rows, machine=machines(every))


def _row(way: Way, outcomes: Sequence[Outcome], is_best: bool) -> Row:
    dev, test = (Spread.of([getattr(one, split).f1 for one in outcomes]).percent() for split in ("dev", "test"))
    tested = {"test F1": f"**{test}**" if is_best else ""}
    return {"mixture": way.mixture, "temperature": way.temperature, "texts": way.texts, "dev F1": dev} | tested
