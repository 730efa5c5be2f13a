"""ONNX files, run by onnxruntime."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._adapters.onnx_tensors import external_files
from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.class_outputs import IF_NO_CLASSES
from jaxrob._arguments.extra import required
from jaxrob._devices.host_function import MOST_IMAGES
from jaxrob._files.regular import open_file

# The limit of protocol buffers; larger networks keep their weights beside the file.
_MAX_BYTES = 2**31
# Input types that float32 images may be cast to.
_FLOATING = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_FLOATING["tensor(double)"] = np.float64
_RETURNED = (*_FLOATING, "tensor(bfloat16)")
# The last operation, and the kind of outputs that it returns.
_ACTIVATIONS = {
    "Softmax": "probabilities",
    "Sigmoid": "sigmoid",
    "HardSigmoid": "sigmoid",
    "LogSoftmax": "logits",
}
# Operations that do not change the kind of outputs.
_PASS_THROUGH = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten", "Dropout")


class OnnxNetwork(NamedTuple):
    """The network of an ONNX file.

    Attributes:
      run: takes images of the shape `input_shape`, and returns `[B, K]`.
      outputs: the kind of outputs by its last operation, None if unknown.
      input_shape: the input's shape; None for a free length.
      num_classes: K, None if unknown.
      digest: the SHA-256 of the file, and of the files of weights beside it.
    """

    run: "OnnxRun"
    outputs: str | None
    input_shape: tuple[int | None, ...]
    num_classes: int | None
    digest: str


@dataclasses.dataclass(frozen=True, eq=False)
class OnnxRun:
    """A session of onnxruntime, as a function from images to outputs.

    Several outputs are returned by name.
    """

    session: Any
    input: str
    dtype: Any

    def __call__(self, images: np.ndarray) -> Any:
        given = {self.input: images.astype(self.dtype, copy=False)}
        outputs = self.session.run(None, given)
        if len(outputs) == 1:
            return outputs[0]
        names = (one.name for one in self.session.get_outputs())
        return dict(zip(names, outputs))


def read_onnx(path: Any, is_any: bool = False) -> OnnxNetwork:
    """Reads an ONNX file, ready to run. Only its operations are ever executed."""
    onnx = required("onnx", "Classifier.from_onnx", "onnx")
    runtime = required("onnxruntime", "Classifier.from_onnx", "onnx")
    path = checked_path("path", path)
    data = _read(path)
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:  # The class depends on the protobuf installed.
        raise ValueError(f"{path}: not an ONNX file: {error}") from error
    if not model.graph.node:
        raise ValueError(f"{path}: not an ONNX file, or one without operations")
    weights = external_files(model, path)
    session = _session(runtime, path, data, bool(weights))
    source, shape = _input(session, path)
    num_classes = None if is_any else _num_classes(session, path)
    return OnnxNetwork(
        OnnxRun(session, source.name, _FLOATING[source.type]),
        None if is_any else _activation(model.graph),
        shape,
        num_classes,
        _digest(data, weights),
    )


def _digest(data: bytes, weights: Sequence[pathlib.Path]) -> str:
    """Returns the SHA-256 of a file, and of the file of weights beside it."""
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
    lines = "".join(f"{one}\n" for one in digests)
    together = hashlib.sha256(lines.encode()).hexdigest()
    return f"{own}, {len(digests)} files of weights sha256:{together}"


def _read(path: pathlib.Path) -> bytes:
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MAX_BYTES:
            raise ValueError(f"{path}: {size} bytes; an ONNX file has at most 2**31")
        return file.read()


def _session(runtime: Any, path: pathlib.Path, data: bytes, has_weights: bool) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    wanted = "CUDAExecutionProvider", "CPUExecutionProvider"
    there = runtime.get_available_providers()
    providers = [name for name in wanted if name in there]
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
        names = ", ".join(one.name for one in inputs)
        raise ValueError(
            f"{path}: it must have one input, the images; got {len(inputs)}: {names}"
        )
    (source,) = inputs
    if source.type not in _FLOATING:
        raise ValueError(
            f"{path}: its input {source.name!r} must be of floating numbers; got "
            f"{source.type}. Call its runtime in a function for Classifier.from_host"
        )
    lengths = tuple(one if isinstance(one, int) else None for one in source.shape)
    if len(lengths) < 2:
        raise ValueError(
            f"{path}: its input {source.name!r} must be images [B, ...]; got the shape "
            f"{source.shape}"
        )
    if lengths[0] is not None and not 1 <= lengths[0] <= MOST_IMAGES:
        raise ValueError(
            f"{path}: its input {source.name!r} must be of 1 to {MOST_IMAGES} images "
            f"at once; got the shape {source.shape}"
        )
    return source, lengths


def _num_classes(session: Any, path: pathlib.Path) -> int | None:
    outputs = session.get_outputs()
    if len(outputs) != 1:
        names = ", ".join(one.name for one in outputs)
        raise ValueError(
            f"{path}: it must have one output [B, K]; got {len(outputs)}: {names}. "
            f"{IF_NO_CLASSES}"
        )
    (found,) = outputs
    if found.type not in _RETURNED:
        raise ValueError(
            f"{path}: its output {found.name!r} must be of floating numbers [B, K]; "
            f"got {found.type}"
        )
    if found.type == "tensor(bfloat16)":
        raise ValueError(
            f"{path}: its output {found.name!r} is {found.type}, which onnxruntime "
            "does not hand to NumPy: end the network with a Cast to float"
        )
    shape = found.shape
    if shape and len(shape) != 2:
        raise ValueError(
            f"{path}: its output {found.name!r} must have the shape [B, K]; got "
            f"{shape}. {IF_NO_CLASSES}"
        )
    return shape[1] if shape and isinstance(shape[1], int) else None


def _activation(graph: Any) -> str | None:
    """Returns the kind of outputs by the last operation; None if unknown."""
    makers = {name: node for node in graph.node for name in node.output}
    name = graph.output[0].name
    while name in makers:
        node = makers[name]
        if node.op_type not in _PASS_THROUGH:
            return _ACTIVATIONS.get(node.op_type)
        name = node.input[0]
    return None
