r"""Tables II and III of the 2020 paper: four ways to retrain a network, and a fifth.

    python experiments/retraining_tables.py
    python experiments/retraining_tables.py --dataset=mnist --data_dir=... --seeds=3

Trains, for each seed, a network on clean images and then by data augmentation (DA),
limited data augmentation (LDA), network parallelization (NP), its limited form (LNP)
and at worst levels (WL), each on equally many images (or, with `--epochs`, for as many
epochs over its own input, as the paper). Assesses all at 41 levels of eight alterations
and prints both tables, means over the seeds, and which of the paper's findings hold,
with 95 % intervals over the seeds. The weak alterations for the limited methods are
measured on a tenth of the training set, on which no network is trained.

Writes, into the folder `--output`, `tables.json` and one figure a method, the paper's
figures 3 to 6. Networks are kept there as checkpoints and answers as JSON, so that a
second run only prints, and an interrupted run resumes. On MNIST, with the perceptron
and three seeds, it takes 7 minutes on two CPU cores.
"""

import functools
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from cnn_2020 import findings
from cnn_2020.findings import NETWORKS, Found, Seed, mean
from common import (
    classifiers,
    datasets,
    define,
    files,
    gate,
    hosts,
    journals,
    ranges,
    startup,
)

import jaxrob
from jaxrob import adversarial, alterations, data, retraining, training

# The paper's abbreviations of the alterations, in the order of its table I.
_SHORT = ("HT", "VT", "Rot", "BV", "Z", "GN", "BA", "JC")


class _Usual(NamedTuple):
    """The usual settings of a data set."""

    images_seen: int
    batch_size: int
    threshold: float
    alterations: tuple[jaxrob.Alteration, ...]


_USUAL = {
    "digits": _Usual(30_000, 64, 0.8, ranges.WIDE),
    "mnist": _Usual(600_000, 128, 0.8, ranges.WIDE),
    "cifar10": _Usual(600_000, 128, 0.5, alterations.presets.cnn_2020()),
}
# At most this many images on which the original's weaknesses are measured.
_VALIDATION = 1000

_DATASET = define.dataset(*_USUAL)
_DATA_DIR = define.data_dir()
_NETWORK = define.network()
_SEEDS = define.seeds(2)
_IMAGES_SEEN = flags.DEFINE_integer(
    "images_seen",
    None,
    "Images that each network is trained on; by default 30,000 digits, else 600,000.",
    1,
)
_EPOCHS = define.epochs_or_usual(
    "The paper's schedule: epochs over each method's input, instead of images_seen."
)
_CHOICE = flags.DEFINE_multi_enum(
    "alterations", _SHORT, _SHORT, "Which of them, one flag each; by default all."
)
_DRAW = flags.DEFINE_enum(
    "draw", "random", ("random", "grid"), "Levels trained on; grid: the authors' few."
)
_NUM_IMAGES = define.num_images(2000, "Test images at most, evenly picked.")
_LEVELS = define.levels(41)
_THRESHOLD = define.threshold(
    None, "Lowest accepted accuracy; by default 0.8, 0.5 on CIFAR-10."
)
_ATTACKED = flags.DEFINE_integer(
    "attacked", 50, "Test images attacked for the adversariability; 0: left out.", 0
)
_OUTPUT = define.output("results/retraining")
_PROGRESS = define.progress()
_requirements = gate.define_require(*NETWORKS)


