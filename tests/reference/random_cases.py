"""Random cases, drawn from their numbers: network, data and arguments."""

import dataclasses
import functools
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy_reference as slow
from jax.sharding import Mesh
from random_parts import (
    FRAMEWORKS,
    Pair,
    classifier_of,
    host_classifier,
    noise_of_images,
    random_pairs,
)

import jaxrob

# The first structures of this one hold most kinds of alteration and network.
SEED = 363
# So many cases in a row share their structure, and so their compiled programs.
CASES_ALIKE = 75
OUTPUTS = "logits sigmoid probabilities scores logits sigmoid logits".split()
BATCH_SIZES = (7, 1, 16, 3)
SHAPES = ((7, 8, 3), (6, 5, 1), (12,), (5, 5, 1), (4, 6, 2))


class Structure(NamedTuple):
    framework: str
    outputs: str
    samples: int
    num_classes: int
    shape: tuple[int, ...]
    filters: int
    hidden: int
    dtypes: tuple[str, ...]
    size: int
    batch_size: int
    pairs: tuple[Pair, ...]


@dataclasses.dataclass(frozen=True)
class Truth:
    """The network and the data as the reference sees them."""

    weights: dict[str, Any]
    outputs: str
    num_classes: int
    pixels: np.ndarray
    labels: np.ndarray
    noise: np.ndarray

    def distribution(self, image):
        """`[S, K]`: each sample's probabilities (or scores) of one altered image."""
        return slow.distributions(slow.rows_of(self.weights, image), self.outputs)

    def altered(self, pair, i, level):
        if pair.alteration.stochastic:
            return pair.slow(self.pixels[i], level, self.noise[i])
        return pair.slow(self.pixels[i], level)

    def answers(self, pair, levels):
        found = [
            [
                slow.answer(
                    self.distribution(self.altered(pair, i, float(level))), self.outputs
                )
                for i in range(len(self.pixels))
            ]
            for level in levels
        ]
        return slow.Answers(*np.moveaxis(np.array(found), -1, 0))


@functools.lru_cache(4)
def numbered_structure(index):
    rng = np.random.default_rng([SEED, 1, index])
    # In turn, so that the first few hold something of all.
    framework = FRAMEWORKS[index % len(FRAMEWORKS)]
    outputs = OUTPUTS[index % len(OUTPUTS)]
    shape = SHAPES[index % len(SHAPES)]
    dtypes = DTYPES[index % len(DTYPES)]
    if len(shape) == 1 and dtypes == ("uint8",):
        dtypes = DTYPES[0]  # Bytes are pixels; vectors have other units.
    num_classes = int(rng.integers(2, 6))
    one_sample = framework == "host" or outputs == "scores" or rng.random() < 0.5
    samples = 1 if one_sample else int(rng.integers(2, 5))
    return Structure(
        framework,
        outputs,
        samples,
        num_classes,
        shape,
        int(rng.choice([0, 2])) if len(shape) == 3 else 0,
        int(rng.choice([0, 6])),
        dtypes,
        int(rng.integers(4, 71)),
        BATCH_SIZES[index % len(BATCH_SIZES)],
        tuple(random_pairs(rng, shape, 2)),
    )


def random_weights(rng, structure):
    """As `numpy_reference` describes them."""
    weights = {}
    size, gain = int(np.prod(structure.shape)), rng.uniform(2, 8)
    if structure.filters:
        height, width, channels = structure.shape
        kernel = (3, 3, channels, structure.filters)
        weights["conv"] = layer(rng, kernel, 9 * channels, 1.5)
        size = (height - 2) * (width - 2) * structure.filters
    if structure.hidden:
        weights["hidden"] = layer(rng, (size, structure.hidden), size, 1.5)
        size = structure.hidden
    one_column = structure.outputs == "sigmoid" and structure.num_classes == 2
    columns = (
        1 if one_column and structure.framework != "host" else structure.num_classes
    )
    weights["last"] = layer(rng, (structure.samples, size, columns), size, gain)
    return weights


def layer(rng, shape, size, gain):
    kernel = rng.normal(0, gain / np.sqrt(size), shape)
    bias_shape = shape[-1:] if len(shape) != 3 else (shape[0], shape[2])
    return kernel.astype(np.float32), rng.normal(0, 0.3, bias_shape).astype(np.float32)


@functools.lru_cache(4)
def host_network(structure):
    weights = random_weights(np.random.default_rng(SEED), structure)
    return weights, host_classifier(weights, structure.outputs)


def random_network(rng, structure):
    if structure.framework == "host":
        return host_network(structure)
    weights = random_weights(rng, structure)
    return weights, classifier_of(structure.framework, weights, structure.outputs, rng)


def random_data(rng, structure, weights, key, batch_size, folder):
    """A data set, and the truth of the network on it."""
    # All of them, or fewer that fill a block.
    number, dtype = structure.size, str(rng.choice(structure.dtypes))
    if batch_size is not None and rng.random() < 0.5:
        number = int(rng.integers(min(batch_size, structure.size), structure.size + 1))
    images = random_images(rng, number, structure.shape, dtype)
    layouts = layouts_for(images)
    if batch_size is None and structure.size % 4:
        # Where no length is known, blocks have a size of their own.
        layouts.remove("batches")
    layout = str(rng.choice(layouts))
    weights = jax.tree.map(lambda leaf: leaf.astype(np.float64), weights)
    truth = Truth(
        weights,
        structure.outputs,
        structure.num_classes,
        slow.unaltered_pixels(images),
        np.zeros(number, int),
        np.asarray(noise_of_images(key, structure.shape)),
    )
    # Mostly right at first, so that there is something to lose.
    labels = np.array(
        [
            slow.answer(truth.distribution(pixels), structure.outputs)[0]
            for pixels in truth.pixels
        ]
    )
    wrong = rng.random(number) < rng.choice([0.05, 0.2, 0.5])
    labels = np.where(wrong, rng.integers(0, structure.num_classes, number), labels)
    label_type = rng.choice(["int64", "int32", "uint8", ">i4"])
    dataset = dataset_of(rng, images, labels.astype(label_type), layout, folder)
    what = f"{number} images {dtype} {layout}, labels {label_type}"
    return dataset, dataclasses.replace(truth, labels=labels), what


