"""A graph of an export, read before ONNX Runtime has it: a graph is a program, and may come from anywhere.

Read as Protocol Buffers, field by field, so that no other package is needed. The operators that are permitted compute
tensors from tensors and end; none has a graph within it, reads a file or is anyone's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from textwrap import shorten

from spansieve.persistence.manifest import ModelError, refusing

MAX_FIELDS = 2_000_000  # that are read: a graph of ours has some thousands
# What the exporter writes for the built-in encoder and for those of transformers.
_OPERATORS = (
    "Abs Add And Cast CastLike Ceil Clip Concat Constant ConstantOfShape Conv Cos CumSum DequantizeLinear Div "
    "DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gelu Gemm "
    "Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LSTM LayerNormalization LeakyRelu Less "
    "LessOrEqual Log LogSoftmax MatMul MatMulInteger Max Mean Min Mod Mul Neg Not Or Pad Pow QuantizeLinear Range "
    "Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Round ScatterElements ScatterND Selu "
    "Shape Sigmoid Sign Sin Size Slice Softmax Softplus Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Trilu Unsqueeze "
    "Where Xor"
)
PERMITTED = frozenset(_OPERATORS.split())
PERMITTED_OF_RUNTIME = frozenset({"DynamicQuantizeLSTM"})  # of the domain com.microsoft, for int8
# Messages within messages, by the numbers of their fields in onnx.proto, and fields that must not be there.
_WITHIN: dict[str, dict[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor"},
    "tensor": {13: "external data"},
    "external data": {},
}
_REFUSED = {
    "model": ((20, 25), "functions and nothing to train"),
    "graph": ((15,), "sparse weights"),
    "attribute": ((6, 11, 22, 23), "graph and no sparse tensor within an operator"),
}
GRAPH, OPERATOR, DOMAIN, LOCATION = 7, 4, 7, 14  # of a model, of a node, and whether a tensor's data lies elsewhere


def check_graph(path: Path, beside: str | None = None) -> None:
    """Check that a graph has permitted operators alone, no functions and no graphs within it, and that its weights are
    in the file itself or in the one named `beside`."""
    with refusing(f"{path} is no graph"), path.open("rb") as file:
        if not path.stat().st_size:
            raise ModelError(f"{path} must hold a graph, got nothing")
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            try:
                with memoryview(content) as model:
                    _Reader(path, beside).check("model", model)
            except Exception as error:  # whose frames would hold parts of the map, which then could not be closed
                raise error.with_traceback(None) from None


class _Reader:
    def __init__(self, path: Path, beside: str | None) -> None:
        self.path, self.beside, self.num_fields = path, beside, 0

    def check(self, kind: str, message: memoryview) -> None:
        """Check a message and all within it."""
        refused, what = _REFUSED.get(kind, ((), ""))
        values: dict[int, memoryview | int] = {}  # the last of each field, as Protocol Buffers have it
        for number, value in self._fields(message):
            if number in refused:
                raise ModelError(f"{self.path} must have no {what}, got field {number}")
            if number in _WITHIN[kind]:
                self.check(_WITHIN[kind][number], _message(value))
            values[number] = value
        if kind == "model" and GRAPH not in values:
            raise ModelError(f"{self.path} must hold a graph, got none")
        if kind == "node":
            self._check_operator(_text(values.get(OPERATOR)), _text(values.get(DOMAIN)))
        if kind == "tensor" and values.get(LOCATION) and self.beside is None:
            raise ModelError(f"{self.path} must have its weights in itself, got some that lie elsewhere")
        if kind == "external data":
            key, where = _text(values.get(1)), _text(values.get(2))
            if self.beside is None or (key == "location" and where != self.beside):
                raise ModelError(f"{self.path} must have its weights in itself, got {shorten(repr(where), 80)}")

    def _check_operator(self, operator: str, domain: str) -> None:
        permitted = {"": PERMITTED, "ai.onnx": PERMITTED, "com.microsoft": PERMITTED_OF_RUNTIME}.get(domain, ())
        if operator not in permitted:
            name = shorten(repr(f"{domain}:{operator}" if domain else operator), 80)
            raise ModelError(f"{self.path} must have operators of an encoder alone, got {name}, which is not permitted")

    def _fields(self, message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
        """Yield the number and the value of each field: bytes, or a number; 0 for those of fixed size."""
        at, end = 0, len(message)
        while at < end:
            self.num_fields += 1
            if self.num_fields > MAX_FIELDS:
                raise ModelError(f"{self.path} must have at most {MAX_FIELDS:,} fields, got more")
            key, at = _varint(message, at)
            value: memoryview | int = 0
            if key & 7 == 0:
                value, at = _varint(message, at)
            elif key & 7 == 2:
                size, at = _varint(message, at)
                value, at = message[at : at + size], at + size
            else:
                at += {1: 8, 5: 4}[key & 7]
            if at > end:
                raise ModelError(f"{self.path} ends too early")
            yield key >> 3, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError("a number is too long")


def _message(value: memoryview | int) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number stands where a message must be")
    return value


def _text(value: memoryview | int | None) -> str:
    return "" if value is None else bytes(_message(value)).decode()