class _Sets(NamedTuple):
    """The images for training, for finding the weak alterations, and for the test."""

    train: jaxrob.Dataset
    validation: jaxrob.Dataset
    test: jaxrob.Dataset


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = files.output_folder(_OUTPUT.value)
    sets = _load()
    print(
        f"{_NETWORK.value} on {sets.train.name}: {len(sets.train):,} images to train "
        f"on, {len(sets.validation):,} to find what is weak, {len(sets.test):,} to "
        "test with"
    )
    seeds = [_one_seed(seed, sets) for seed in range(_SEEDS.value)]
    table_two = findings.robustness(seeds, _names(), _threshold())
    print("\n" + table_two + "\n\n" + findings.summary(seeds))
    answers = findings.findings(seeds, _alterations())
    print("\n" + "\n".join(answers))
    document = {
        "dataset": _DATASET.value,
        "num_images": len(sets.test),
        "threshold": _threshold(),
        "settings": _settings(),
        "seeds": seeds,
        "answers": answers,
    }
    files.write_json(output / "tables.json", document)
    number = findings.write_figures(output, seeds, _alterations(), _threshold())
    print(f"wrote {output / 'tables.json'} and {number} figures")
    found = {
        column: {name: mean(seeds, name, "robustness")[i] for name in NETWORKS}
        for i, column in enumerate(_names())
    }
    gate.require(_requirements(), found)


def _load() -> _Sets:
    train = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test = data.load(_DATASET.value, "test", _DATA_DIR.value)
    tenth = np.arange(len(train)) % 10 == 9
    return _Sets(
        train[~tenth],
        datasets.evenly_picked(train[tenth], _VALIDATION),
        # CIFAR-10 may come ordered by class.
        datasets.evenly_picked(test, _NUM_IMAGES.value),
    )


def _one_seed(seed: int, sets: _Sets) -> Seed:
    some = _alterations()
    folder = pathlib.Path(_OUTPUT.value) / "networks" / _settings() / f"seed{seed}"
    key, train_key, validation_key = jax.random.split(jax.random.key(seed), 3)
    num_classes = len(datasets.class_names(sets.train))
    module = classifiers.module(_NETWORK.value, num_classes)
    train = functools.partial(training.fit, module, sets.train, key=train_key)
    original = _timed(folder / "original", train)
    weak_of = original[0], sets.validation, validation_key, f"seed{seed}-weak"

    def measure_weak() -> dict[str, Any]:
        return {"robustness": [one.robustness for one in _assess(*weak_of)]}

    path = folder / "weak.json"
    measured = _measured(path, measure_weak, len(sets.validation))["robustness"]
    weak = [a for a, value in zip(some, measured) if value < 1]
    names = (name for name, value in zip(_names(), measured) if value < 1)
    print(f"seed {seed}: weak at {', '.join(names)}")
    sizes = retraining.input_sizes(len(sets.train), some, weak)
    sizes["WL"] = sizes["DA"]
    methods = _methods(original[0], measured)
    found: Seed = {}
    for name in NETWORKS:
        if name == "original":
            classifier, seconds = original
        else:
            given = module, sets.train, some
            train = functools.partial(methods[name], *given, key=train_key)
            classifier, seconds = _timed(folder / name, train)
        given = classifier, sets.test, key, f"seed{seed}-{name}"
        measure = functools.partial(_answers_of, *given)
        answers = _measured(folder / f"{name}.json", measure, len(sets.test))
        about = {"input_size": sizes[name], "seconds": seconds}
        found[name] = Found(**about, copies=_copies(name, weak), **answers)
        print(
            f"  {name:8} {found[name]['accuracy']:.2%} right, robustness "
            f"{np.mean(found[name]['robustness']):.2%}, trained in {seconds:.0f} s"
        )
    return found


def _methods(
    original: jaxrob.Classifier, robustness: Sequence[float]
) -> dict[str, Callable[..., jaxrob.Classifier]]:
    """Returns the ways to retrain, each with its knowledge of the original network."""
    drawn = {"levels": _DRAW.value}
    limited = drawn | {"robustness": robustness}
    given = drawn | {"classifier": original}
    return {
        "DA": functools.partial(retraining.data_augmentation, **drawn),
        "LDA": functools.partial(retraining.limited_data_augmentation, **limited),
        "NP": functools.partial(retraining.network_parallelization, **given),
        "LNP": functools.partial(
            retraining.limited_network_parallelization, **limited, classifier=original
        ),
        "WL": retraining.worst_level,
    }


