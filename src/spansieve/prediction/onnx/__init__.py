"""Exported models at work, with onnxruntime, tokenizers and compiled kernels: no torch.

>>> from spansieve.prediction.onnx import load
"""

from typing import TYPE_CHECKING

from spansieve._lazy import lazy_members

if TYPE_CHECKING:
    from spansieve.persistence.manifest import ModelError as ModelError
    from spansieve.prediction.onnx.folder import is_export as is_export
    from spansieve.prediction.onnx.onnx_predictor import OnnxPredictor as OnnxPredictor
    from spansieve.prediction.onnx.onnx_predictor import load as load

_MODULES = {"folder": ("ModelError", "is_export"), "onnx_predictor": ("OnnxPredictor", "load")}
__all__ = ["ModelError", "OnnxPredictor", "is_export", "load"]
__getattr__ = lazy_members(__name__, _MODULES)
