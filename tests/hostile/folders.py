"""Folders of models, exports and runs, damaged with a seed: by accident, or by someone who can make checksums, too."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from spansieve.persistence.atomic import checksums, sealed

NUMBERS = [-1, 0, 1, 2, 3, 63, 65, 1000, 9_999, 10**6, 2**31 - 1, 2**53, 10**30, *(2**power for power in range(59, 66))]
VALUES: list[Any] = [
    *NUMBERS, *NUMBERS[-7:], 0.5, 1e308, -1e308, float("nan"), float("inf"), True, None, "", "crf", "nested",
    "\x1b[2J", "../../x", "/etc/passwd", "someone/code", "x" * 10_000, [], {}, ["LOC", 3], [["a"]], {"a": {"b": 1}},
]  # fmt: skip
Damage = Callable[[Path, random.Random], str]  # damages a folder, and returns what it did


def damaged(base: Path, home: Path, damages: list[Damage], seed: int, count: int) -> Iterator[tuple[str, Path]]:
    """Yield `count` damaged copies of a folder, one at a time: what was done, and where it is."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        folder = shutil.copytree(base, home / "damaged", symlinks=True)
        damage = damages[number % len(damages)]
        yield f"{seed}/{number} {damage(folder, chance)}", folder
        shutil.rmtree(folder)


# ---- Any folder ------------------------------------------------------------------------------------------------------


def seal(folder: Path, manifest: str, **values: Any) -> None:
    """Write a manifest whose checksums are those of what is there."""
    path = folder / manifest
    about = json.loads(path.read_text()) | values
    about.pop("sha256", None)
    if "files" not in values:
        about["files"] = {name: sum_ for name, sum_ in checksums(folder).items() if name in about["files"]}
    path.write_text(json.dumps(sealed(about)))


def any_file(folder: Path, chance: random.Random, only: tuple[str, ...] = ()) -> Path:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and (not only or path.name in only))
    return chance.choice(files)


def damage_bytes(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content) or 1)
    kind = chance.choice(["flip", "flip", "cut", "insert", "zero", "empty", "repeat"])
    if kind == "flip":
        for _ in range(chance.choice([1, 1, 8]) if content else 0):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del content[at:]
    elif kind == "insert":
        content[at:at] = chance.randbytes(chance.choice([1, 8, 1000]))
    elif kind == "zero":
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    elif kind == "empty":
        content.clear()
    else:
        content *= 2
    path.write_bytes(content)
    return f"{kind} {path.name} at {at}"


def by_accident(folder: Path, chance: random.Random) -> str:
    return damage_bytes(any_file(folder, chance), chance)


def other_files(folder: Path, chance: random.Random) -> str:
    """Something that is no file, or a file from elsewhere, in the place of one."""
    path = any_file(folder, chance)
    kind = chance.choice(["fifo", "folder", "missing", "/dev/zero", "/etc/passwd", "..", "deep", "digits"])
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "deep":
        path.write_text("[" * 200_000)
    elif kind == "digits":
        path.write_text(f'{{"a": {"9" * 10_000}}}')
    elif kind != "missing":
        path.symlink_to(kind)
    return f"{kind} for {path.name}"


def bytes_and_checksums(manifest: str, *names: str) -> Damage:
    def damage(folder: Path, chance: random.Random) -> str:
        done = damage_bytes(any_file(folder, chance, names), chance)
        seal(folder, manifest)
        return f"{done}, sealed"

    return damage


def values_of(manifest: str, *names: str) -> Damage:
    """One or two values of a JSON file, which may be the manifest itself."""

    def damage(folder: Path, chance: random.Random) -> str:
        path = any_file(folder, chance, names)
        values = json.loads(path.read_text())
        done = [put_value(values, chance) for _ in range(chance.choice([1, 1, 1, 2]))]
        path.write_text(json.dumps(values))
        if path == folder / manifest:
            values.pop("sha256", None)
            path.write_text(json.dumps(sealed(values)))
        else:
            seal(folder, manifest)
        return f"{path.name}: {', '.join(done)}"

    return damage


def put_value(values: dict[str, Any], chance: random.Random) -> str:
    value: Any = values
    where = []
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = chance.choice([key for key in keys if key not in ("sha256", "format", "version")] or [None])
        if key is None:
            return "nothing"
        where.append(str(key))
        if not isinstance(value[key], (dict, list)) or not value[key] or chance.random() < 0.15:
            value[key] = chance.choice(VALUES)
            return f"{'.'.join(where)} = {str(value[key])[:40]!r}"
        value = value[key]


