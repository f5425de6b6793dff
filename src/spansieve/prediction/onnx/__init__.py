"""Exported models at work, with onnxruntime, tokenizers and compiled kernels: no torch.

>>> from spansieve.prediction.onnx import load
"""

from spansieve.prediction.onnx.folder import ExportError, is_export
from spansieve.prediction.onnx.onnx_predictor import OnnxPredictor, load

__all__ = ["ExportError", "OnnxPredictor", "is_export", "load"]
