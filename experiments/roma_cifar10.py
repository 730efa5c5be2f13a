r"""Experiments 1 to 3 of Levy and Katz (2022), by their estimator and a better one.

    python experiments/roma_cifar10.py
    python experiments/roma_cifar10.py --dataset=mnist --data_dir=... --num_images=300
    python experiments/roma_cifar10.py --dataset=cifar10 --data_dir=... \
        --network=resnet --checkpoints=6 --num_images=1000 --auto_images=50

Trains a network, keeping it at several epochs, and assesses the probabilistic local
robustness (plr) of test images with "roma", the paper's Algorithm 1, and with "auto",
whose answers have intervals: over epsilon (figure 3), over the training epochs
(figure 4) and by category, true or predicted (the table called figure 5), beside the
paper's results. Figures 1 and 2 show the highest incorrect confidences (hic) at an
input where they are normal as drawn, and at one where the Box-Cox transform makes them
normal.

It prints which of the paper's findings hold, by the estimators' answers and by the
crude Monte Carlo draws alone, which are unbiased; and each estimator's cost. Tables,
figures and networks go into the folder `--output`; another run does not train again.

With the defaults it takes a minute or two on two CPU cores. There "auto" takes seconds
an input with a convolutional network: keep `--auto_images` small, or set
`--estimators=roma`. `--require` refers to each estimator's plr at the last epoch and
`--epsilon`.
"""

import functools
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from common import (
    classifiers,
    datasets,
    define,
    files,
    gate,
    hosts,
    journals,
    startup,
    timing,
)
from matplotlib.figure import Figure
from roma_2022 import figures, findings, hic, results
from roma_2022.results import CATEGORIES, Timed, by_category, category

import jaxrob
from jaxrob import data, roma


class _Setting(NamedTuple):
    """The usual settings of a data set; the paper's epsilon is for CIFAR-10."""

    epochs: int
    epsilon: float
    epsilons: tuple[str, ...]


_SETTINGS = {
    "digits": _Setting(10, 0.8, ("0.4", "0.6", "0.8", "1.2")),
    "mnist": _Setting(3, 0.2, ("0.1", "0.2", "0.3", "0.4", "0.6")),
    "cifar10": _Setting(24, 0.04, ("0.01", "0.02", "0.04", "0.06", "0.08", "0.1")),
}

_DATASET = define.dataset(*_SETTINGS)
_DATA_DIR = define.data_dir()
_NETWORK = define.network(
    (*classifiers.GENERAL, "vgg16"),
    "mlp",
    "Network; vgg16, the paper's, is for cifar10.",
)
_EPOCHS = define.epochs_or_usual()
_CHECKPOINTS = flags.DEFINE_integer(
    "checkpoints", 3, "Epochs that are assessed, evenly spread to the last one.", 1
)
_NUM_TRAIN = define.num_train(60000)
_NUM_IMAGES = define.num_images(50, "Test images at most, evenly picked.")
_EPSILON = flags.DEFINE_float(
    "epsilon", None, "Radius of experiments 2 and 3; by default for the data set.", 0
)
_EPSILONS = define.epsilons([], "Radii of experiment 1; by default for the data set.")
_DELTA = define.delta()
_SAMPLES = define.num_samples(1000)
_ESTIMATORS = define.estimators(["roma", "auto"])
_AUTO_IMAGES = flags.DEFINE_integer(
    "auto_images", None, "Of the images, those for auto at most; by default all.", 1
)
_SEED = define.seed()
_OUTPUT = define.output("results/roma")
_PROGRESS = define.progress()
_requirements = gate.define_require("plr", "plr.low")


