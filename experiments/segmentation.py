r"""How robust a segmentation network is, by a score of one's own.

    python experiments/segmentation.py
    python experiments/segmentation.py --what=cost --num_images=1024 --levels=16

A small Flax NNX network learns to find an ellipse among noise, in seconds. Its score is
the intersection over union (IoU) of each image's mask. "robustness" assesses it under
noise, blur and brightness, and under rotation, translation and zoom, which move the
masks as well. It prints a table, what a fixed half width needs, and how wide the
intervals are beside those of the normal approximation; the folder `--output` gets
`robustness.json` and the figure `segmentation.png`.

"cost" times `evaluate` with the score beside the network alone on the same altered
images, at `--levels` levels of each alteration: the score traced by JAX, and the same
on the host in NumPy. They run in turns; it prints medians of `--repeats` runs, of
seconds and of processor seconds, and writes `cost.json`.
"""

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import app, flags
from common import define, files, scored, startup, timing
from flax import nnx

import jaxrob
from jaxrob import alterations, reporting

_SIDE = 32
_ALTERATIONS = (
    alterations.gaussian_noise(0.0, 0.2),
    alterations.gaussian_blur(0.0, 4.0),
    alterations.brightness(-0.5, 0.5),
    alterations.rotation(-45.0, 45.0),
    alterations.horizontal_translation(-6.0, 6.0),
    alterations.zoom(1.0, 2.0),
)

_WHAT = flags.DEFINE_enum(
    "what", "robustness", ["robustness", "cost"], "What is measured."
)
_STEPS = flags.DEFINE_integer("steps", 300, "Training steps of 32 images.", 1)
_NUM_IMAGES = define.num_images(400, "Test images.")
_LEVELS = define.levels(17)
_THRESHOLD = define.threshold()
_HALF_WIDTH = flags.DEFINE_float("half_width", 0.05, "Of the fewest images.", 0, 0.5)
_REPEATS = define.repeats()
_SEED = define.seed()
_OUTPUT = define.output("results/segmentation")


class Network(nnx.Module):
    """A logit for each pixel, from half the resolution and from the pixels."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Draws the weights."""
        conv = functools.partial(nnx.Conv, kernel_size=(3, 3), rngs=rngs)
        self.down = conv(3, 16, strides=2)
        self.middle = conv(16, 16)
        self.up = nnx.ConvTranspose(16, 8, (2, 2), strides=2, rngs=rngs)
        self.last = conv(11, 1)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Returns logits `[B, H, W]`."""
        coarse = nnx.relu(self.middle(nnx.relu(self.down(images))))
        fine = nnx.relu(self.up(coarse))
        return self.last(jnp.concatenate([fine, images], axis=-1))[..., 0]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    network = trained(_STEPS.value, _SEED.value)
    images, masks = ellipses(_NUM_IMAGES.value, _SEED.value + 1)
    dataset = jaxrob.Dataset(images, masks, name="ellipses")
    folder = files.output_folder(_OUTPUT.value)
    measure = _robustness if _WHAT.value == "robustness" else _cost
    found = measure(jaxrob.Classifier.from_nnx(network, outputs="any"), dataset, folder)
    files.write_json(folder / f"{_WHAT.value}.json", found)


def ellipses(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws bright ellipses on dark grounds.

    Returns:
      Images uint8 `[N, 32, 32, 3]` and masks bool `[N, 32, 32]`.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:_SIDE, :_SIDE]
    top, left = rng.uniform(10, _SIDE - 10, (2, number, 1, 1))
    high, wide = rng.uniform(4, 9, (2, number, 1, 1))
    masks = ((rows - top) / high) ** 2 + ((columns - left) / wide) ** 2 <= 1
    bright = rng.uniform(0.5, 1.0, (number, 1, 1, 3))
    dark = rng.uniform(0.0, 0.5, (number, 1, 1, 3))
    noise = rng.normal(0, 0.1, (number, _SIDE, _SIDE, 1))
    images = np.where(masks[..., None], bright, dark) + noise
    return np.uint8(255 * images.clip(0, 1)), masks


def trained(steps: int, seed: int) -> Network:
    """Trains the network."""
    images, masks = ellipses(512, seed)
    pixels = np.float32(images) / 255
    network = Network(nnx.Rngs(seed))
    optimizer = nnx.Optimizer(network, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(network: Network, optimizer: Any, pixels: Any, masks: Any) -> None:
        def loss(network: Network) -> jax.Array:
            logits = network(pixels)
            return optax.sigmoid_binary_cross_entropy(logits, masks).mean()

        optimizer.update(network, nnx.grad(loss)(network))

    for first in range(0, 32 * steps, 32):
        rows = np.arange(first, first + 32) % len(images)
        step(network, optimizer, pixels[rows], masks[rows])
    return network


def iou(logits: Any, masks: Any) -> Any:
    """The IoU of each image; 1 where no pixel is found and none should be."""
    found = logits > 0
    shared = (found & masks).sum((1, 2))
    either = (found | masks).sum((1, 2))
    return (shared + (either == 0)) / (either + (either == 0))


def iou_on_the_host(logits: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The same, not traced."""
    return iou(np.asarray(logits), np.asarray(masks))


_SCORE = jaxrob.Score(iou, name="IoU", version="1", labels="masks")


def _robustness(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, folder: Any
) -> dict[str, Any]:
    given = classifier, dataset, _ALTERATIONS, _THRESHOLD.value
    key = jax.random.key(_SEED.value)
    strategy = jaxrob.strategies.Uniform(_LEVELS.value)
    results = jaxrob.assess(*given, score=_SCORE, strategy=strategy, key=key)
    few = jaxrob.assess(*given, score=_SCORE, half_width=_HALF_WIDTH.value, key=key)
    print(reporting.table(results))
    figure = reporting.figure(results, _ALTERATIONS, dataset.images[0], key, columns=3)
    figure.savefig(folder / "segmentation.png")
    return {
        all_.alteration: scored.widths(all_) | scored.few(one)
        for all_, one in zip(results, few)
    }


def _cost(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, folder: Any
) -> dict[str, Any]:
    del folder
    on_host = jaxrob.Score(iou_on_the_host, version="1", labels="masks")
    found = {}
    for alteration in _ALTERATIONS:
        levels = np.linspace(alteration.lower, alteration.upper, _LEVELS.value)
        given = classifier, dataset, alteration, levels
        runs = {"network": scored.network_alone(*given)} | {
            name: functools.partial(
                jaxrob.evaluate, *given, score=score, key=jax.random.key(0)
            )
            for name, score in (("traced", _SCORE), ("on the host", on_host))
        }
        print(alteration.name)
        found[alteration.name] = _medians(runs)
    return found


def _medians(runs: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Returns medians of seconds, and of processor seconds, which load changes less."""
    for run in runs.values():
        run()
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(_REPEATS.value):
        for name, run in runs.items():
            start = time.process_time()
            seconds = timing.seconds(run)
            spent[name].append((seconds, time.process_time() - start))
    medians = {
        name: [statistics.median(part) for part in zip(*both)]
        for name, both in spent.items()
    }
    alone = medians["network"]
    for name, (seconds, processor) in medians.items():
        print(
            f"  {name}: {seconds:.3f} s ({seconds / alone[0]:.2f} of the network), "
            f"processors {processor:.3f} s ({processor / alone[1]:.2f})"
        )
    return medians


if __name__ == "__main__":
    app.run(main)
