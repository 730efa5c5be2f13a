"""Images per second and peak memory of data that are read from a file during use.

    python experiments/streaming.py
    python experiments/streaming.py --num_images=50000 --num_compared=20000

`--num_images` images of 32 x 32 x 3 bytes are written to a file in `--folder` (6 GB by
default, deleted at the end) and evaluated as a memory map, under a linear classifier.
Then `--num_compared` of them are evaluated alternately in memory, as a memory map and
as batches, under the linear classifier and, a twentieth of them, under a convolutional
network. Prints images times levels per second, medians over the repeats, and the peak
of anonymous memory: the process's memory beyond the file's own pages, which the system
may reclaim. Nothing else is written. Images are noise and weights random: they do not
matter for speed. With `--num_compared=100000` it takes 2 minutes on two CPU cores.
"""

import itertools
import math
import os
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import classifiers, define, hosts, machine, startup, timing

import jaxrob
from jaxrob import alterations

_SHAPE = (32, 32, 3)
# Images written at a time, and in each batch of an iterable.
_CHUNK = 1000

_NUM_IMAGES = define.num_images(2_000_000, "Images in the file.")
_NUM_COMPARED = flags.DEFINE_integer(
    "num_compared", 200_000, "Images compared with as many in memory.", 20
)
_NUM_LEVELS = define.num_levels(2)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1000, "Images in a block.", 1)
_REPEATS = define.repeats()
_FOLDER = flags.DEFINE_string(
    "folder", None, "Where the file goes; by default $TMPDIR."
)
_SEED = define.seed()


class _Batches:
    """An iterable of batches, read from the file again on every pass."""

    def __init__(self, images: np.ndarray):
        self.images = images

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, len(self.images), _CHUNK):
            images = np.array(self.images[first : first + _CHUNK])
            yield images, _labels(images)


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    compared = _NUM_COMPARED.value
    if compared > _NUM_IMAGES.value:
        raise app.UsageError(
            f"num_compared must be at most num_images, {_NUM_IMAGES.value}; got "
            f"{compared}"
        )
    linear, network = _classifiers()
    with tempfile.TemporaryDirectory(dir=_FOLDER.value) as folder:
        mapped = _write(pathlib.Path(folder, "images"))
        every = jaxrob.Dataset(mapped, _labels(mapped))
        _measure_whole(linear, every, mapped[:compared])
        with machine.anonymous_peak() as peak:
            jaxrob.provenance(linear, every)
        print(f"its fingerprint: peak of anonymous memory {peak[0] / 2**20:,.0f} MB")
        _compare_ways("linear", linear, mapped[:compared])
        _compare_ways("cnn", network, mapped[: compared // 20])


def _measure_whole(
    classifier: jaxrob.Classifier, every: jaxrob.Dataset, part: np.ndarray
) -> None:
    """Times the whole file, each time between two runs of a part in memory."""
    _rate_in_memory(classifier, part)  # compiles
    memory, whole, peaks = [_rate_in_memory(classifier, part)], [], []
    for _ in range(_REPEATS.value):
        with machine.anonymous_peak() as peak:
            whole.append(_rate(classifier, every, len(every)))
        peaks += peak
        memory.append(_rate_in_memory(classifier, part))
    around = [statistics.mean(pair) for pair in itertools.pairwise(memory)]
    ratios = [own / other for own, other in zip(whole, around)]
    print(
        f"linear, {len(every):,} images as a memory map: "
        f"{statistics.median(whole):,.0f} images/s, "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) "
        f"of {len(part):,} in memory before and after; peak of anonymous memory "
        f"{max(peaks) / 2**20:,.0f} MB"
    )


def _rate_in_memory(classifier: jaxrob.Classifier, part: np.ndarray) -> float:
    images = np.array(part)
    found = _rate(classifier, jaxrob.Dataset(images, _labels(images)), len(part))
    # JAX releases borrowed memory at its next call.
    del images
    jnp.zeros(()).block_until_ready()
    return found


def _rate(
    classifier: jaxrob.Classifier,
    dataset: Any,
    number: int,
) -> float:
    """Returns images times levels per second."""
    seconds = timing.seconds(
        lambda: jaxrob.evaluate(
            classifier,
            dataset,
            alterations.brightness(-0.5, 0.5),
            np.linspace(-0.5, 0.5, _NUM_LEVELS.value),
            batch_size=_BATCH_SIZE.value,
            mesh=hosts.mesh(),
        )
    )
    return number * _NUM_LEVELS.value / seconds


def _compare_ways(name: str, classifier: jaxrob.Classifier, part: np.ndarray) -> None:
    """Times the same images in memory, as a memory map and as batches, alternately."""
    ways = {
        "in memory": jaxrob.Dataset(np.array(part), _labels(part)),
        "memory map": jaxrob.Dataset(part, _labels(part)),
        "batches": jaxrob.Dataset.from_batches(_Batches(part)),
    }
    number = len(part)
    _rate(classifier, ways["in memory"], number)  # compiles
    rounds = [
        [_rate(classifier, some, number) for some in ways.values()]
        for _ in range(_REPEATS.value)
    ]
    for column, way in enumerate(ways):
        median = statistics.median(row[column] for row in rounds)
        ratio = statistics.median(row[column] / row[0] for row in rounds)
        print(
            f"{name}, {number:,} images, {way}: {median:,.0f} images/s, "
            f"{ratio:.3f} of in memory"
        )


def _classifiers() -> tuple[jaxrob.Classifier, jaxrob.Classifier]:
    """Returns a linear classifier, and a convolutional network."""
    key = jax.random.key(_SEED.value)
    weights = jax.random.normal(key, (math.prod(_SHAPE), 10)) / 50

    def apply(weights: jax.Array, images: jax.Array) -> jax.Array:
        return images.reshape(len(images), -1) @ weights

    network = classifiers.untrained("mnist_cnn", _SHAPE, 10, key)
    return jaxrob.Classifier(apply, weights), network


def _labels(images: np.ndarray) -> np.ndarray:
    return np.zeros(len(images), np.int32)


def _write(path: pathlib.Path) -> np.memmap:
    """Writes the memory map, a few thousand images of noise repeated."""
    noise = np.random.default_rng(_SEED.value).integers(
        0, 256, (4 * _CHUNK, *_SHAPE), np.uint8
    )
    number = _NUM_IMAGES.value
    with path.open("wb") as file:
        for first in range(0, number, len(noise)):
            file.write(noise[: number - first].data)
        # Otherwise the system would write the file during the timing.
        os.fsync(file.fileno())
    return np.memmap(path, np.uint8, "r", shape=(number, *_SHAPE))


if __name__ == "__main__":
    app.run(main)
