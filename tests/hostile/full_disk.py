"""Bulk work on a disk that is full; what the tests start as a process of its own.

python -m tests.hostile.full_disk ANSWER MODEL DISK local|ray: as root of its own namespace, on a disk of a megabyte.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from spansieve.prediction.bulk.job import Job, run_bulk
from spansieve.prediction.bulk.ledger import BulkError

ROWS = 3_000


def main(answer: str, model: str, disk: str, engine: str) -> None:
    source = Path(disk).parent / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": f"Ada works in Rome , {i}"}) + "\n" for i in range(ROWS)))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    options: dict[str, Any] = {"ray": "local", "replicas": 1} if engine == "ray" else {}
    job = Job(model, str(source), str(Path(disk) / "out"), block_size=20_000)
    filler = Path(disk) / "filler"
    filler.write_bytes(bytes(900_000))
    error = None
    try:
        run_bulk(job, **options)
    except (OSError, BulkError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    filler.unlink()
    # All of it is named, or `mount` would take over options that a namespace of one user does not allow.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "remount,size=50m", "tmpfs", disk], check=True)
    run_bulk(job, **options)
    rows = [json.loads(line) for path in sorted(Path(disk).rglob("*.jsonl")) for line in path.open()]
    texts = sorted(row["text"] for row in rows)
    Path(answer).write_text(json.dumps({"error": error, "rows": len(texts), "distinct": len(set(texts))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