@dataclasses.dataclass
class Setting:
    """What a case asks about, and in words what it drew (`notes`)."""

    structure: Structure
    classifier: Any
    dataset: Any
    truth: Truth
    arguments: dict[str, Any]
    notes: list[str]

    def note(self, *words):
        self.notes.extend(str(word) for word in words)

    def random_alpha(self, rng):
        """None, or a confidence level; scores have no uncertainty."""
        if self.structure.outputs == "scores" or rng.random() < 0.5:
            return None
        return float(rng.choice([0.0, 0.2, 0.5, 0.8, round(rng.random(), 3)]))


def setting_of(number, rng, folder):
    structure = numbered_structure(number // CASES_ALIKE)
    weights, classifier = random_network(rng, structure)
    key = jax.random.key(int(rng.integers(1000)))
    batch_size = structure.batch_size if rng.random() < 0.6 else None
    dataset, truth, what = random_data(rng, structure, weights, key, batch_size, folder)
    arguments = {"key": key, "batch_size": batch_size, "mesh": random_mesh(number)}
    notes = [
        f"{structure.framework} {structure.outputs} S={structure.samples} "
        f"K={structure.num_classes} {structure.shape} filters {structure.filters} "
        f"hidden {structure.hidden}",
        what,
        f"batch_size {batch_size}",
    ]
    return Setting(structure, classifier, dataset, truth, arguments, notes)


def random_mesh(number):
    """All devices without a word, or some of them in one or two axes."""
    # Programs are compiled for a mesh: one for cases of the same structure.
    rng = np.random.default_rng([SEED, 2, number // CASES_ALIKE])
    devices = jax.devices()
    if rng.random() < 0.4:
        return None
    some = np.array(devices[: rng.integers(1, len(devices) + 1)])
    if len(some) % 2 == 0 and rng.random() < 0.5:
        return Mesh(some.reshape(2, -1), ("a", "b"))
    return Mesh(some, ("images",))


# Those of one group are the same on the device.
DTYPES = (("float32", "float64", ">f4"), ("uint8",), ("bfloat16",), ("float16",))
LAYOUTS = (
    "C",
    "Fortran",
    "reversed",
    "strided",
    "transposed",
    "read-only",
    "jax",
    "memmap",
    "batches",
)


def random_images(rng, num_images, shape, dtype):
    """`[N, H, W, C]` in [0, 1] or bytes, or `[N, D]` of any numbers.

    Floats keep away from the middle between two bytes, where the rounding of JPEG
    compression is not defined.
    """
    dtype = jnp.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    if len(shape) == 1:
        return rng.normal(size=(num_images, *shape)).astype(dtype)
    # Some smooth, some not.
    pixels = rng.uniform(0, 255, (num_images, 1, 1, 1)) + rng.normal(
        0, rng.choice([20, 80]), (num_images, *shape)
    )
    pixels = np.round(np.clip(pixels, 0, 255))
    if dtype == np.uint8:
        return pixels.astype(np.uint8)
    pixels = np.clip(pixels + rng.uniform(-0.4, 0.4, pixels.shape), 0, 255)
    images = (pixels / 255).astype(dtype)
    return np.where(images == 0.5, np.zeros_like(images), images)


def dataset_of(rng, images, labels, layout, folder):
    if layout == "batches":
        most = rng.integers(1, 2 + len(images))
        return jaxrob.Dataset.from_batches(Batches(images, labels, most))
    return jaxrob.Dataset(laid_out(images, layout, folder), labels)


def laid_out(images, layout, folder):
    """An array of the same values."""
    if layout == "Fortran":
        return np.asfortranarray(images)
    if layout == "reversed":
        return np.ascontiguousarray(images[::-1])[::-1]
    if layout == "strided":
        return np.repeat(images, 2, axis=1)[:, ::2]
    if layout == "transposed":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(images, -1, 1)), 1, -1)
    if layout == "jax":
        return jnp.asarray(images)
    if layout == "memmap":
        path = pathlib.Path(folder, "images")
        np.ascontiguousarray(images).tofile(path)
        return np.memmap(path, images.dtype, "r", shape=images.shape)
    images = np.array(images, order="C")
    if layout == "read-only":
        images.setflags(write=False)
    return images


def layouts_for(images):
    """What the library takes of numbers that JAX does not."""
    without = set()
    if images.dtype == np.dtype(">f4"):
        without = {"jax", "memmap"}
    elif images.dtype == np.float64:
        without = {"jax"}
    return [layout for layout in LAYOUTS if layout not in without]


class Batches:
    """The data in batches of odd sizes, the same in every pass."""

    def __init__(self, images, labels, most):
        self.images, self.labels, self.most = images, labels, most

    def __iter__(self):
        sizes = np.random.default_rng(len(self.images))
        first = 0
        while first < len(self.images):
            last = first + int(sizes.integers(1, self.most + 1))
            yield self.images[first:last], self.labels[first:last]
            first = last