# Maps an epoch, an epsilon and an estimator to its result.
_Assess = Callable[[int, float, str], Timed]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    if _NETWORK.value == "vgg16" and _DATASET.value != "cifar10":
        raise app.UsageError(f"vgg16 needs images of 32x32; not {_DATASET.value}")
    setting = _SETTINGS[_DATASET.value]
    epochs = _EPOCHS.value or setting.epochs
    epsilon = _EPSILON.value or setting.epsilon
    epsilons = sorted(float(text) for text in _EPSILONS.value or setting.epsilons)

    whole = data.load(_DATASET.value, "test", _DATA_DIR.value)
    networks_at = _checkpoints(epochs)
    accuracy = {
        epoch: classifiers.clean_accuracy(classifier, whole)
        for epoch, classifier in networks_at.items()
    }
    test_set = datasets.evenly_picked(whole, _NUM_IMAGES.value)
    print(
        f"{_title()}: accuracy {accuracy[epochs]:.2%} after {epochs} epochs; "
        f"{len(test_set)} images assessed, delta {_DELTA.value:g}, "
        f"n {_SAMPLES.value}, on {jax.devices()[0].device_kind}"
    )
    assess = functools.cache(functools.partial(_assess, networks_at, test_set))

    print("\nexperiment 1, over epsilon (seconds include what is compiled)")
    queries = [(epochs, value) for value in epsilons]
    over_epsilon, first = _over(assess, queries, "epsilon")
    print(f"\nexperiment 2, over training epochs, epsilon {epsilon:g}")
    queries = [(epoch, epsilon) for epoch in networks_at]
    over_epochs, second = _over(assess, queries, "epoch")
    for row in second:
        # In float32, as in files of earlier runs, which compare byte for byte.
        row["accuracy"] = float(np.float32(accuracy[row["epoch"]]))
    found = {name: assess(epochs, epsilon, name) for name in _ESTIMATORS.value}
    class_names = datasets.class_names(test_set)
    third = {by: _by_category(found, class_names, epsilon, by) for by in CATEGORIES}

    classifier = networks_at[epochs]
    answers = _answers(over_epsilon, over_epochs, found, class_names)
    answers += _costs(classifier, over_epsilon, over_epochs, whole)
    print("\n" + "\n".join(answers))

    drawn = _figures(first, second, classifier, test_set, found, epsilon)
    title = f"Adv by category, ε = {epsilon:g}"
    kinds = {
        kind: by_category(found, class_names, by) for by, kind in CATEGORIES.items()
    }
    drawn["categories"] = figures.categories(kinds, title)
    document = {
        "dataset": _DATASET.value,
        "model": _NETWORK.value,
        "seed": _SEED.value,
        "num_images": len(test_set),
        "num_samples": _SAMPLES.value,
        "delta": _DELTA.value,
        "epsilon": epsilon,
        "over epsilon": first,
        "over epochs": second,
        **{
            f"by category, {kind}": {
                name: results.category_document(one) for name, one in third[by].items()
            }
            for by, kind in CATEGORIES.items()
        },
        "answers": answers,
    }
    _write(document, found, drawn)
    gate.require(_requirements(), {name: one for name, (one, *_) in found.items()})


def _title() -> str:
    return f"{_DATASET.value}-{_NETWORK.value}"


def _keys() -> jax.Array:
    """Returns the keys of the training (there), the assessments and the figures."""
    return jax.random.split(jax.random.key(_SEED.value), 3)


