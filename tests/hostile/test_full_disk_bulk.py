"""Bulk work on a full disk: one error that names it, and no row lost or written twice when there is space again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hostile import full_disk
from tests.training.test_full_disk import CAN_MOUNT


@pytest.mark.skipif(not CAN_MOUNT, reason="a small disk can only be made where a namespace can be")
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_bulk_work_on_a_full_disk(builtin, tmp_path, engine):
    disk, answer = tmp_path / "disk", tmp_path / "answer.json"
    disk.mkdir()
    command = [sys.executable, "-m", full_disk.__name__, str(answer), str(builtin), str(disk), engine]
    done = subprocess.run(["unshare", "-rm", *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = json.loads(answer.read_text())
    assert "No space left on device" in outcome["error"]
    assert outcome["rows"] == outcome["distinct"] == full_disk.ROWS