def _timed(
    folder: pathlib.Path, train: Callable[..., jaxrob.Classifier]
) -> tuple[jaxrob.Classifier, float]:
    usual = _USUAL[_DATASET.value]
    schedule = {"images_seen": _IMAGES_SEEN.value or usual.images_seen}
    if _EPOCHS.value is not None:
        schedule = {"epochs": _EPOCHS.value}
    clock = folder.with_name(f"{folder.name}-seconds.json")
    start = time.perf_counter()
    classifier = train(
        **schedule,
        batch_size=usual.batch_size,
        checkpoint=folder,
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    if (kept := files.read(clock)) is None:
        # After an interruption, the time of the last part.
        kept = json.dumps(time.perf_counter() - start).encode()
        files.write(clock, kept)
    return classifier, json.loads(kept)


def _measured(
    path: pathlib.Path, measure: Callable[[], dict[str, Any]], num_images: int
) -> dict[str, Any]:
    """Returns the result of `measure`, from its file if that has the same settings."""
    settings = {
        "num_images": num_images,
        "levels": _LEVELS.value,
        "threshold": _threshold(),
        "attacked": _ATTACKED.value,
        "alterations": [
            f"{one.name} {one.lower:g} {one.upper:g}" for one in _alterations()
        ],
    }
    return files.kept(path, settings, measure)


def _assess(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, key: jax.Array, name: str
) -> Sequence[jaxrob.Assessment]:
    journal = journals.path(f"{_settings()}-{name}")
    how = _threshold(), _LEVELS.value, key, journal
    return ranges.assessed(
        classifier, dataset, _alterations(), *how, progress=_PROGRESS.value
    )


def _answers_of(
    classifier: jaxrob.Classifier, test_set: jaxrob.Dataset, key: jax.Array, name: str
) -> dict[str, Any]:
    assessments = _assess(classifier, test_set, key, name)
    found = {
        "accuracy": classifiers.clean_accuracy(classifier, test_set),
        "robustness": [assessment.robustness for assessment in assessments],
        "curves": [
            {"levels": list(a.levels), "accuracy": [float(v) for v in a.values]}
            for a in assessments
        ],
        "adversariability": None,
    }
    if _ATTACKED.value:
        attacked = datasets.evenly_picked(test_set, _ATTACKED.value)
        given = classifier, attacked.images, attacked.labels
        attack = functools.partial(adversarial.lbfgs, mesh=hosts.mesh())
        score = adversarial.adversariability(*given, attack=attack)
        found["adversariability"] = float(score.value)
    return found


def _copies(name: str, weak: Sequence[jaxrob.Alteration]) -> list[float]:
    """Returns how often each image is seen altered, for each alteration."""
    if name == "original":
        return [0] * len(_names())
    return [
        retraining.copies(alteration) if "L" != name[0] or alteration in weak else 0
        for alteration in _alterations()
    ]


def _names() -> list[str]:
    return [name for name in _SHORT if name in _CHOICE.value]


def _alterations() -> list[jaxrob.Alteration]:
    named = zip(_SHORT, _USUAL[_DATASET.value].alterations)
    return [alteration for name, alteration in named if name in _CHOICE.value]


def _threshold() -> float:
    usual = _USUAL[_DATASET.value].threshold
    return usual if _THRESHOLD.value is None else _THRESHOLD.value


def _settings() -> str:
    seen = _IMAGES_SEEN.value or _USUAL[_DATASET.value].images_seen
    schedule = f"{seen}-images" if _EPOCHS.value is None else f"{_EPOCHS.value}-epochs"
    chosen = "-".join(_names()) if len(_names()) < len(_SHORT) else "all"
    return f"{_DATASET.value}-{_NETWORK.value}-{schedule}-{_DRAW.value}-{chosen}"


if __name__ == "__main__":
    app.run(main)
