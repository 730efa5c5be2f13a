"""The benchmarks of the 2022 paper: a trained network, its test set, alterations."""

import dataclasses
import os
import pathlib
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import serialization

import jaxrob
from jaxrob import alterations, data, networks, training
from jaxrob._provenance import provenance

NAMES = ("digits", "mnist", "idc")
_EPOCHS = {"digits": 10, "mnist": 4}
# The paper tests on the first 1,000 images of MNIST.
_NUM_IMAGES = {"mnist": 1000}


class Benchmark(NamedTuple):
    """A classifier, what it is tested on, and the seven alterations of table I."""

    classifier: jaxrob.Classifier
    test_set: jaxrob.Dataset
    alterations: tuple[jaxrob.Alteration, ...]


def load(
    name: str,
    data_dir: str | None,
    output: pathlib.Path,
    seed: int = 0,
    epochs: int | None = None,
    num_images: int | None = None,
    progress: bool = True,
) -> Benchmark:
    """The benchmark called `name`.

    "idc" takes the network that the 2020 paper published; the others train a
    `MnistCNN` and keep it in `output`, for the next script.

    Args:
      name: one of `NAMES`.
      data_dir: folder of data sets, see `jaxrob.data.load`.
      output: folder that keeps trained networks.
      seed: of the training.
      epochs: of the training; by default a number for the data set.
      num_images: how many test images, the first ones; by default the paper's.
      progress: whether a progress bar is shown.
    """
    test_set = data.load(name, "test", data_dir)
    test_set = test_set[: num_images or _NUM_IMAGES.get(name, len(test_set))]
    if name == "idc":
        folder = pathlib.Path(data_dir or os.environ["JAXROB_DATA_DIR"], "idc")
        variables = networks.load_idc_weights(folder / "idc_cnn_weights.npz")
        classifier = jaxrob.Classifier.from_linen(
            networks.IdcCNN(), variables, "sigmoid"
        )
    else:
        epochs = epochs or _EPOCHS[name]
        classifier = _trained(name, data_dir, output, seed, epochs, progress)
    presets = alterations.presets.asap_2022("idc" if name == "idc" else "mnist")
    return Benchmark(classifier, test_set, presets)


def concavity(alteration: jaxrob.Alteration, raw: float) -> float:
    """The paper's concavity, which is of raw levels, on the range mapped to [0, 1]."""
    return raw * (alteration.upper - alteration.lower) ** 2


def dense(
    benchmark: Benchmark,
    alteration: jaxrob.Alteration,
    num_levels: int,
    rule: str,
    threshold: float,
    output: pathlib.Path,
    key: jax.Array,
    progress: bool = True,
) -> jaxrob.Assessment:
    """A uniform assessment at many levels, kept in `output` for the next script.

    Only counts are kept. It is done anew if the file is of another classifier, data
    set, key, version or device.
    """
    name = re.sub(r"\W+", "_", alteration.name)
    path = output / "dense" / benchmark.test_set.name / f"{name}-{num_levels}.json"
    source = provenance(benchmark.classifier, benchmark.test_set, key, None)
    if path.exists():
        known = jaxrob.Assessment.from_json(path.read_text())
        if known.provenance == source and (known.lower, known.upper, known.rule) == (
            alteration.lower,
            alteration.upper,
            rule,
        ):
            return dataclasses.replace(known, threshold=threshold)
    found = jaxrob.assess(
        benchmark.classifier,
        benchmark.test_set,
        alteration,
        threshold,
        strategy=jaxrob.strategies.Uniform(num_levels),
        rule=rule,
        key=key,
        progress=progress,
    )
    _write(path, found.to_json(answers=False).encode())
    return found


def _trained(name, data_dir, output, seed, epochs, progress):
    train_set = data.load(name, "train", data_dir)
    module = networks.MnistCNN(len(train_set.class_names))
    path = output / "networks" / f"{name}-seed{seed}-epochs{epochs}.msgpack"
    if path.exists():
        shape = (1, *train_set.images.shape[1:])
        like = module.init(jax.random.key(0), jnp.zeros(shape))
        variables = serialization.from_bytes(like, path.read_bytes())
        return jaxrob.Classifier.from_linen(module, variables)
    classifier = training.fit(
        module, train_set, key=jax.random.key(seed), epochs=epochs, progress=progress
    )
    _write(path, serialization.to_bytes(classifier.variables))
    return classifier


def _write(path, content):
    """Writes a file whole or, if interrupted, not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)
