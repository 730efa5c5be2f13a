r"""Does retraining a Bayesian network with altered images change its indecision?

    python experiments/retraining_bnn.py
    python experiments/retraining_bnn.py --dataset=mnist --num_train=10000 --seeds=3

The 2024 paper's open question. Fits a Bayesian perceptron on the originals and another
on originals and altered copies (the 2020 paper's data augmentation), both with the same
number of images seen. Prints robustness of accuracy, decided ratio and effectiveness
(linear tolerance, theta = gamma = 0) for each alteration, with the differences, and
their 95 % intervals over the seeds where there are several. Writes JSON into the folder
`--output`. On the digits it takes a minute or two a seed on two CPU cores.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import app
from bnn_2024 import measuring
from common import datasets, define, files, intervals, startup

import jaxrob
from jaxrob import alterations, data, metrics, retraining

_DATASET = define.dataset("digits", "mnist")
_DATA_DIR = define.data_dir()
_NUM_TRAIN = define.num_train(10000)
_NUM_IMAGES = define.num_images(1000)
_EPOCHS = define.epochs(60, "Epochs of the originals alone.")
_SAMPLES = define.samples()
_LEVELS = define.levels(21)
_ALPHA = define.alpha()
_SEEDS = define.seeds(1)
_OUTPUT = define.output("results/retraining_bnn")
_PROGRESS = define.progress()

_MEASURES = ("accuracy", "decided_ratio", "effectiveness")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    train_set = train_set[: _NUM_TRAIN.value]
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    seeds = [_one_seed(seed, train_set, test_set) for seed in range(_SEEDS.value)]
    _print_tables(seeds)
    output = files.output_folder(_OUTPUT.value)
    names = [one.name for one in alterations.presets.bnn_2024()]
    document = {"alterations": names, "measures": _MEASURES, "seeds": seeds}
    files.write_json(output / "retraining_bnn.json", document)
    print(f"wrote {output / 'retraining_bnn.json'}")


def _one_seed(
    seed: int, train_set: jaxrob.Dataset, test_set: jaxrob.Dataset
) -> dict[str, Any]:
    key, copy_key, fit_key = jax.random.split(jax.random.key(seed), 3)
    augmented = _with_copies(train_set, copy_key)
    if seed == 0:
        print(f"{len(train_set)} images before, {len(augmented)} after retraining")
    found = {}
    for when, images in (("before", train_set), ("after", augmented)):
        # As many images seen, for sets of any size.
        epochs = max(1, round(_EPOCHS.value * len(train_set) / len(images)))
        how = _SAMPLES.value, epochs, _PROGRESS.value
        classifier = measuring.fit(images, fit_key, *how)
        found[when] = _measure(classifier, test_set, key, f"seed{seed}-{when}")
    return found


def _with_copies(dataset: jaxrob.Dataset, key: jax.Array) -> jaxrob.Dataset:
    """Adds, for each alteration, copies of half of the images at random levels."""
    # Stored, because NumPyro subsamples from arrays.
    originals = datasets.unit_range(np.asarray(dataset.images))
    images, labels = [originals], [dataset.labels]
    for number, one in enumerate(alterations.presets.bnn_2024()):
        keys = jax.random.split(jax.random.fold_in(key, number), 3)
        order_key, level_key, noise_key = keys
        half = jax.random.permutation(order_key, len(dataset))[: len(dataset) // 2]
        rows = np.repeat(np.asarray(half), retraining.copies(one))
        ends = {"minval": one.lower, "maxval": one.upper}
        levels = jax.random.uniform(level_key, (len(rows),), **ends)
        keys = jax.random.split(noise_key, len(rows))
        alter = jax.jit(jax.vmap(one))
        for first in range(0, len(rows), 5000):
            part = slice(first, first + 5000)
            altered = alter(originals[rows[part]], levels[part], keys[part])
            images.append(np.clip(np.asarray(altered), 0, 1))
        labels.append(dataset.labels[rows])
    return jaxrob.Dataset(
        np.concatenate(images), np.concatenate(labels), dataset.class_names
    )


def _measure(
    classifier: jaxrob.Classifier, test_set: jaxrob.Dataset, key: jax.Array, name: str
) -> dict[str, Any]:
    """Returns robustness `[alterations, measures]`, and the clean measures."""
    some = alterations.presets.bnn_2024()
    how = _LEVELS.value, key, f"{_DATASET.value}-{name}", _PROGRESS.value
    curves = measuring.evaluate(classifier, test_set, some, *how)
    curves = [curve.with_unknown(_ALPHA.value) for curve in curves]
    robustness = [measuring.robustness(curves, some, name) for name in _MEASURES]
    first = curves[0]
    values = [metrics.measures[name](first.confusion) for name in _MEASURES]
    unaltered = [measuring.at_identity(first, one, some[0]) for one in values]
    return {"robustness": np.transpose(robustness), "unaltered": unaltered}


def _print_tables(seeds: Sequence[dict[str, Any]]) -> None:
    names = [one.name for one in alterations.presets.bnn_2024()]
    before, after = (
        np.array([seed[when]["robustness"] for seed in seeds])
        for when in ("before", "after")
    )
    for number, measure in enumerate(_MEASURES):
        print(f"\nrobustness of {measure} [%]: before, after, difference")
        for place, name in enumerate(names):
            print(_line(name, before[:, place, number], after[:, place, number]))
        print(_line("mean", before[..., number].mean(1), after[..., number].mean(1)))
    for when in ("before", "after"):
        found = np.mean([seed[when]["unaltered"] for seed in seeds], axis=0)
        words = (f"{m} {v:.2%}" for m, v in zip(_MEASURES, found))
        print(f"unaltered, {when}: {', '.join(words)}")


def _line(name: str, before: np.ndarray, after: np.ndarray) -> str:
    return (
        f"{name:24}{100 * before.mean():8.2f}{100 * after.mean():8.2f}  "
        f"{intervals.in_points(after - before)}"
    )


if __name__ == "__main__":
    app.run(main)
