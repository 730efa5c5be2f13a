"""The cost of networks of other frameworks.

    python experiments/host_networks.py

Requires the extras torch and onnx. A small Flax network is trained and copied, with its
weights, to torch and ONNX. `jaxrob.evaluate` of 2,000 images at 16 levels of each
alteration is timed beside the altering alone and the bare runtime alone on as many
batches; the three alternate. Writes JSON into the folder `--output`.
"""

import functools
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from common import define, files, startup, timing

import jaxrob
from jaxrob import alterations, data, networks, training

_ALTERATIONS = (
    alterations.brightness(),
    alterations.gaussian_noise(0.0, 0.1),
    alterations.gaussian_blur(0.0, 2.0),
    alterations.rotation(-60.0, 60.0, fill="crop"),
    alterations.zoom(1.0, 2.0),
    alterations.horizontal_translation(-4.0, 4.0),
    alterations.vertical_translation(-4.0, 4.0),
    alterations.jpeg_compression(),
)

_DATASET = define.dataset("digits", "mnist")
_DATA_DIR = define.data_dir()
_NETWORKS = flags.DEFINE_list(
    "networks", ["StridedCNN", "MnistCNN"], "Of this library."
)
_NAMES = [one.name for one in _ALTERATIONS]
_ONLY = define.choices("alterations", _NAMES, _NAMES, "Alterations")
_NUM_IMAGES = define.num_images(2000)
_LEVELS = define.levels(16)
_RUNS = flags.DEFINE_integer("runs", 5, "Of which the medians are taken.", 1)
_EPOCHS = define.epochs(2)
_SEED = define.seed()
_OUTPUT = define.output("results/host_networks")


class _Layer(NamedTuple):
    """A layer of a Flax network: its weights and what surrounds it."""

    # `[h, w, in, out]` of a convolution, `[in, out]` of a dense layer.
    kernel: np.ndarray
    bias: np.ndarray  # `[out]`
    # Of a convolution, `(top, bottom)`, alike in width.
    padding: tuple[int, int] = (0, 0)
    stride: int = 1  # of a convolution
    pooled: bool = False  # whether a maximum over 2x2 follows
    last: bool = False  # whether no ReLU follows


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    train = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test = data.load(_DATASET.value, "test", _DATA_DIR.value)
    test = test[np.arange(_NUM_IMAGES.value) % len(test)]
    results = {}
    for name in _NETWORKS.value:
        module, key = getattr(networks, name)(), jax.random.key(_SEED.value)
        flax = training.fit(module, train, key=key, epochs=_EPOCHS.value)
        found = _layers(flax.variables, name)
        results[name] = _cost(name, found, test, key)
    files.write_json(files.output_folder(_OUTPUT.value) / "cost.json", results)


def _cost(
    name: str, found: list[_Layer], test: jaxrob.Dataset, key: Any
) -> list[dict[str, Any]]:
    import onnxruntime
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = _to_onnx(found, pathlib.Path(folder, f"{name}.onnx"))
        session = onnxruntime.InferenceSession(path)
        in_onnx = jaxrob.Classifier.from_onnx(path)
    module = _to_torch(found)
    in_torch = jaxrob.Classifier.from_torch(module)
    size, number = len(test) // 2, _RUNS.value
    batch = np.moveaxis(np.float32(test.images[:size]) / 255, -1, 1).copy()

    def bare_onnx() -> None:
        for _ in range(2 * _LEVELS.value):
            session.run(None, {"images": batch})

    def bare_torch() -> None:
        with torch.inference_mode():
            for _ in range(2 * _LEVELS.value):
                module(torch.from_numpy(batch)).numpy()

    rows = []
    both = ("onnx", in_onnx, bare_onnx), ("torch", in_torch, bare_torch)
    for framework, classifier, bare in both:
        for alteration in _ALTERATIONS:
            if alteration.name not in _ONLY.value:
                continue
            levels = np.linspace(alteration.lower, alteration.upper, _LEVELS.value)

            given = classifier, test, alteration, levels
            evaluate = functools.partial(jaxrob.evaluate, *given, key=key)
            runs = bare, _altering(alteration, levels, test.images, key), evaluate
            # They alternate, so that noise hits all alike; the first round compiles.
            rounds = [[timing.seconds(run) for run in runs] for _ in range(1 + number)]
            runtime, altering, whole = map(statistics.median, zip(*rounds[1:]))
            row = {
                "network": name,
                "framework": framework,
                "alteration": alteration.name,
                "runtime": runtime,
                "altering": altering,
                "evaluate": whole,
                "both over evaluate": (runtime + altering) / whole,
                "runtime over evaluate": runtime / whole,
            }
            shown = (f"{v:.4g}" if isinstance(v, float) else v for v in row.values())
            print(*shown, sep="  ", flush=True)
            rows.append(row)
    return rows


def _altering(
    alteration: Any, levels: np.ndarray, images: np.ndarray, key: Any
) -> Callable[[], None]:
    """Makes every altered image, in two blocks, and nothing else."""
    keys = jax.random.split(key, len(images))
    size = len(images) // 2

    @jax.jit
    def prepare(images: jax.Array, keys: jax.Array) -> Any:
        pixels = images.astype(np.float32) / 255
        if not alteration.stochastic:
            return jax.vmap(alteration.prepared)(pixels)
        return jax.vmap(alteration.prepared)(pixels, keys)

    @jax.jit
    def alter(prepared: Any, level: jax.Array) -> jax.Array:
        return jax.vmap(lambda image: alteration.at_level(image, level))(prepared)

    def run() -> None:
        for part in (slice(size), slice(size, None)):
            prepared = prepare(images[part], keys[part])
            for level in np.float32(levels):
                alter(prepared, level).block_until_ready()

    return run


def _layers(variables: Any, network: str) -> list[_Layer]:
    """Returns the layers of "StridedCNN" or "MnistCNN" for images of 28x28 pixels."""
    params = jax.tree.map(np.asarray, variables["params"])
    strided = network == "StridedCNN"
    # Flax's "SAME" pads an odd number of rows by one more below.
    paddings = ((1, 2), (0, 1)) if strided else ((1, 1), (1, 1))
    how = {"stride": 2 if strided else 1, "pooled": not strided}
    found = [
        _Layer(**params[f"Conv_{i}"], padding=padding, **how)
        for i, padding in enumerate(paddings)
    ]
    return found + [_Layer(**params["Dense_0"]), _Layer(**params["Dense_1"], last=True)]


def _to_torch(some: list[_Layer]) -> Any:
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


def _to_onnx(some: list[_Layer], path: pathlib.Path) -> pathlib.Path:
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
    ends = {"images": ["N", 1, 28, 28], last: ["N", len(some[-1].bias)]}
    ends = ([value(name, kind, shape)] for name, shape in ends.items())
    graph = helper.make_graph(nodes, path.stem, *ends, weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


if __name__ == "__main__":
    app.run(main)
