"""The library's small networks in other frameworks, with the same weights."""

import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np


class Layer(NamedTuple):
    """A layer of a Flax network: its weights and what surrounds it."""

    # `[h, w, in, out]` of a convolution, `[in, out]` of a dense layer.
    kernel: np.ndarray
    bias: np.ndarray  # `[out]`
    # Of a convolution, `(top, bottom)`, alike in width.
    padding: tuple[int, int] = (0, 0)
    stride: int = 1  # of a convolution
    pooled: bool = False  # whether a maximum over 2x2 follows
    last: bool = False  # whether no ReLU follows


def layers(variables: Any, network: str) -> list[Layer]:
    """Returns the layers of "StridedCNN" or "MnistCNN" for images of 28x28 pixels."""
    params = jax.tree.map(np.asarray, variables["params"])
    strided = network == "StridedCNN"
    # Flax's "SAME" pads an odd number of rows by one more below.
    paddings = ((1, 2), (0, 1)) if strided else ((1, 1), (1, 1))
    found = [
        Layer(**params[f"Conv_{i}"], padding=padding)._replace(
            stride=2 if strided else 1, pooled=not strided
        )
        for i, padding in enumerate(paddings)
    ]
    return found + [Layer(**params["Dense_0"]), Layer(**params["Dense_1"], last=True)]


def to_torch(some: list[Layer]) -> Any:
    """Returns a `torch.nn.Sequential` of images `[B, 1, 28, 28]`."""
    import torch
    from torch import nn

    class ChannelsLast(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.permute(0, 2, 3, 1)

    made: list[Any] = []
    flat = False
    for layer in some:
        if layer.kernel.ndim == 4:
            low, high = layer.padding
            made.append(nn.ZeroPad2d((low, high, low, high)))
            height, width, channels, number = layer.kernel.shape
            new = nn.Conv2d(channels, number, (height, width), stride=layer.stride)
            weight = np.moveaxis(layer.kernel, (3, 2), (0, 1))
        else:
            if not flat:
                made += [ChannelsLast(), nn.Flatten()]
            flat = True
            new = nn.Linear(*layer.kernel.shape)
            weight = layer.kernel.T
        with torch.no_grad():
            new.weight.copy_(torch.from_numpy(weight.copy()))
            new.bias.copy_(torch.from_numpy(layer.bias.copy()))
        made.append(new)
        made += [] if layer.last else [nn.ReLU()]
        made += [nn.MaxPool2d(2)] if layer.pooled else []
    return nn.Sequential(*made).eval()


def to_onnx(some: list[Layer], path: pathlib.Path) -> pathlib.Path:
    """Returns an ONNX file of images `[N, 1, 28, 28]`."""
    import onnx
    from onnx import helper

    nodes, weights = [], []
    names = (f"t{number}" for number in range(100))
    last = "images"

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        name = next(names)
        nodes.append(helper.make_node(kind, [last, *inputs], [name], **attributes))
        return name

    def constant(array: np.ndarray) -> str:
        name = f"w{len(weights)}"
        weights.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    flat = False
    for layer in some:
        if layer.kernel.ndim == 4:
            low, high = layer.padding
            kernel = constant(np.moveaxis(layer.kernel, (3, 2), (0, 1)))
            settings = {"pads": [low, low, high, high], "strides": [layer.stride] * 2}
            last = node("Conv", kernel, constant(layer.bias), **settings)
        else:
            if not flat:
                last = node("Transpose", perm=[0, 2, 3, 1])
                last = node("Flatten")
            flat = True
            last = node("Gemm", constant(layer.kernel), constant(layer.bias))
        if not layer.last:
            last = node("Relu")
        if layer.pooled:
            last = node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        path.stem,
        [value("images", kind, ["N", 1, 28, 28])],
        [value(last, kind, ["N", len(some[-1].bias)])],
        weights,
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path
