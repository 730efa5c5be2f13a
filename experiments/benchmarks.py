"""The benchmarks of the 2022 paper: a trained network, its test set, alterations."""

import contextlib
import io
import json
import os
import pathlib
from typing import NamedTuple

import assessment_files
import hosts
import jax
import jax.numpy as jnp
import journals
import numpy as np
from absl import flags
from flax import serialization

import jaxrob
from jaxrob import alterations, data, networks, training
from jaxrob._engine.provenance import provenance

_NAMES = ("digits", "mnist", "idc")
_NETWORKS = {
    "mnist_cnn": networks.MnistCNN,
    "strided_cnn": networks.StridedCNN,
    "mlp": networks.MLP,
}
_EPOCHS = {"digits": 10, "mnist": 4}
# The paper tests on the first 1,000 images of MNIST.
_NUM_IMAGES = 1000

# The flags that the scripts share.
NAME = flags.DEFINE_enum(
    "benchmark", "digits", _NAMES, "Data set; idc comes with the published network."
)
NETWORK = flags.DEFINE_enum(
    "network", "mnist_cnn", tuple(_NETWORKS), "Network to train, but for idc."
)
DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
NUM_IMAGES = flags.DEFINE_integer(
    "num_images", _NUM_IMAGES, "Images in a test set, the first ones.", 1
)
EPOCHS = flags.DEFINE_integer(
    "epochs", None, "Training epochs; by default a number for the data set.", 1
)
THRESHOLD = flags.DEFINE_float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)
SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
OUTPUT = flags.DEFINE_string("output", "results/asap", "Folder written to.")
PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")


class Benchmark(NamedTuple):
    """A classifier, what it is tested on, and the seven alterations of table I."""

    classifier: jaxrob.Classifier
    test_set: jaxrob.Dataset
    alterations: tuple[jaxrob.Alteration, ...]


def load(first: int = 0, num_images: int | None = None) -> Benchmark:
    """The benchmark that the flags ask for.

    "idc" takes the network that the 2020 paper published; the others train one and
    keep it in the folder `--output`, for the next script.

    Args:
      first: the first test image.
      num_images: how many test images; by default `--num_images`.
    """
    name = NAME.value
    test_set = data.load(name, "test", DATA_DIR.value)
    test_set = test_set[first : first + (num_images or NUM_IMAGES.value)]
    if name == "idc":
        folder = pathlib.Path(DATA_DIR.value or os.environ["JAXROB_DATA_DIR"], "idc")
        variables = networks.load_idc_weights(folder / "idc_cnn_weights.npz")
        classifier = jaxrob.Classifier.from_linen(
            networks.IdcCNN(), variables, "sigmoid"
        )
    else:
        classifier = _trained()
    presets = alterations.presets.asap_2022("idc" if name == "idc" else "mnist")
    return Benchmark(classifier, test_set, presets)


def title() -> str:
    """The benchmark in a few words, for names of files too."""
    return "idc" if NAME.value == "idc" else f"{NAME.value}-{NETWORK.value}"


def output() -> pathlib.Path:
    """The folder written to."""
    return hosts.output(OUTPUT.value)


def key() -> jax.Array:
    """The key of the training and of the alterations."""
    return jax.random.key(SEED.value)


def concavity(of: jaxrob.Alteration | jaxrob.Assessment, raw: float) -> float:
    """The paper's concavity, which is of raw levels, on the range mapped to [0, 1]."""
    return raw * (of.upper - of.lower) ** 2


def dense(
    benchmark: Benchmark, alteration: jaxrob.Alteration, num_levels: int, rule: str
) -> jaxrob.Assessment:
    """A uniform assessment at many levels, kept in `--output` for the next script.

    Only counts are kept. It is done anew if the file is of another classifier, data
    set, key, version or device.
    """
    name = assessment_files.file_name(alteration.name)
    path = _path("dense", f"{name}-{num_levels}-{THRESHOLD.value:g}.json")
    source = provenance(benchmark.classifier, benchmark.test_set, key(), hosts.mesh())
    source |= {"alteration": alteration.description}
    if (kept := hosts.read(path)) is not None:
        with contextlib.suppress(ValueError):  # of another version
            known = jaxrob.Assessment.from_json(kept)
            if known.provenance == source and known.rule == rule:
                return known
    found = jaxrob.assess(
        benchmark.classifier,
        benchmark.test_set,
        alteration,
        THRESHOLD.value,
        strategy=jaxrob.strategies.Uniform(num_levels),
        rule=rule,
        key=key(),
        journal=_journal(benchmark, "dense"),
        mesh=hosts.mesh(),
        progress=PROGRESS.value,
    )
    hosts.write(path, found.to_json(answers=False).encode())
    return found


def correct(
    benchmark: Benchmark, alteration: jaxrob.Alteration, num_levels: int, name: str
) -> np.ndarray:
    """Which answers are right at evenly spaced levels: bool `[num_levels, N]`.

    Kept in `--output` under `name`, and done anew as `dense` does.
    """
    path = _path("correct", f"{name}-{num_levels}.npz")
    source = provenance(benchmark.classifier, benchmark.test_set, key(), hosts.mesh())
    source = json.dumps([source, alteration.description])
    num_images = len(benchmark.test_set)
    if (kept := hosts.read(path)) is not None:
        with np.load(io.BytesIO(kept)) as known:
            if str(known["source"]) == source:
                return np.unpackbits(known["bits"], axis=1, count=num_images).view(bool)
    share = np.arange(num_levels) / (num_levels - 1)
    curve = jaxrob.evaluate(
        benchmark.classifier,
        benchmark.test_set,
        alteration,
        alteration.lower * share[::-1] + alteration.upper * share,
        key=key(),
        journal=_journal(benchmark, name),
        mesh=hosts.mesh(),
        progress=PROGRESS.value,
    )
    right = curve.predicted == curve.labels
    file = io.BytesIO()
    np.savez(file, bits=np.packbits(right, axis=1), source=source)
    hosts.write(path, file.getvalue())
    return right


def _path(kind, name):
    return pathlib.Path(OUTPUT.value) / kind / f"{title()}-seed{SEED.value}" / name


def _journal(benchmark, name):
    size = len(benchmark.test_set)
    return journals.path(f"{title()}-seed{SEED.value}-{size}images-{name}")


def _trained():
    train_set = data.load(NAME.value, "train", DATA_DIR.value)
    module = _NETWORKS[NETWORK.value](num_classes=len(train_set.class_names))
    epochs = EPOCHS.value or _EPOCHS[NAME.value]
    path = _path("networks", f"epochs{epochs}.msgpack")
    if (kept := hosts.read(path)) is not None:
        shape = (1, *train_set.images.shape[1:])
        like = module.init(jax.random.key(0), jnp.zeros(shape))
        variables = serialization.from_bytes(like, kept)
        return jaxrob.Classifier.from_linen(module, variables)
    classifier = training.fit(
        module,
        train_set,
        key=key(),
        epochs=epochs,
        mesh=hosts.mesh(),
        progress=PROGRESS.value,
    )
    hosts.write(path, serialization.to_bytes(classifier.variables))
    return classifier
