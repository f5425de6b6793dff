"""Exported models at work, with onnxruntime, tokenizers and compiled kernels: no torch.

>>> from spansieve.prediction.onnx import load
"""

from spansieve.persistence.manifest import ModelError
from spansieve.prediction.onnx.folder import is_export
from spansieve.prediction.onnx.onnx_predictor import OnnxPredictor, load

__all__ = ["ModelError", "OnnxPredictor", "is_export", "load"]
