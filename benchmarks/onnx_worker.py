"""One runtime in a process of its own, to be measured from outside: `python -m benchmarks.onnx_worker`.

Imports nothing at the top that one of the runtimes could do without.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.process_usage import peak_memory

WARM_UP = 200  # sentences that are not counted


def main(runtime: str, folder: str, sentences: str, threads: str) -> None:
    """Says when the first sentence is answered, then how the others went."""
    everything = json.loads(Path(sentences).read_text(encoding="utf-8"))
    predictor = _loaded(runtime, folder, int(threads))
    predictor.predict_tokens(everything[:1], probabilities=True)
    _say({"ready": True})
    predictor.predict_tokens(everything[:WARM_UP], probabilities=True)
    begin = time.perf_counter()
    found = predictor.predict_tokens(everything, probabilities=True)
    seconds = time.perf_counter() - begin
    _say({"seconds": seconds, "bytes": peak_memory(), "found": found, "has_torch": "torch" in sys.modules})


def _loaded(runtime: str, folder: str, threads: int) -> Any:
    if runtime == "onnx":
        from spansieve.prediction import onnx

        return onnx.load(folder, threads)
    import torch

    from spansieve.integrations.hub import load

    torch.set_num_threads(threads)
    return load(folder)


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