def _checkpoints(epochs: int) -> dict[int, jaxrob.Classifier]:
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    count = min(_CHECKPOINTS.value, epochs)
    return classifiers.at_epochs(
        _NETWORK.value,
        datasets.evenly_picked(train_set, _NUM_TRAIN.value),
        [epochs * (i + 1) // count for i in range(count)],
        pathlib.Path(_OUTPUT.value, "networks"),
        _SEED.value,
        _DATASET.value,
        _PROGRESS.value,
    )


def _assess(
    networks_at: Mapping[int, jaxrob.Classifier],
    test_set: jaxrob.Dataset,
    epoch: int,
    epsilon: float,
    estimator: str,
) -> Timed:
    inputs = np.arange(len(test_set))
    if estimator == "auto" and _AUTO_IMAGES.value is not None:
        inputs = inputs[:: -(-len(inputs) // _AUTO_IMAGES.value)]
    journal = journals.path(f"{_title()}-{epoch}-{epsilon:g}-{estimator}")
    is_new = journal is None or not journal.exists()
    start = time.perf_counter()
    result = roma.assess(
        networks_at[epoch], test_set.images[inputs], test_set.labels[inputs],
        epsilon=epsilon, delta=_DELTA.value, num_samples=_SAMPLES.value,
        estimator=estimator, budget=math.inf, key=_keys()[1], journal=journal,
        mesh=hosts.mesh(), progress=_PROGRESS.value,
    )  # fmt: skip
    seconds = time.perf_counter() - start if is_new else math.nan
    return Timed(result, seconds, inputs)


def _over(
    assess: _Assess, queries: Sequence[tuple[int, float]], varied: str
) -> tuple[list[findings.Case], list[dict[str, Any]]]:
    print(results.line(varied, "estimator", *results.HEAD))
    cases, rows = [], []
    for query in queries:
        found = {name: assess(*query, name) for name in _ESTIMATORS.value}
        level = query[varied == "epsilon"]
        cases.append(findings.Case(level, found))
        for name, one in found.items():
            rows.append(results.row(*query, name, one, found.get("auto")))
            print(results.row_line(rows[-1], varied), flush=True)
    return cases, rows


def _by_category(
    found: Mapping[str, Timed], class_names: tuple[str, ...], epsilon: float, by: str
) -> dict[str, roma.Categorial]:
    compared = {}
    for name, (result, *_) in found.items():
        counts = result.hits, result.num_samples, category(result, by)
        compared[name] = roma.compare_categories(result.plr, *counts, class_names)
        print(f"\nexperiment 3, {CATEGORIES[by]}, epsilon {epsilon:g}, {name} [%]")
        results.print_categories(compared[name])
    return compared


def _answers(
    over_epsilon: Sequence[findings.Case],
    over_epochs: Sequence[findings.Case],
    found: Mapping[str, Timed],
    class_names: tuple[str, ...],
) -> list[str]:
    answers = ["which findings hold; 95 % intervals over the images, of this training"]
    if len(over_epsilon) > 1:
        answers += findings.over("1", "plr falls with epsilon", over_epsilon)
    answers += findings.answers(over_epsilon)
    if len(over_epochs) > 1:
        claim = "plr rises with training"
        answers += findings.over("2", claim, over_epochs, rises=False)
    if "roma" in found:
        answers += findings.as_drawn(found["roma"].result)
    answers += findings.by_category(found, class_names)
    return answers + findings.against_auto(found)


def _costs(
    classifier: jaxrob.Classifier,
    over_epsilon: Sequence[findings.Case],
    over_epochs: Sequence[findings.Case],
    whole: jaxrob.Dataset,
) -> list[str]:
    some = whole.images[:250]
    one_pass = timing.forward_seconds(classifier, some) / len(some)
    # One query belongs to two experiments.
    every = {}
    for name in _ESTIMATORS.value:
        ones = [case.found[name] for case in (*over_epsilon, *over_epochs)]
        every[name] = list({id(one): one for one in ones}.values())
    return findings.costs(every, one_pass, len(whole))


def _figures(
    first: Sequence[dict[str, Any]],
    second: Sequence[dict[str, Any]],
    classifier: jaxrob.Classifier,
    test_set: jaxrob.Dataset,
    found: Mapping[str, Timed],
    epsilon: float,
) -> dict[str, Figure]:
    drawn = {}
    if "roma" in found:
        result, key = found["roma"].result, _keys()[2]
        given = classifier, test_set.images, result, epsilon, _SAMPLES.value, key
        drawn = hic.draw(hic.Query(*given))
    made = {
        "epsilon": figures.curves(first, "epsilon", "plr over epsilon"),
        "epochs": figures.curves(second, "epoch", f"plr over epochs, ε = {epsilon:g}"),
    }
    if drawn:
        made["hic"] = figures.hic(drawn, _DELTA.value)
    return made


def _write(
    document: dict[str, Any], found: Mapping[str, Timed], drawn: Mapping[str, Figure]
) -> None:
    output = files.output_folder(_OUTPUT.value)
    for name, figure in drawn.items():
        figure.savefig(output / f"{_title()}-{name}.png", dpi=110)
    for name, (result, *_) in found.items():
        result.to_json(output / f"{_title()}-{name}.json")
    path = output / f"{_title()}.json"
    files.write_json(path, files.without_nan(document))
    print(f"wrote {path}, and beside it " + ", ".join(f"{name}.png" for name in drawn))


if __name__ == "__main__":
    app.run(main)
