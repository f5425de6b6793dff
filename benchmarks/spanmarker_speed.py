"""How long SpanMarker takes, run by the Python of an environment of its own: it caps transformers.

    python spanmarker_speed.py ENCODER SENTENCES.json THREADS BATCH…

It prints, as JSON, the seconds and CPU seconds of each batch size. Nothing of spansieve is imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

LABELS = ["O", "LOC", "MISC", "ORG", "PER"]
WIDEST = 8  # tokens in a segment, SpanMarker's own default


def main(encoder: str, sentences: str, threads: str, *batch_sizes: str) -> None:
    import torch
    from span_marker import SpanMarkerModel  # type: ignore[import-not-found]

    torch.set_num_threads(int(threads))
    model = SpanMarkerModel.from_pretrained(encoder, labels=LABELS, model_max_length=256, entity_max_length=WIDEST)
    model.eval()
    tokens = json.loads(Path(sentences).read_text(encoding="utf-8"))
    model.predict(tokens[:8])
    seconds = {}
    for size in map(int, batch_sizes):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        model.predict(tokens, batch_size=size)
        seconds[size] = time.perf_counter() - begin, time.process_time() - cpu_begin
    print(json.dumps(seconds))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