# ---- Weights ---------------------------------------------------------------------------------------------------------


def weights(folder: Path, chance: random.Random) -> str:
    """Headers of safetensors that say something else, and numbers that are none."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    name = chance.choice([name for name in header if name != "__metadata__"])
    kind = chance.choice(["shape", "dtype", "offsets", "name", "nan", "huge", "header"])
    if kind == "shape":
        header[name]["shape"] = chance.choice([[], [2**62], [2**32, 2**32], [0], [-1], [1] * 100])
    elif kind == "dtype":
        header[name]["dtype"] = chance.choice(["F64", "I8", "BOOL", "BF16", "C64", "abacus"])
    elif kind == "offsets":
        header[name]["data_offsets"] = chance.choice([[0, 2**62], [2**62, 2**63], [8, 0], [0, 0]])
    elif kind == "name":
        header["../" + name] = header.pop(name)
    elif kind in ("nan", "huge"):
        start, end = header[name]["data_offsets"]
        number = float("nan") if kind == "nan" else 3e38
        data[start:end] = np.full((end - start) // 4, number, np.float32).tobytes()
    text = json.dumps(header).encode()
    length = chance.choice([2**63, 2**40, 0, 7]) if kind == "header" else len(text)
    path.write_bytes(struct.pack("<Q", length) + text + data)
    seal(folder, "config.json")
    return f"weights: {kind} of {name}"


# ---- Exports ---------------------------------------------------------------------------------------------------------


def arrays(folder: Path, chance: random.Random) -> str:
    """A decoder.npz of something else."""
    path = folder / "decoder.npz"
    kind = chance.choice(["bomb", "extra", "object", "shape", "nan", "header", "fortran", "double"])
    with np.load(path) as loaded:
        values = {name: loaded[name] for name in loaded.files}
    name = chance.choice(sorted(values))
    if kind in ("bomb", "extra", "header"):
        header = io.BytesIO()
        shape = (900_000_000,) if kind != "header" else (2**40, 2**20)
        np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for other in values if kind == "extra" else ():
                archive.writestr(f"{other}.npy", npy(values[other]))
            with archive.open(f"{'more' if kind == 'extra' else name}.npy", "w", force_zip64=True) as file:
                file.write(header.getvalue())
                for _ in range(300 if kind != "header" else 0):
                    file.write(bytes(1_000_000))
    else:
        changed = {
            "object": np.array([None], object),
            "shape": np.zeros((3, 1), np.float32),
            "nan": np.full_like(values[name], np.nan),
            "fortran": np.asfortranarray(values[name]) + 1,
            "double": values[name].astype(np.float64),
        }[kind]
        np.savez(path, **(values | {name: changed}))
    seal(folder, "manifest.json")
    return f"decoder.npz: {kind} of {name}"


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def graphs(folder: Path, chance: random.Random) -> str:
    """A graph that does something else before it is done."""
    path = folder / chance.choice(["encoder.onnx", "scorers.onnx"])
    model = onnx.load(path)
    kind = chance.choice(sorted(GRAPHS))
    GRAPHS[kind](model)
    path.write_bytes(model.SerializeToString())
    seal(folder, "manifest.json")
    return f"{path.name}: {kind}"


def constants(model: onnx.ModelProto, **values: Any) -> None:
    for name, value in values.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))


def before(model: onnx.ModelProto, *nodes: onnx.NodeProto) -> None:
    """Put nodes first, with a result `made` that is added, times 0, to the first output."""
    output = model.graph.output[0].name
    for node in model.graph.node:
        for i, name in enumerate(node.output):
            if name == output:
                node.output[i] = "as_it_was"
    constants(model, nought=np.float32(0))
    for i, node in enumerate(nodes):
        model.graph.node.insert(i, node)
    model.graph.node.append(helper.make_node("ReduceMax", ["made"], ["largest"], keepdims=0))
    model.graph.node.append(helper.make_node("Mul", ["largest", "nought"], ["nothing"]))
    model.graph.node.append(helper.make_node("Add", ["as_it_was", "nothing"], [output]))


def huge(model: onnx.ModelProto) -> None:
    constants(model, shape=np.array([1_600_000_000]))
    before(model, helper.make_node("ConstantOfShape", ["shape"], ["made"]))


def product(model: onnx.ModelProto) -> None:
    constants(model, left=np.ones((40_000, 1), np.float32), right=np.ones((1, 40_000), np.float32))
    before(model, helper.make_node("MatMul", ["left", "right"], ["made"]))


def doubling(model: onnx.ModelProto) -> None:
    constants(model, made_0=np.ones(1_000, np.float32))
    nodes = [helper.make_node("Concat", [f"made_{i}"] * 2, [f"made_{i + 1}"], axis=0) for i in range(21)]
    before(model, *nodes, helper.make_node("Identity", ["made_21"], ["made"]))


def many(model: onnx.ModelProto) -> None:
    """Each within bounds; all of them, kept at once, are not."""
    constants(model, shape=np.array([50_000_000]))
    nodes = []
    for i in range(20):
        nodes.append(helper.make_node("ConstantOfShape", ["shape"], [f"large_{i}"]))
        nodes.append(helper.make_node("ReduceMax", [f"large_{i}"], [f"small_{i}"], keepdims=0))
    before(model, *nodes, helper.make_node("Sum", [f"small_{i}" for i in range(20)], ["made"]))


def loop(model: onnx.ModelProto) -> None:
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    step = helper.make_tensor_value_info("step", TensorProto.INT64, [])
    again = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    body = helper.make_graph([helper.make_node("Identity", ["flag"], ["again"])], "body", [step, flag], [again])
    constants(model, most=np.int64(2**62), yes=np.bool_(True))
    model.graph.node.insert(0, helper.make_node("Loop", ["most", "yes"], [], body=body))


def own_operator(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("someone", 1))
    model.graph.node.insert(0, helper.make_node("Run", [], ["ran"], domain="someone"))


def function(model: onnx.ModelProto) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    opset = [helper.make_opsetid("", 20)]
    model.functions.append(helper.make_function("someone", "Relu", ["x"], ["y"], nodes, opset))


def elsewhere(model: onnx.ModelProto) -> None:
    tensor = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../../../etc/passwd")


def beside(model: onnx.ModelProto) -> None:
    elsewhere(model)
    tensor = next(t for t in model.graph.initializer if t.external_data)
    tensor.external_data[0].value = "manifest.json"


def other_shape(model: onnx.ModelProto) -> None:
    output = model.graph.output[0].name
    for node in model.graph.node:
        for i, name in enumerate(node.output):
            if name == output:
                node.output[i] = "as_it_was"
    constants(model, nought=np.array([0]), one=np.array([1]), axis=np.array([1]))
    model.graph.node.append(helper.make_node("Slice", ["as_it_was", "nought", "one", "axis"], [output]))
    del model.graph.output[0].type.tensor_type.shape.dim[:]


def no_numbers(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32("nan"), tensor.name))


def fewer_outputs(model: onnx.ModelProto) -> None:
    if len(model.graph.output) > 1:
        del model.graph.output[1:]
    else:
        model.graph.output.append(helper.make_tensor_value_info(model.graph.node[0].output[0], TensorProto.FLOAT, None))


def other_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


GRAPHS: dict[str, Callable[[onnx.ModelProto], None]] = {
    make.__name__: make
    for make in (
        huge, product, doubling, many, loop, own_operator, function, elsewhere, beside, other_shape, no_numbers,
        fewer_outputs, other_input,
    )
}  # fmt: skip

MODEL_DAMAGES: list[Damage] = [
    values_of("config.json", "config.json"),
    by_accident,
    bytes_and_checksums("config.json", "model.safetensors"),
    values_of("config.json", "config.json"),
    weights,
    other_files,
]
ENCODER_DAMAGES: list[Damage] = [
    values_of("config.json", "config.json"),
    values_of("config.json", "tokenizer.json", "tokenizer_config.json"),
    bytes_and_checksums("config.json", "tokenizer.json", "tokenizer_config.json"),
    other_files,
]
EXPORT_DAMAGES: list[Damage] = [
    values_of("manifest.json", "manifest.json"),
    graphs,
    arrays,
    by_accident,
    graphs,
    bytes_and_checksums("manifest.json", "encoder.onnx", "scorers.onnx", "decoder.npz"),
    values_of("manifest.json", "manifest.json"),
    other_files,
]
TOKENIZER_DAMAGES: list[Damage] = [
    values_of("manifest.json", "tokenizer.json"),
    values_of("manifest.json", "manifest.json"),
    bytes_and_checksums("manifest.json", "tokenizer.json"),
]
