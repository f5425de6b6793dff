"""The paper's tables and figures, and our benchmarks, one file each."""
