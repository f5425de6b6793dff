"""What the learned parts do on a GPU in one launch each way, in Triton."""
