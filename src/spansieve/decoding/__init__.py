"""Scores to segments in NumPy, without torch: the one path that torch, ONNX, bulk work and the service share."""
