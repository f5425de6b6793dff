"""The paper's tables and figures, and our benchmarks, one file each: `python -m benchmarks --help`."""
