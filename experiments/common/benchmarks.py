"""The benchmarks of the 2022 paper: a trained network, its test set, alterations."""

import contextlib
import io
import json
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import flags

import jaxrob
from common import classifiers, datasets, define, files, hosts, journals, ranges
from jaxrob import alterations, data, training

_EPOCHS = {"digits": 10, "mnist": 4}

# The flags of the scripts that take a benchmark. The paper tests on the first 1,000
# images of MNIST.
NAME = flags.DEFINE_enum(
    "benchmark",
    "digits",
    ("digits", "mnist", "idc"),
    "Data set; idc comes with the published network.",
)
NETWORK = define.network(help="Network to train, except for idc.")
DATA_DIR = define.data_dir()
NUM_IMAGES = define.num_images(1000)
EPOCHS = define.epochs_or_usual()
THRESHOLD = define.threshold()
SEED = define.seed()
OUTPUT = define.output("results/asap")
PROGRESS = define.progress()


class Benchmark(NamedTuple):
    """A classifier, its test set, and the seven alterations of table I."""

    classifier: jaxrob.Classifier
    test_set: jaxrob.Dataset
    alterations: tuple[jaxrob.Alteration, ...]


def load(first: int = 0, num_images: int | None = None) -> Benchmark:
    """Loads the benchmark that the flags select; trained networks are kept."""
    name = NAME.value
    test_set = data.load(name, "test", DATA_DIR.value)
    test_set = test_set[first : first + (num_images or NUM_IMAGES.value)]
    if name == "idc":
        classifier = classifiers.published_idc(DATA_DIR.value)
    else:
        classifier = _trained()
    presets = alterations.presets.asap_2022("idc" if name == "idc" else "mnist")
    return Benchmark(classifier, test_set, presets)


def title() -> str:
    return "idc" if NAME.value == "idc" else f"{NAME.value}-{NETWORK.value}"


def output() -> pathlib.Path:
    return files.output_folder(OUTPUT.value)


def key() -> jax.Array:
    return jax.random.key(SEED.value)


def concavity(of: jaxrob.Alteration | jaxrob.Assessment, raw: float) -> float:
    """Converts the paper's concavity from raw levels to the range mapped to [0, 1]."""
    return raw * (of.upper - of.lower) ** 2


def dense(
    benchmark: Benchmark, alteration: jaxrob.Alteration, num_levels: int, rule: str
) -> jaxrob.Assessment:
    """Assesses at many uniform levels; kept in `--output` for the next script."""
    name = files.assessment_name(alteration.name)
    path = _path("dense", f"{name}-{num_levels}-{THRESHOLD.value:g}.json")
    source = _source(benchmark, alteration)
    if (kept := files.read(path)) is not None:
        with contextlib.suppress(ValueError):  # of another version
            known = jaxrob.Assessment.from_json(kept.decode())
            # The file holds the alteration's settings too, as part of its description.
            is_same = known.provenance | source == known.provenance
            if is_same and known.rule == rule:
                return known
    how = _journal(benchmark, "dense")
    found = ranges.assessed(
        *benchmark[:2], alteration, THRESHOLD.value, num_levels, key(), how, rule=rule,
        progress=PROGRESS.value,
    )  # fmt: skip
    files.write(path, found.to_json(answers=False).encode())
    return found


def correct(
    benchmark: Benchmark, alteration: jaxrob.Alteration, num_levels: int, name: str
) -> np.ndarray:
    """Which answers are right at even levels, `[num_levels, N]`; kept like those."""
    path = _path("correct", f"{name}-{num_levels}.npz")
    source = json.dumps(_source(benchmark, alteration))
    num_images = len(benchmark.test_set)
    if (kept := files.read(path)) is not None:
        with np.load(io.BytesIO(kept)) as known:
            if str(known["source"]) == source:
                return np.unpackbits(known["bits"], axis=1, count=num_images).view(bool)
    curve = jaxrob.evaluate(
        *benchmark[:2],
        alteration,
        ranges.evenly_spaced_levels(alteration, num_levels),
        key=key(),
        journal=_journal(benchmark, name),
        mesh=hosts.mesh(),
        progress=PROGRESS.value,
    )
    right = curve.predicted == curve.labels
    file = io.BytesIO()
    np.savez(file, bits=np.packbits(right, axis=1), source=source)
    files.write(path, file.getvalue())
    return right


def _source(benchmark: Benchmark, alteration: jaxrob.Alteration) -> dict[str, Any]:
    found = jaxrob.provenance(*benchmark[:2], key(), hosts.mesh())
    return found | {
        "alteration": alteration.description,
        "stochastic": found["stochastic"] or alteration.stochastic,
    }


def _path(kind: str, name: str) -> pathlib.Path:
    return pathlib.Path(OUTPUT.value) / kind / f"{title()}-seed{SEED.value}" / name


def _journal(benchmark: Benchmark, name: str) -> pathlib.Path | None:
    size = len(benchmark.test_set)
    return journals.path(f"{title()}-seed{SEED.value}-{size}images-{name}")


def _trained() -> jaxrob.Classifier:
    train_set = data.load(NAME.value, "train", DATA_DIR.value)
    module = classifiers.module(NETWORK.value, len(datasets.class_names(train_set)))
    epochs = EPOCHS.value or _EPOCHS[NAME.value]
    return classifiers.kept(
        _path("networks", f"epochs{epochs}.msgpack"),
        module,
        train_set.images.shape[1:],
        lambda: training.fit(
            module, train_set, key=key(), epochs=epochs, mesh=hosts.mesh(),
            progress=PROGRESS.value,
        ),
    )  # fmt: skip
