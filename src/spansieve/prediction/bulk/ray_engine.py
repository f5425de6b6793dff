"""The blocks of a bulk job on a Ray cluster, one copy of the model per replica.

Ray Data hands out the blocks and starts a lost replica again; what it was doing is done once more, and written under
the same names. The model is sent with the job: the machines need spansieve and a way to the data, no folder in common.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from spansieve.data.formats.files import package
from spansieve.persistence.atomic import read_files, system_errors, write_files
from spansieve.prediction.bulk.blocks import Block
from spansieve.prediction.bulk.job import Job, predict_blocks, stream_of
from spansieve.prediction.bulk.ledger import Ledger, Outcome, outcome_of_json

EXTRA = "'spansieve[ray]'"  # what pip installs
MOST_TASKS = 10_000  # beyond that a task is several blocks


class Replica:
    """A copy of the model in a process of Ray's."""

    def __init__(self, job: Job, model: Any) -> None:
        """Load the model. `model` is the reference of its files: a replica that is started again takes it once more."""
        with tempfile.TemporaryDirectory() as folder:
            write_files(_ray().get(model), Path(folder))
            self._opened = ExitStack()  # until the process ends
            self.stream = self._opened.enter_context(stream_of(job, folder))
        self.ledger, self.job = Ledger(job.output), job

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        blocks = [Block(*values) for values in zip(*(batch[one.name].tolist() for one in fields(Block)))]
        # A task that is done once more may have got somewhere before.
        known = {block.index: outcome for block in blocks if (outcome := self.ledger.outcome(block)) is not None}
        waiting = [block for block in blocks if block.index not in known]
        outcomes = [*known.values(), *predict_blocks(waiting, self.stream, self.ledger, self.job)]
        return {"outcome": [json.dumps(asdict(outcome)) for outcome in outcomes]}


def predict_with_ray(job: Job, blocks: list[Block], address: str, replicas: int | None) -> Iterator[Outcome]:
    ray = _ray()
    if replicas is not None and replicas < 1:
        raise ValueError(f"replicas must be at least 1, got {replicas}")
    with _cluster(ray, address), system_errors(Path(job.output)):  # a replica's full disk is ours
        resources: dict[str, float] = {"num_cpus": max(1, job.workers)}  # of a replica
        kind, amount = "CPU", resources["num_cpus"]
        if job.device != "cpu":
            resources["num_gpus"] = 1
            kind, amount = "GPU", 1
        if replicas is None:  # as many as fit
            replicas = max(1, int(ray.cluster_resources().get(kind, 0) // amount))
        model = ray.put(read_files(Path(job.model)))
        num_tasks = min(len(blocks), MOST_TASKS)
        data = ray.data.from_items([asdict(block) for block in blocks], override_num_blocks=num_tasks)
        data = data.map_batches(
            Replica,
            fn_constructor_args=(job, model),
            compute=ray.data.ActorPoolStrategy(size=min(replicas, len(blocks))),
            batch_size=1,
            **resources,
        )
        for row in data.iter_rows():
            if (outcome := outcome_of_json(row["outcome"])) is not None:
                yield outcome


def _ray() -> Any:
    package("ray.data", EXTRA)
    return package("ray", EXTRA)


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """Connect to the cluster that is there, or start one on this machine for as long as the job takes."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what goes wrong comes as an exception, too
    for name in ("ray", "ray.data"):  # it would tell of each of its steps
        logging.getLogger(name).setLevel(logging.ERROR)
    here: dict[str, Any] = {"include_dashboard": False} if address == "local" else {"address": address}
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield
    finally:
        ray.shutdown()
