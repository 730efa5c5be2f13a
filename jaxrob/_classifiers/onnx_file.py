"""ONNX files, run by onnxruntime."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.messages import IF_NO_CLASSES, if_no_classes
from jaxrob._arguments.texts import required
from jaxrob._classifiers.network import (
    Network,
    OnHost,
    Preprocessing,
    checked_layout,
    outputs_after,
)
from jaxrob._devices.host_function import MOST_IMAGES, HostFunction
from jaxrob._files import check_regular, open_file

# The limit of protocol buffers; larger networks keep their weights beside the file.
_MAX_BYTES = 2**31
_FLOATING = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}
_BYTES = "tensor(uint8)"
# Operations that do not change the kind of outputs.
_PASS_THROUGH = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten", "Dropout")
# Numbers of channels of images: grey, RGB, RGB with transparency.
_CHANNELS = (1, 3, 4)
# The value of `TensorProto.data_location` for weights in another file.
_EXTERNAL = 1
# Real graphs are nested a few levels deep; thousands would exhaust the stack.
_MAX_DEPTH = 50


def onnx_network(
    path: Any,
    outputs: str | None,
    preprocessing: Preprocessing | None,
    name: str | None,
    batch_size: int | None,
) -> Network:
    onnx = required("onnx", "Classifier.from_onnx", "onnx")
    runtime = required("onnxruntime", "Classifier.from_onnx", "onnx")
    file = checked_path("path", path)
    with open_file(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > _MAX_BYTES:
            raise ValueError(f"{file}: {size} bytes; an ONNX file has at most 2**31")
        data = opened.read()
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:  # The class depends on the protobuf installed.
        raise ValueError(f"{file}: not an ONNX file: {error}") from error
    if not model.graph.node:
        raise ValueError(f"{file}: not an ONNX file, or one without operations")
    is_any = outputs == "any"
    weights = _external_files(model, file)
    session = _session(runtime, file, data, bool(weights))
    source, (fixed, *lengths) = _input(session, file)
    asked, num_classes = (None, None) if is_any else _class_output(session, file)
    # It computes the outputs, so nothing may contradict it; "scores" come from any.
    last = None if asked is None else _activation(model.graph, asked)
    if outputs not in (None, "scores", last or outputs):
        raise ValueError(
            f'outputs must be "{last}", as the last operation says, or None; '
            f'got "{outputs}"'
        )
    name = file.name if name is None else name
    if batch_size is not None and fixed not in (None, batch_size):
        raise ValueError(
            f"batch_size must be {fixed}, as the input of {name} says, or None; got "
            f"{batch_size}"
        )
    dtype = _FLOATING.get(source.type, np.uint8)

    def run(images: np.ndarray) -> Any:
        pixels = images.clip(0, 255).round() if dtype is np.uint8 else images
        given = {source.name: pixels.astype(dtype, copy=False)}
        outputs = session.run(None if asked is None else [asked], given)
        if len(outputs) == 1:
            return outputs[0]
        return dict(zip((output.name for output in session.get_outputs()), outputs))

    # The number of classes comes from a call on black images, before any other work.
    size, version = batch_size or fixed, _digest(data, weights)
    host = HostFunction(run, None, name, version, size, writes=False, is_any=is_any)
    seen = _laid_out(preprocessing, lengths, name)
    if dtype is np.uint8:
        seen = _in_bytes(seen, name)
    # A single output stands for two classes.
    num_classes = 2 if num_classes == 1 else num_classes
    said = "probabilities" if "probabilit" in (asked or "") else "logits"
    return Network(OnHost(host, seen), outputs or last or said, name, num_classes)


def _digest(data: bytes, weights: Sequence[pathlib.Path]) -> str:
    # Of several files of weights it is that of their digests, a line each.
    digests = []
    for file in weights:
        with open_file(file) as opened:
            digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
    own = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not digests:
        return own
    if len(digests) == 1:
        return f"{own}, weights sha256:{digests[0]}"
    lines = "".join(f"{digest}\n" for digest in digests)
    together = hashlib.sha256(lines.encode()).hexdigest()
    return f"{own}, {len(digests)} files of weights sha256:{together}"


def _session(runtime: Any, path: pathlib.Path, data: bytes, has_weights: bool) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # Errors are raised.
    available = runtime.get_available_providers()
    names = "CUDAExecutionProvider", "CPUExecutionProvider"
    providers = [name for name in names if name in available]
    try:
        # The checked bytes are run; only weights beside the file need its path.
        source = str(path) if has_weights else data
        return runtime.InferenceSession(source, options, providers=providers)
    except Exception as error:  # onnxruntime has a class for each cause.
        raise ValueError(
            f"{path}: onnxruntime {runtime.__version__} cannot run it: {error}"
        ) from error


def _input(session: Any, path: pathlib.Path) -> tuple[Any, tuple[int | None, ...]]:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise ValueError(
            f"{path}: it must have one input, the images; got {len(inputs)}: {names}"
        )
    (source,) = inputs
    if source.type not in (*_FLOATING, _BYTES):
        raise ValueError(
            f"{path}: its input {source.name!r} must be of floating numbers or uint8; "
            f"got {source.type}. Call its runtime in a function for "
            "Classifier.from_host"
        )
    lengths = tuple(n if isinstance(n, int) else None for n in source.shape)
    if len(lengths) < 2 or 0 in lengths or (lengths[0] or 1) > MOST_IMAGES:
        raise ValueError(
            f"{path}: its input {source.name!r} must be images [B, ...]; got the shape "
            f"{source.shape}"
        )
    return source, lengths


def _class_output(session: Any, path: pathlib.Path) -> tuple[str, int | None]:
    every = session.get_outputs()
    # Of labels and probabilities, as skl2onnx writes them, the latter are taken.
    fitting = [one for one in every if one.type in _FLOATING]
    outputs = every if len(every) == 1 else fitting
    if len(outputs) != 1:
        names = ", ".join(f"{each.name} {each.type}" for each in every)
        raise ValueError(
            f"{path}: it must have one output [B, K] of floating numbers (skl2onnx: "
            f"options={{'zipmap': False}}); got {len(every)}: {names}. {IF_NO_CLASSES}"
        )
    (output,) = outputs
    if output.type not in _FLOATING:
        raise ValueError(
            f"{path}: its output {output.name!r} must be of floating numbers [B, K]; "
            f"got {output.type}. Call its runtime in a function for Classifier."
            "from_host, which takes any numbers; labels [B] become np.eye(K)[labels], "
            'with outputs="scores"'
        )
    shape = output.shape
    if shape and len(shape) != 2 and shape[2:] != [1, 1]:
        raise ValueError(
            f"{path}: its output {output.name!r} must have the shape [B, K]; got "
            f"{shape}. {if_no_classes(shape)}"
        )
    known = shape and isinstance(shape[1], int)
    return output.name, shape[1] if known else None


def _activation(graph: Any, name: str) -> str | None:
    makers = {name: node for node in graph.node for name in node.output}
    while name in makers:
        node = makers[name]
        if node.op_type not in _PASS_THROUGH:
            return outputs_after(node.op_type)
        name = node.input[0]
    return None


def _laid_out(
    preprocessing: Preprocessing | None, lengths: list[int | None], name: str
) -> Preprocessing:
    given = checked_layout(preprocessing, False)
    if len(lengths) != 3:
        return given
    stated = None if preprocessing is None else preprocessing.channels_first
    shape = ["B", *("?" if length is None else length for length in lengths)]
    channels_first = lengths[0] in _CHANNELS
    if channels_first == (lengths[2] in _CHANNELS):  # The shape does not say.
        if stated is None:
            raise ValueError(
                f"channels_first must be True or False, because the input of {name} of "
                f"the shape {shape} may be either; got None"
            )
        channels_first = stated
    elif stated not in (None, channels_first):
        raise ValueError(
            f"channels_first must be {channels_first}, because the input of {name} has "
            f"the shape {shape}; got {stated}"
        )
    own = tuple(lengths[1:] if channels_first else lengths[:2])
    size: Any = given.size or (None if None in own else own)
    if any(there not in (None, asked) for there, asked in zip(own, size or own)):
        raise ValueError(
            f"size must be {own}, because the input of {name} has the shape {shape}; "
            f"got {size}"
        )
    return dataclasses.replace(given, channels_first=channels_first, size=size)


def _in_bytes(given: Preprocessing, name: str) -> Preprocessing:
    """Bytes cannot hold normalised numbers: they would be answers about nothing."""
    allowed = {"scale": [{1}, {255}], "mean": [{0}], "std": [{1}]}
    said = {one: getattr(given, one) for one in allowed}
    wrong = [one for one in said if {*said[one]} not in allowed[one]]
    if wrong:
        texts = [f"{one}={','.join(map('{:g}'.format, said[one]))}" for one in wrong]
        raise ValueError(
            f"{', '.join(texts)} must be left out, because {name} takes bytes, 255 "
            "times the pixels in [0, 1], and normalises them itself"
        )
    return dataclasses.replace(given, scale=255)


def _external_files(model: Any, path: pathlib.Path) -> list[pathlib.Path]:
    folder = path.parent.resolve()
    files = set()
    for location in sorted(set(_locations(model))):
        file = folder / location
        inside = file.resolve().is_relative_to(folder)
        if not location or os.path.isabs(location) or not inside:
            raise ValueError(
                f"{path}: it keeps weights in {location!r}; they must lie in its own "
                "folder"
            )
        try:
            check_regular(file)
        except FileNotFoundError:
            raise ValueError(
                f"{path}: it keeps weights in {location!r}, which is not there"
            ) from None
        files.add(file)
    return sorted(files)


def _locations(model: Any) -> Iterator[str]:
    tensors = [*_tensors(model.graph, 0)]
    for function in model.functions:
        for node in function.node:
            tensors += _of_node(node, 0)
    for tensor in tensors:
        if tensor.data_location == _EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            yield entries.get("location", "")


def _tensors(graph: Any, depth: int) -> Iterator[Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"graphs lie within graphs, more than {_MAX_DEPTH} deep")
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _of_node(node, depth)


def _of_node(node: Any, depth: int) -> Iterator[Any]:
    for attribute in node.attribute:
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph, depth + 1)
