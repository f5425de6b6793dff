"""A trained model as ONNX: `spansieve.prediction.onnx` runs it without torch.

The encoder and the scorers are graphs; decoding is left to the compiled kernels, which need no torch either.
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
from spansieve.nn.pretrained_encoder import PretrainedEncoder
from spansieve.nn.span_scorers import LONG
from spansieve.prediction.onnx.export_graphs import Scorers, encoder_graph, ops
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
from spansieve.prediction.onnx.session import EXTRA

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
        inputs = {name: x for name, x in encoder.features(EXAMPLES).items() if x.ndim == 2}
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask", "casing") if name in inputs}
        limit = encoder.layout.capacity + len(encoder.layout.before) + len(encoder.layout.after)
        windows, subwords = Dim("windows"), Dim("subwords", max=limit)
        axes: Any = {name: {0: windows, 1: subwords} for name in inputs}
    else:
        inputs, axes = _word_inputs(encoder)
    is_large = sum(weight.nbytes for weight in encoder.state_dict().values()) > LARGEST
    _write_graph(path, encoder_graph(encoder), inputs, axes, ["vectors"], is_large)
    if int8:
        _quantise(path, is_large)
    check_graph(path, path.name + BESIDE if is_large else None)  # what would not be loaded is no export


def _word_inputs(encoder: Any) -> tuple[dict[str, Tensor], dict[str, dict[int, Dim]]]:
    features = encoder.features(EXAMPLES)
    counts = torch.cat((features.pop("gram_offsets"), torch.tensor([len(features["grams"])]))).diff()
    features |= {"gram_words": torch.repeat_interleave(counts), "gram_counts": counts}
    sentences, tokens, words, pieces = Dim("sentences"), Dim("tokens"), Dim("distinct_words"), Dim("pieces")
    axes = {
        "words": {0: sentences, 1: tokens},
        "fields": {0: words},
        "grams": {0: pieces},
        "gram_words": {0: pieces},
        "gram_counts": {0: words},
        "num_tokens": {0: sentences},
        "word_vectors": {0: words},
    }
    axes = {name: own for name, own in axes.items() if name in features}
    return {name: features[name] for name in axes}, axes


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
        raise ImportError(f"to export a model {', '.join(missing)} must be installed: {EXTRA}")
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
