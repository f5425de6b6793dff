"""The loop, on Accelerate: checkpoints, resuming, reports."""
