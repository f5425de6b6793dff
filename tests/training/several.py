"""One of several processes of a run; what the tests start once for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from spansieve.training import run
from tests.training import runs


def train_as(rank: int, processes: int, port: int, folder: str, resume: bool, settings: dict[str, Any]) -> None:
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    os.environ |= {name: str(value) for name, value in names.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    run.draw_curves = lambda history, path: None
    result = runs.run(Path(folder), resume, **settings)
    assert result.model.is_dir()
