"""The cost of networks of other frameworks.

    python experiments/host_networks.py

Requires the extras torch and onnx. A small Flax network is trained and copied, with its
weights, to torch and ONNX. `jaxrob.evaluate` of 2,000 images at 16 levels of each
alteration is timed beside the altering alone and the bare runtime alone on as many
batches; the three alternate. Writes JSON into the folder `--output`.
"""

import pathlib
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from absl import app, flags
from common import define, files, ported, startup, timing

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


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    train = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test = data.load(_DATASET.value, "test", _DATA_DIR.value)
    test = test[np.arange(_NUM_IMAGES.value) % len(test)]
    results = {}
    for name in _NETWORKS.value:
        module, key = getattr(networks, name)(), jax.random.key(_SEED.value)
        flax = training.fit(module, train, key=key, epochs=_EPOCHS.value)
        found = ported.layers(flax.variables, name)
        results[name] = _cost(name, found, test, key)
    files.write_json(files.output_folder(_OUTPUT.value) / "cost.json", results)


def _cost(
    name: str, found: list[ported.Layer], test: jaxrob.Dataset, key: Any
) -> list[dict[str, Any]]:
    """Returns medians of seconds, and ratios, for each framework and alteration."""
    import onnxruntime
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = ported.to_onnx(found, pathlib.Path(folder, f"{name}.onnx"))
        session = onnxruntime.InferenceSession(path)
        in_onnx = jaxrob.Classifier.from_onnx(path)
    module = ported.to_torch(found)
    in_torch = jaxrob.Classifier.from_torch(module)
    size = len(test) // 2
    batch = np.moveaxis(np.float32(test.images[:size]) / 255, -1, 1).copy()

    def bare_onnx() -> None:
        for _ in range(2 * _LEVELS.value):
            session.run(None, {"images": batch})

    def bare_torch() -> None:
        with torch.inference_mode():
            for _ in range(2 * _LEVELS.value):
                module(torch.from_numpy(batch)).numpy()

    rows = []
    for framework, classifier, bare in (
        ("onnx", in_onnx, bare_onnx),
        ("torch", in_torch, bare_torch),
    ):
        for alteration in _chosen():
            levels = np.linspace(alteration.lower, alteration.upper, _LEVELS.value)

            def evaluate(
                classifier: Any = classifier,
                alteration: Any = alteration,
                levels: Any = levels,
            ) -> None:
                jaxrob.evaluate(classifier, test, alteration, levels, key=key)

            runs = bare, _altering(alteration, levels, test.images, key), evaluate
            runtime, altering, whole = _medians(runs)
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
            print("  ".join(_shown(value) for value in row.values()), flush=True)
            rows.append(row)
    return rows


def _chosen() -> list[Any]:
    """Returns the alterations that the flags select."""
    return [one for one in _ALTERATIONS if one.name in _ONLY.value]


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


def _medians(runs: Sequence[Callable[[], None]]) -> list[float]:
    """Returns median seconds of runs that alternate, so that noise hits all alike."""
    for run in runs:
        run()
    rounds = [[timing.seconds(run) for run in runs] for _ in range(_RUNS.value)]
    return [statistics.median(column) for column in zip(*rounds)]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    app.run(main)
