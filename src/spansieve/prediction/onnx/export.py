"""A trained model as ONNX: `spansieve.prediction.onnx` runs it without torch.

The encoder and the scorers are graphs, of modules of tensors alone, in operations that ONNX has for any number of
sentences and tokens; decoding is left to the compiled kernels, which need no torch either.

Axes: B sentences, L tokens, U distinct words, G pieces of words, W windows, S subwords in a window, D features.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from spansieve.models.head import Head
from spansieve.models.storage import portable_config
from spansieve.models.tagger import Tagger
from spansieve.nn.builtin_encoder import BuiltinEncoder, LstmContext
from spansieve.nn.pretrained_encoder import PretrainedEncoder
from spansieve.nn.span_scorers import LONG
from spansieve.prediction.onnx.folder import (
    BESIDE,
    DECODER,
    ENCODER,
    SCORERS,
    TOKENIZER,
    Description,
    new_export,
    write_description,
)
from spansieve.prediction.onnx.graph_validation import check_graph
from spansieve.prediction.onnx.onnx_predictor import word_inputs
from spansieve.prediction.onnx.session import EXTRA

try:
    from torch.onnx import ops
except ImportError:  # before torch 2.8, which cannot be exported from
    ops = None  # type: ignore[assignment]

OPSET = 20  # the first with GELU as one operation
LARGEST = 1_500_000_000  # bytes of weights in one file: Protocol Buffers end at 2 GiB
EXAMPLES = [["Ada", "was", "in", "London"], ["So", "was", "Bob"]]  # what the graphs are traced on
QUANTISED = ["MatMul", "Gemm", "Gather", "LSTM", "Attention"]


def export_model(tagger: Tagger, folder: str | Path, int8: bool = False) -> None:
    """Export a model into `folder`, whole or not at all. With `int8`, the encoder's weights take a quarter of the
    space, and its products are of 8-bit numbers."""
    _check_packages()
    was_training, device = tagger.training, tagger.device
    tagger.eval().to("cpu")
    try:
        with new_export(Path(folder)) as new:
            _fill(new, tagger, int8)
    finally:
        tagger.train(was_training).to(device)


def _fill(folder: Path, tagger: Tagger, int8: bool) -> None:
    encoder, layout, splits_special = tagger.encoder, None, False
    if isinstance(encoder, PretrainedEncoder):
        layout, tokenizer = encoder.layout, encoder.tokenizer.backend_tokenizer
        splits_special = bool(tokenizer.encode_special_tokens)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        (folder / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf-8", newline="\n")
    else:
        encoder.save(folder)
    _write_encoder(folder / ENCODER, encoder, int8)
    _write_scorers(folder / SCORERS, tagger.head, encoder.size)
    np.savez(folder / DECODER, **tagger.head.decoder().arrays)  # type: ignore[arg-type]
    config, settings = portable_config(tagger.config), tagger.head.decoder_settings
    write_description(folder, Description(config, tagger.labels, settings, layout, splits_special, int8))


# ---- Graphs ----------------------------------------------------------------------------------------------------------


def _write_encoder(path: Path, encoder: nn.Module, int8: bool) -> None:
    if isinstance(encoder, PretrainedEncoder):
        graph: nn.Module = SubwordEncoder(encoder)
        inputs = {name: x for name, x in encoder.features(EXAMPLES).items() if x.ndim == 2}
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask", "casing") if name in inputs}
        limit = encoder.layout.capacity + len(encoder.layout.before) + len(encoder.layout.after)
        windows, subwords = Dim("windows"), Dim("subwords", max=limit)
        axes: Any = {name: {0: windows, 1: subwords} for name in inputs}
    else:
        assert isinstance(encoder, BuiltinEncoder)
        arrays = word_inputs(encoder.word_features.of_sentences(EXAMPLES))
        graph, axes = WordEncoder(encoder), {name: own for name, own in _word_axes().items() if name in arrays}
        inputs = {name: torch.from_numpy(arrays[name]) for name in axes}
    is_large = sum(weight.nbytes for weight in encoder.state_dict().values()) > LARGEST
    _write_graph(path, graph, inputs, axes, ["vectors"], is_large)
    if int8:
        _quantise(path, is_large)
    check_graph(path, path.name + BESIDE if is_large else None)  # what would not be loaded is no export


def _word_axes() -> dict[str, dict[int, Dim]]:
    sentences, tokens, words, pieces = Dim("sentences"), Dim("tokens"), Dim("distinct_words"), Dim("pieces")
    return {
        "words": {0: sentences, 1: tokens},
        "fields": {0: words},
        "grams": {0: pieces},
        "gram_words": {0: pieces},
        "gram_counts": {0: words},
        "num_tokens": {0: sentences},
        "word_vectors": {0: words},
    }


def _write_scorers(path: Path, head: Head, size: int) -> None:
    # Below LONG no sum needs double precision, and blocks of tokens are shorter.
    axes = {"tokens": {0: Dim("sentences"), 1: Dim("tokens", max=LONG)}}
    tokens = torch.randn(len(EXAMPLES), 7, size)
    outputs = [f"scores_{i}" for i, _ in enumerate(head.scores(tokens))]
    _write_graph(path, Scorers(head), {"tokens": tokens}, axes, outputs)
    check_graph(path)


def _write_graph(
    path: Path,
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    axes: Mapping[str, Any],
    outputs: list[str],
    is_large: bool = False,
) -> None:
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module.eval(),
            kwargs=dict(inputs),
            dynamo=True,
            dynamic_shapes=dict(axes),
            input_names=list(inputs),
            output_names=outputs,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(path, external_data=is_large)
    _strip(path)


def _strip(path: Path) -> None:
    """Strip metadata: where in the sources an operation came from, which would name this machine's folders, and the
    shapes of what lies between, which the exporter leaves as they were where it turns weights around."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    for noted in (model, model.graph, *model.graph.node, *model.graph.initializer):
        del noted.metadata_props[:]
    del model.graph.value_info[:]
    path.write_bytes(model.SerializeToString())


