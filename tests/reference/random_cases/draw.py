"""What a case is made of, drawn from its number alone."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy_reference import alterations, answers, networks

from random_cases import data
from random_cases.alterations import Pair, noise_of_images, random_pairs
from random_cases.networks import FRAMEWORKS, classifier_of, host_classifier

# The first structures of this one hold most kinds of alteration and network.
SEED = 363
# So many cases in a row share their structure, and so their compiled programs.
CASES_ALIKE = 75
OUTPUTS = "logits sigmoid probabilities scores logits sigmoid logits".split()
BATCH_SIZES = (7, 1, 16, 3)
SHAPES = ((7, 8, 3), (6, 5, 1), (12,), (5, 5, 1), (4, 6, 2))


class Structure(NamedTuple):
    """What programs are compiled for."""

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
        rows = networks.rows_of(self.weights, image)
        return networks.distributions(rows, self.outputs)

    def altered(self, pair, i, level):
        """The image of an index at a level."""
        if pair.alteration.stochastic:
            return pair.slow(self.pixels[i], level, self.noise[i])
        return pair.slow(self.pixels[i], level)

    def answers(self, pair, levels):
        """`Answers` `[L, N]`."""
        found = [
            [
                answers.answer(
                    self.distribution(self.altered(pair, i, float(level))), self.outputs
                )
                for i in range(len(self.pixels))
            ]
            for level in levels
        ]
        return answers.Answers(*np.moveaxis(np.array(found), -1, 0))


def structure_of(number):
    """The structure that the case shares with its neighbours."""
    return numbered_structure(number // CASES_ALIKE)


@functools.lru_cache(4)
def numbered_structure(index):
    rng = np.random.default_rng([SEED, 1, index])
    # In turn, so that the first few hold something of all.
    framework = FRAMEWORKS[index % len(FRAMEWORKS)]
    outputs = OUTPUTS[index % len(OUTPUTS)]
    shape = SHAPES[index % len(SHAPES)]
    dtypes = data.DTYPES[index % len(data.DTYPES)]
    if len(shape) == 1 and dtypes == ("uint8",):
        dtypes = data.DTYPES[0]  # Bytes are pixels; vectors have other units.
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
    """As `numpy_reference.networks` describes them."""
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
    """Weights and classifier, one for all cases of a structure."""
    weights = random_weights(np.random.default_rng(SEED), structure)
    return weights, host_classifier(weights, structure.outputs)


def random_network(rng, structure):
    """Weights, and the library's classifier of them."""
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
    images = data.random_images(rng, number, structure.shape, dtype)
    layouts = data.layouts_for(images)
    if batch_size is None and structure.size % 4:
        # Where no length is known, blocks have a size of their own.
        layouts.remove("batches")
    layout = str(rng.choice(layouts))
    weights = jax.tree.map(lambda leaf: leaf.astype(np.float64), weights)
    truth = Truth(
        weights,
        structure.outputs,
        structure.num_classes,
        alterations.unaltered_pixels(images),
        np.zeros(number, int),
        np.asarray(noise_of_images(key, structure.shape)),
    )
    # Mostly right at first, so that there is something to lose.
    labels = np.array(
        [
            answers.answer(truth.distribution(pixels), structure.outputs)[0]
            for pixels in truth.pixels
        ]
    )
    wrong = rng.random(number) < rng.choice([0.05, 0.2, 0.5])
    labels = np.where(wrong, rng.integers(0, structure.num_classes, number), labels)
    label_type = rng.choice(["int64", "int32", "uint8", ">i4"])
    dataset = data.dataset_of(rng, images, labels.astype(label_type), layout, folder)
    what = f"{number} images {dtype} {layout}, labels {label_type}"
    return dataset, dataclasses.replace(truth, labels=labels), what
