"""Damaged files read one after the other, in a process of their own with a limit on memory; what came of each.

python -m tests.hostile.read_files SEED COUNT prints a line of JSON for each: name, format, the kind of error or null,
its message, and the seconds; and at last the largest memory in MB.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from spansieve.data.formats import read_examples
from tests.hostile.bad_files import damaged_files, write_case
from tests.memory import peak_kilobytes

MAX_ADDRESSES = 6 << 30  # bytes; the libraries map far more than they use


def main(seed: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    for number, (name, format, content) in enumerate(damaged_files(seed, count)):
        with tempfile.TemporaryDirectory() as folder:
            path = write_case(Path(folder), name, content)
            begin, kind, message = time.process_time(), None, ""
            try:
                read_examples(path, None if number % 4 == 3 else format)
            except BaseException as error:
                kind, message = type(error).__name__, str(error).replace(folder, "FOLDER")
            outcome = {"name": name, "format": format, "kind": kind, "message": message}
            _answer({**outcome, "seconds": time.process_time() - begin})
    _answer({"megabytes": peak_kilobytes() >> 10})


def _answer(values: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