def _quantise(path: Path, is_large: bool) -> None:
    """Quantise weights to 8-bit numbers, a scale for each column; activations are scaled dynamically."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    room = path.with_name("quantised")
    room.mkdir()
    with _quietly():
        quantize_dynamic(
            path,
            room / path.name,
            op_types_to_quantize=QUANTISED,
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=is_large,
        )
    for name in (path.name, path.name + BESIDE):
        path.with_name(name).unlink(missing_ok=True)
    for file in room.iterdir():
        file.rename(path.with_name(file.name))
    room.rmdir()


def _check_packages() -> None:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ImportError(f"to export a model {', '.join(missing)} must be installed: pip install {EXTRA}")
    if ops is None:
        raise ImportError(
            f"to export a model, torch must be 2.8 or later, got {torch.__version__}: pip install -U torch"
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence notes on packages that are not needed, and on what will change in the exporter itself."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "root")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


# ---- What is exported of a model -------------------------------------------------------------------------------------


class Scorers(nn.Module):
    """Vectors of tokens to the scores that the head's distribution is made of."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        return tuple(scores.contiguous() for scores in self.head.scores(tokens))


class SubwordEncoder(nn.Module):
    """Windows of subwords to their vectors, (W, S, D)."""

    def __init__(self, encoder: PretrainedEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor, casing: Tensor | None = None) -> Tensor:
        return self.encoder.read_at_once(input_ids, attention_mask, casing)


class WordEncoder(nn.Module):
    """The built-in encoder, (B, L, D): its mean over pieces of words and its LSTM as the operations that ONNX has."""

    def __init__(self, encoder: BuiltinEncoder) -> None:
        super().__init__()
        self.tables, self.grams, self.mix = encoder.tables, encoder.grams, encoder.mix
        self.pretrained = encoder.pretrained
        self.corrections = encoder.corrections
        context = encoder.context
        self.context = OnnxLstm(context) if isinstance(context, LstmContext) else context

    def forward(
        self,
        words: Tensor,
        fields: Tensor,
        grams: Tensor,
        gram_words: Tensor,
        gram_counts: Tensor,
        num_tokens: Tensor,
        word_vectors: Tensor | None = None,
    ) -> Tensor:
        parts = [table(fields[:, i]) for i, table in enumerate(self.tables)]
        pieces = self._means(nn.functional.embedding(grams, self.grams.weight), gram_words, gram_counts)
        pretrained = [] if word_vectors is None else self.pretrained({"fields": fields, "word_vectors": word_vectors})
        distinct = self.mix(torch.cat([*parts, pieces, *pretrained], dim=-1))  # (U, D)
        return self.context(nn.functional.embedding(words, distinct), num_tokens)

    def _means(self, pieces: Tensor, words: Tensor, counts: Tensor) -> Tensor:
        """The mean of the pieces (G, D) of each word, (U, D)."""
        nothing = pieces.new_zeros(counts.shape[0], pieces.shape[1])
        inputs = (nothing, words[:, None], pieces)
        sums = ops.symbolic("ScatterND", inputs, {"reduction": "add"}, dtype=pieces.dtype, shape=nothing.shape)
        return sums / counts[:, None]


class OnnxLstm(nn.Module):
    """An `LstmContext` by ONNX's operator, which reads in both directions, each sentence within its length."""

    def __init__(self, context: LstmContext) -> None:
        super().__init__()
        self.hidden_size = context.size // 2
        layers = list(zip(context.rightward, context.leftward))
        for i, both in enumerate(layers):
            parts = [_in_order(lstm.state_dict()) for lstm in both]
            for name in ("input", "hidden", "bias"):
                self.register_buffer(f"{name}_{i}", torch.stack([part[name] for part in parts]))
        self.num_layers = len(layers)

    def forward(self, words: Tensor, num_tokens: Tensor) -> Tensor:
        num_sentences, longest, _ = words.shape
        lengths, read = num_tokens.to(torch.int32), words.transpose(0, 1)  # (L, B, D)
        attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": self.hidden_size}
        for i in range(self.num_layers):
            weights = [getattr(self, f"{name}_{i}") for name in ("input", "hidden", "bias")]
            both = ops.symbolic(
                "LSTM",
                (read, *weights, lengths),
                attributes,
                dtype=read.dtype,
                shape=(longest, 2, num_sentences, self.hidden_size),
            )
            read = both.transpose(1, 2).flatten(2)
        return read.transpose(0, 1)  # zero beyond the end of a sentence, as ONNX has it


def _in_order(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gates of a layer: torch has input, forget, cell, output; ONNX has input, output, forget, cell."""

    def turned(name: str) -> Tensor:
        into, forget, cell, out = weights[name].chunk(4)
        return torch.cat((into, out, forget, cell))

    bias = torch.cat((turned("bias_ih_l0"), turned("bias_hh_l0")))
    return {"input": turned("weight_ih_l0"), "hidden": turned("weight_hh_l0"), "bias": bias}
