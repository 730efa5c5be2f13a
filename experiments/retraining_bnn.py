r"""Does retraining a Bayesian network with altered images change its indecision?

    python experiments/retraining_bnn.py
    python experiments/retraining_bnn.py --dataset=mnist --num_train=10000 --seeds=3

The 2024 paper's open question. Fits a Bayesian perceptron on the originals and another
on originals and altered copies (the 2020 paper's data augmentation), both with the same
number of images seen, and prints robustness of accuracy, decided ratio and
effectiveness (linear tolerance, theta = gamma = 0) for each alteration, with the
differences, and their 95 % intervals over the seeds where there are several. Writes
JSON into the folder `--output`.
"""

import json

import hosts
import jax
import jax.numpy as jnp
import journals
import numpy as np
import startup
from absl import app, flags
from scipy import stats

import jaxrob
from jaxrob import alterations, bayes, data, metrics, networks, retraining
from jaxrob._runtime.pixels import unit_range

_DATASET = flags.DEFINE_enum("dataset", "digits", ("digits", "mnist"), "Data set.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_NUM_TRAIN = flags.DEFINE_integer("num_train", 10000, "Training images at most.", 2)
_NUM_IMAGES = flags.DEFINE_integer("num_images", 1000, "Test images at most.", 1)
_EPOCHS = flags.DEFINE_integer("epochs", 60, "Epochs of the originals alone.", 1)
_SAMPLES = flags.DEFINE_integer("samples", 10, "Draws from the posterior.", 1)
_LEVELS = flags.DEFINE_integer("levels", 21, "Levels of each alteration.", 2)
_ALPHA = flags.DEFINE_float("alpha", 0.8, "Confidence level of an answer.", 0, 1)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Pairs of networks.", 1)
_OUTPUT = flags.DEFINE_string("output", "results/retraining_bnn", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")

_MEASURES = ("accuracy", "decided_ratio", "effectiveness")


def main(argv):
    startup.start(argv)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    train_set = train_set[: _NUM_TRAIN.value]
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    chosen = alterations.presets.bnn_2024()
    rows = []
    for seed in range(_SEEDS.value):
        key, copy_key, fit_key = jax.random.split(jax.random.key(seed), 3)
        augmented = _with_copies(train_set, chosen, copy_key)
        sets = {"before": train_set, "after": augmented}
        rows.append(
            {
                when: _measure(
                    images, len(train_set), test_set, fit_key, key, f"seed{seed}-{when}"
                )
                for when, images in sets.items()
            }
        )
    print(f"{len(train_set)} images before, {len(augmented)} after retraining")
    before, after = (
        np.array([row[when]["robustness"] for row in rows])
        for when in ("before", "after")
    )
    for number, measure in enumerate(_MEASURES):
        print(f"\nrobustness of {measure} [%]: before, after, difference")
        for place, one in enumerate(chosen):
            first, second = before[:, place, number], after[:, place, number]
            print(
                f"{one.name:24}{100 * first.mean():8.2f}{100 * second.mean():8.2f}  "
                f"{_interval(second - first)}"
            )
        first, second = before[..., number].mean(1), after[..., number].mean(1)
        print(
            f"{'mean':24}{100 * first.mean():8.2f}{100 * second.mean():8.2f}  "
            f"{_interval(second - first)}"
        )
    for when in ("before", "after"):
        found = np.mean([row[when]["unaltered"] for row in rows], axis=0)
        print(
            f"unaltered, {when}: "
            + ", ".join(f"{m} {v:.2%}" for m, v in zip(_MEASURES, found))
        )
    output = hosts.output(_OUTPUT.value)
    names = [one.name for one in chosen]
    document = {"alterations": names, "measures": _MEASURES, "seeds": rows}
    (output / "retraining_bnn.json").write_text(json.dumps(document, indent=1))
    print(f"wrote {output / 'retraining_bnn.json'}")


def _with_copies(dataset, chosen, key):
    """Originals and, for each alteration, copies of half of them at random levels.

    NumPyro subsamples from arrays: here the copies are stored.
    """
    images = [np.asarray(jax.jit(unit_range)(jnp.asarray(dataset.images)))]
    labels = [dataset.labels]
    for number, one in enumerate(chosen):
        order_key, level_key, noise_key = jax.random.split(
            jax.random.fold_in(key, number), 3
        )
        half = jax.random.permutation(order_key, len(dataset))[: len(dataset) // 2]
        rows = np.repeat(np.asarray(half), retraining.copies(one))
        levels = jax.random.uniform(
            level_key, (len(rows),), minval=one.lower, maxval=one.upper
        )
        keys = jax.random.split(noise_key, len(rows))
        alter = jax.jit(jax.vmap(one))
        for first in range(0, len(rows), 5000):
            part = slice(first, first + 5000)
            altered = alter(images[0][rows[part]], levels[part], keys[part])
            images.append(np.clip(np.asarray(altered), 0, 1))
        labels.append(dataset.labels[rows])
    return jaxrob.Dataset(np.concatenate(images), np.concatenate(labels))


def _measure(train_set, num_originals, test_set, fit_key, key, name):
    """Robustness `[alterations, measures]` of a network fitted to a data set."""
    num_classes = len(test_set.class_names)
    classifier = bayes.fit(
        networks.MLP(num_classes=2 * num_classes),
        train_set,
        key=fit_key,
        num_samples=_SAMPLES.value,
        head="heteroscedastic",
        # As many images seen, whatever the size of the set.
        epochs=max(1, round(_EPOCHS.value * num_originals / len(train_set))),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    robustness, unaltered = [], None
    for one in alterations.presets.bnn_2024():
        share = np.arange(_LEVELS.value) / (_LEVELS.value - 1)
        levels = one.snap(one.lower * share[::-1] + one.upper * share)
        curve = jaxrob.evaluate(
            classifier,
            test_set,
            one,
            levels,
            key=key,
            journal=journals.path(f"{_DATASET.value}-{name}"),
            mesh=hosts.mesh(),
            progress=_PROGRESS.value,
        ).with_unknown(_ALPHA.value)
        nominal = np.abs(curve.levels - one.identity).argmin()
        values = [metrics.measures[name](curve.confusion) for name in _MEASURES]
        robustness.append(
            [
                metrics.tolerance_robustness(
                    curve.levels, each, 0.0, "linear", "linear", nominal=each[nominal]
                )
                for each in values
            ]
        )
        if unaltered is None:
            unaltered = [float(each[nominal]) for each in values]
    return {"robustness": robustness, "unaltered": unaltered}


def _interval(values):
    mean = 100 * np.mean(values)
    if len(values) < 2:
        return f"{mean:+.2f}"
    half = 100 * stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


if __name__ == "__main__":
    app.run(main)
