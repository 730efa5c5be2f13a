"""Images per second and peak memory of data that are read from a file as they are used.

    python experiments/streaming.py
    python experiments/streaming.py --num_images=50000 --num_compared=20000

`--num_images` images of 32 x 32 x 3 bytes are written to a file in `--folder` (6 GB by
default, deleted in the end) and evaluated as a memory map, under a linear classifier.
Then `--num_compared` of them are, in turn, in memory, as a memory map and as batches,
under the linear classifier and, a twentieth of them, under a convolutional network.
Prints images times levels per second, medians over the repeats, and the peak of
anonymous memory: what the process holds beyond the file's own pages, which the system
may take back. Images are noise and weights random: they do not matter for speed.
"""

import contextlib
import itertools
import os
import pathlib
import statistics
import tempfile
import threading

import hosts
import jax
import jax.numpy as jnp
import numpy as np
import startup
import timing
from absl import app, flags

import jaxrob
from jaxrob import alterations, networks
from jaxrob._engine.provenance import dataset_fingerprint

_SHAPE = (32, 32, 3)
# Images written at a time, and in each batch of an iterable.
_CHUNK = 1000

_NUM_IMAGES = flags.DEFINE_integer("num_images", 2_000_000, "Images in the file.", 1)
_NUM_COMPARED = flags.DEFINE_integer(
    "num_compared", 200_000, "Images compared with as many in memory.", 20
)
_NUM_LEVELS = flags.DEFINE_integer("num_levels", 2, "Levels.", 1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1000, "Images in a block.", 1)
_REPEATS = flags.DEFINE_integer("repeats", 5, "Timed runs of each.", 1)
_FOLDER = flags.DEFINE_string(
    "folder", None, "Where the file goes; by default $TMPDIR."
)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)


class _Batches:
    """An iterable of batches, read from the file anew on every pass."""

    def __init__(self, images):
        self.images = images

    def __iter__(self):
        for first in range(0, len(self.images), _CHUNK):
            images = np.array(self.images[first : first + _CHUNK])
            yield images, np.zeros(len(images), np.int32)


def main(argv):
    startup.start(argv)
    if _NUM_COMPARED.value > _NUM_IMAGES.value:
        raise app.UsageError(
            f"num_compared must be at most num_images, {_NUM_IMAGES.value}; got "
            f"{_NUM_COMPARED.value}"
        )
    alteration = alterations.brightness(-0.5, 0.5)
    levels = np.linspace(-0.5, 0.5, _NUM_LEVELS.value)

    def rate(classifier, dataset, number=None):
        seconds = timing.seconds(
            lambda: jaxrob.evaluate(
                classifier,
                dataset,
                alteration,
                levels,
                batch_size=_BATCH_SIZE.value,
                mesh=hosts.mesh(),
            )
        )
        return (number or len(dataset)) * len(levels) / seconds

    linear, network = _classifiers()
    with tempfile.TemporaryDirectory(dir=_FOLDER.value) as folder:
        mapped = _write(pathlib.Path(folder, "images"))
        every = jaxrob.Dataset(mapped, np.zeros(len(mapped), np.int32))
        compared = _NUM_COMPARED.value

        def in_memory(classifier, number):
            images = np.array(mapped[:number])
            found = rate(classifier, jaxrob.Dataset(images, every.labels[:number]))
            # JAX lets go of memory that it borrowed at its next call.
            del images
            jnp.zeros(()).block_until_ready()
            return found

        in_memory(linear, compared)  # compiles
        memory, whole, peaks = [in_memory(linear, compared)], [], []
        for _ in range(_REPEATS.value):
            with _peak() as peak:
                whole.append(rate(linear, every))
            peaks += peak
            memory.append(in_memory(linear, compared))
        around = [statistics.mean(pair) for pair in itertools.pairwise(memory)]
        ratios = [own / other for own, other in zip(whole, around)]
        print(
            f"linear, {len(every):,} images as a memory map: "
            f"{statistics.median(whole):,.0f} images/s, "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) "
            f"of {compared:,} in memory before and after; peak of anonymous memory "
            f"{max(peaks) / 2**20:,.0f} MB"
        )
        with _peak() as peak:
            dataset_fingerprint(every)
        print(f"its fingerprint: peak of anonymous memory {peak[0] / 2**20:,.0f} MB")
        for name, classifier, number in (
            ("linear", linear, compared),
            ("cnn", network, compared // 20),
        ):
            part, labels = mapped[:number], every.labels[:number]
            ways = {
                "in memory": jaxrob.Dataset(np.array(part), labels),
                "memory map": jaxrob.Dataset(part, labels),
                "batches": jaxrob.Dataset.from_batches(_Batches(part)),
            }
            rate(classifier, ways["in memory"])  # compiles
            rounds = [
                [rate(classifier, some, number) for some in ways.values()]
                for _ in range(_REPEATS.value)
            ]
            for column, way in enumerate(ways):
                median = statistics.median(row[column] for row in rounds)
                ratio = statistics.median(row[column] / row[0] for row in rounds)
                print(
                    f"{name}, {number:,} images, {way}: {median:,.0f} images/s, "
                    f"{ratio:.3f} of in memory"
                )


def _classifiers():
    key = jax.random.key(_SEED.value)
    weights = jax.random.normal(key, (np.prod(_SHAPE), 10)) / 50

    def apply(weights, images):
        return images.reshape(len(images), -1) @ weights

    module = networks.MnistCNN()
    variables = module.init(key, jnp.zeros((1, *_SHAPE)))
    return (
        jaxrob.Classifier(apply, weights),
        jaxrob.Classifier.from_linen(module, variables),
    )


def _write(path):
    """The memory map, of a few thousand images of noise over and over."""
    noise = np.random.default_rng(_SEED.value).integers(
        0, 256, (4 * _CHUNK, *_SHAPE), np.uint8
    )
    number = _NUM_IMAGES.value
    with path.open("wb") as file:
        for first in range(0, number, len(noise)):
            file.write(noise[: number - first].data)
        # Or the system would write it while others are timed.
        os.fsync(file.fileno())
    return np.memmap(path, np.uint8, "r", shape=(number, *_SHAPE))


@contextlib.contextmanager
def _peak():
    """The largest anonymous memory, in bytes, while entered; known at its end."""
    largest, ended = [_anonymous()], threading.Event()

    def watch():
        while not ended.wait(0.02):
            largest[0] = max(largest[0], _anonymous())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield largest
    finally:
        ended.set()
        watching.join()


def _anonymous():
    status = pathlib.Path(f"/proc/{os.getpid()}/status").read_text()
    (kilobytes,) = (
        line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")
    )
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    app.run(main)
