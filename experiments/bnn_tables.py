r"""Tables 2 and 3 of the 2024 paper: a plain network and a Bayesian one, undecided.

    python experiments/bnn_tables.py
    python experiments/bnn_tables.py --dataset=mnist --data_dir=... --seeds=5

Trains, for each seed, a perceptron with 79,510 parameters and a Bayesian one with
161,040 (on images of 28 by 28), assesses both at 21 levels of seven alterations, and
prints the robustness without and with unknown answers beside the paper's, the answers
to the paper's questions with 95 % intervals over the seeds, and how far unknown answers
are the wrong ones. Writes the numbers as JSON, and two figures of the first seed: the
measures over the level, and the most uncertain images.
"""

import functools
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags, logging
from matplotlib import pyplot as plt
from scipy import stats

import jaxrob
from jaxrob import alterations, bayes, data, metrics, networks, reporting, training

_DATASET = flags.DEFINE_enum("dataset", "digits", ("digits", "mnist"), "Data set.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_SEEDS = flags.DEFINE_integer("seeds", 2, "Networks of each kind.", 1)
_NUM_IMAGES = flags.DEFINE_integer("num_images", 10000, "Test images at most.", 1)
_EPOCHS = flags.DEFINE_integer("epochs", 20, "Training epochs of the plain one.", 1)
_BNN_EPOCHS = flags.DEFINE_integer("bnn_epochs", 20, "Of the Bayesian one.", 1)
_PRIOR_SCALE = flags.DEFINE_float("prior_scale", 1.0, "Of the weights.")
_SAMPLES = flags.DEFINE_integer("samples", 10, "Draws from the posterior, T.", 1)
_LEVELS = flags.DEFINE_integer("levels", 21, "Levels of each alteration.", 2)
_ALPHA = flags.DEFINE_float("alpha", 0.8, "Confidence level of an answer.", 0, 1)
_OUTPUT = flags.DEFINE_string("output", "results/bnn", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")

# The paper's abbreviations, and its table 2 and 3 [%].
_SHORT = ("GN", "B", "BV", "HT", "VT", "JC", "Z")
_PAPER = {
    "MLP": (97.40, 96.01, 99.88, 81.03, 84.12, 62.62, 74.67),
    "BNN": (96.81, 93.31, 99.88, 85.63, 86.25, 62.08, 77.31),
    "BNN, unknown": (98.42, 96.16, 99.97, 89.85, 89.94, 75.33, 79.50),
    "against indecision": (96.24, 91.60, 98.90, 89.93, 90.65, 76.55, 89.01),
    "augmented": (92.17, 85.90, 98.13, 77.91, 78.63, 58.54, 72.09),
    "gain over MLP": (1.02, 0.15, 0.09, 8.82, 5.82, 12.71, 4.83),
}


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments: {argv[1:]}")
    logging.set_verbosity(logging.WARNING)
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    rows = []
    for seed in range(_SEEDS.value):
        found = _one_seed(seed, train_set, test_set)
        rows.append(found["robustness"])
        if seed == 0:
            first = found
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    print(f"\nmean of {_SEEDS.value} seeds [%], the paper's in the line below it")
    print(f"{'':20}" + "".join(f"{name:>8}" for name in (*_SHORT, "mean")))
    for name, values in means.items():
        print(_line(name, 100 * values))
        if name in _PAPER:
            print(_line("  paper", _PAPER[name]))
    answers = _answers(rows) + _odds(first["bnn"])
    for (column, alteration), robustness in zip(_OTHERWISE, first["otherwise"]):
        answers.append(
            f"{column} of the MLP with {alteration.name}: {robustness:.2%} (the paper: "
            f"{_PAPER['MLP'][_SHORT.index(column)]:.2f} %)"
        )
    print("\n" + "\n".join(answers))
    document = {
        "dataset": _DATASET.value,
        "num_images": len(test_set),
        "accuracy": first["accuracy"],
        "robustness": [
            {name: list(values) for name, values in row.items()} for row in rows
        ],
        "answers": answers,
    }
    (output / "tables.json").write_text(json.dumps(document, indent=1))
    _measures_figure(first["bnn"]).savefig(output / "measures.png", dpi=110)
    _uncertain_figure(first["bnn"], test_set).savefig(output / "uncertain.png", dpi=110)
    print(f"wrote {output / 'tables.json'}, measures.png and uncertain.png")


def _one_seed(seed, train_set, test_set):
    """Both networks' curves and robustness, for one seed."""
    key, mlp_key, bnn_key = jax.random.split(jax.random.key(seed), 3)
    start = time.perf_counter()
    num_classes = len(train_set.class_names)
    mlp = training.fit(
        networks.MLP(num_classes=num_classes),
        train_set,
        key=mlp_key,
        epochs=_EPOCHS.value,
        progress=_PROGRESS.value,
    )
    middle = time.perf_counter()
    bnn = bayes.fit(
        networks.MLP(num_classes=2 * num_classes),
        train_set,
        key=bnn_key,
        num_samples=_SAMPLES.value,
        head="heteroscedastic",
        epochs=_BNN_EPOCHS.value,
        prior_scale=_PRIOR_SCALE.value,
        progress=_PROGRESS.value,
    )
    end = time.perf_counter()

    def curves(classifier, some):
        return [
            jaxrob.evaluate(
                classifier,
                test_set,
                alteration,
                _levels(alteration),
                key=key,
                progress=_PROGRESS.value,
            )
            for alteration in some
        ]

    plain, bayesian = curves(mlp, _alterations()), curves(bnn, _alterations())
    otherwise = curves(mlp, [alteration for _, alteration in _OTHERWISE])
    unknown = [curve.with_unknown(_ALPHA.value) for curve in bayesian]
    accuracy = {
        name: float(_at_identity(some[0], some[0].accuracy, _alterations()[0]))
        for name, some in (("MLP", plain), ("BNN", bayesian), ("unknown", unknown))
    }
    print(
        f"seed {seed}: MLP {accuracy['MLP']:.2%} in {middle - start:.0f} s, BNN "
        f"{accuracy['BNN']:.2%} ({accuracy['unknown']:.2%} of decided inputs) in "
        f"{end - middle:.0f} s"
    )
    robustness = {
        "MLP": _robustness(plain, "accuracy"),
        "BNN": _robustness(bayesian, "accuracy"),
        "BNN, unknown": _robustness(unknown, "accuracy"),
        "against indecision": _robustness(unknown, "decided_ratio"),
        "augmented": _robustness(unknown, "effectiveness"),
    }
    for over in ("MLP", "BNN"):
        gain = robustness["BNN, unknown"] - robustness[over]
        robustness[f"gain over {over}"] = gain
    return {
        "accuracy": accuracy,
        "robustness": robustness,
        "otherwise": [
            metrics.tolerance_robustness(
                curve.levels,
                curve.accuracy,
                0.0,
                "linear",
                "linear",
                nominal=accuracy["MLP"],
            )
            for curve in otherwise
        ],
        "bnn": unknown,
    }


def _alterations():
    presets = alterations.presets.bnn_2024()
    by_name = {alteration.name: alteration for alteration in presets}
    # The order of the paper's tables.
    names = ("gaussian noise", "gaussian blur", "brightness", "horizontal translation")
    names += ("vertical translation", "jpeg compression", "zoom")
    return tuple(by_name[name] for name in names)


def _coded_as_floats(image, level):
    coded = alterations.jpeg_compression()(jnp.floor(image) / 255, level) * 255
    return jnp.where(level == 0, image, jnp.clip(coded, 0, 1))


def _noise_by_deviation(image, level, key):
    return alterations.gaussian_noise(0.0, 0.2)(image, level**2, key)


def _cropped_along(axis, image, level):
    size = image.shape[axis]
    # The window that a shift of a tenth either way leaves, as a share of the size.
    window = 0.8
    start = (0.5 - window / 2 + level) * size
    scale = jnp.ones(2).at[axis].set(1 / window)
    shift = jnp.zeros(2).at[axis].set(-start / window)
    moved = jax.image.scale_and_translate(
        image, image.shape, (0, 1), scale, shift, "linear", antialias=False
    )
    return jnp.where(level == 0, image, moved)


# What the paper's authors may have done: the column of its tables, what is different.
_OTHERWISE = (
    (
        "GN",
        jaxrob.Alteration(
            "the level as a standard deviation",
            _noise_by_deviation,
            0.0,
            0.2,
            stochastic=True,
        ),
    ),
    (
        "HT",
        jaxrob.Alteration(
            "only the columns cropped",
            functools.partial(_cropped_along, 1),
            -0.1,
            0.1,
            0.0,
        ),
    ),
    (
        "VT",
        jaxrob.Alteration(
            "only the rows cropped",
            functools.partial(_cropped_along, 0),
            -0.1,
            0.1,
            0.0,
        ),
    ),
    (
        "JC",
        jaxrob.Alteration(
            "a codec that takes pixels in [0, 1] for bytes",
            _coded_as_floats,
            0.0,
            100.0,
        ),
    ),
)


def _levels(alteration):
    share = np.arange(_LEVELS.value) / (_LEVELS.value - 1)
    return alteration.snap(alteration.lower * share[::-1] + alteration.upper * share)


def _at_identity(curve, values, alteration):
    """The nominal value; the identity is the range's middle or an end of it."""
    return values[np.abs(curve.levels - alteration.identity).argmin()]


def _robustness(curves, measure):
    """Definitions 8, 9 and 11 with linear tolerance, theta = gamma = 0: `[7]`."""
    found = []
    for curve, alteration in zip(curves, _alterations()):
        values = metrics.measures[measure](curve.confusion)
        found.append(
            metrics.tolerance_robustness(
                curve.levels,
                values,
                0.0,
                "linear",
                "linear",
                nominal=_at_identity(curve, values, alteration),
            )
        )
    return np.array(found)


def _answers(rows):
    """The paper's questions, with intervals over the seeds."""
    lines = []
    gain = [row["BNN"].mean() - row["MLP"].mean() for row in rows]
    lines.append(f"RQ1  BNN less MLP, mean of alterations: {_interval(gain)}")
    for i, name in enumerate(_SHORT):
        gain = [row["gain over BNN"][i] for row in rows]
        lines.append(f"RQ2  gain by unknown answers, {name}: {_interval(gain)}")
    tau = [
        stats.kendalltau(row["BNN, unknown"], row["augmented"]).statistic
        for row in rows
    ]
    order = {
        name: " ".join(
            _SHORT[i] for i in np.argsort(-np.mean([r[name] for r in rows], 0))
        )
        for name in ("BNN, unknown", "augmented")
    }
    lines.append(
        f"RQ3  order by robustness: {order['BNN, unknown']}; by augmented robustness: "
        f"{order['augmented']}; Kendall's tau {np.mean(tau):.2f}"
    )
    return lines


def _interval(values):
    """The mean with its 95 % interval by Student's t, in points."""
    mean = 100 * np.mean(values)
    if len(values) < 2:
        return f"{mean:+.2f}"
    scale = 100 * stats.sem(values)
    half = scale * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


def _odds(curves):
    """Are unknown answers the wrong ones? At the hardest level of each alteration."""
    lines = []
    for curve, name in zip(curves, _SHORT):
        counts = metrics.unknown_counts(
            curve.predicted, curve.labels, curve.uncertainty, curve.alpha
        )
        hardest = np.argmin((curve.predicted == curve.labels).mean(axis=1))
        found = metrics.odds_ratio(counts[hardest : hardest + 1])
        correct = curve.predicted == curve.labels
        calibration = metrics.expected_calibration_error(curve.confidence, correct)
        area = metrics.aurc(-curve.uncertainty, correct)
        (unknown_wrong, _), (decided_wrong, _) = counts[hardest]
        of_unknown = unknown_wrong / max(counts[hardest, 0].sum(), 1)
        of_decided = decided_wrong / max(counts[hardest, 1].sum(), 1)
        lines.append(
            f"odds {name} at level {curve.levels[hardest]:.3g}: unknown answers would "
            f"be wrong {of_unknown:.1%}, decided ones are {of_decided:.1%}; odds ratio "
            f"{found.ratio[0]:.1f} [{found.low[0]:.1f}, {found.high[0]:.1f}]; "
            f"calibration error {calibration[hardest]:.3f}, area under risk-coverage "
            f"{area[hardest]:.3f}"
        )
    return lines


def _measures_figure(curves):
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for curve, alteration, axes in zip(curves, _alterations(), panels.flat):
        plain = curve.with_unknown(None)
        axes.plot(curve.levels, plain.accuracy, "--", label="accuracy, all decided")
        axes.plot(curve.levels, curve.accuracy, label="accuracy of the decided")
        axes.plot(curve.levels, curve.indecision, label="indecision")
        axes.plot(curve.levels, curve.effectiveness, label="effectiveness")
        axes.set_title(alteration.name, fontsize=10)
        axes.set_xlabel(f"level [{alteration.unit}]" if alteration.unit else "level")
        axes.set_ylim(-0.02, 1.02)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    panels.flat[-1].legend(handles, labels, loc="center")
    panels.flat[-1].set_axis_off()
    return figure


def _uncertain_figure(curves, test_set):
    """For each alteration the most uncertain image, at the level of most indecision."""
    figure, panels = plt.subplots(1, 7, figsize=(14, 2.9), layout="constrained")
    for curve, alteration, axes in zip(curves, _alterations(), panels):
        worst = curve.indecision.argmax()
        image = curve.uncertainty[worst].argmax()
        altered = reporting.examples(
            alteration,
            test_set.images[image],
            curve.levels[worst : worst + 1],
            jax.random.key(0),
        )[0]
        axes.imshow(altered.clip(0, 1), cmap="gray", vmin=0, vmax=1)
        axes.set_title(
            f"{alteration.name}\nlevel {curve.levels[worst]:.3g}: label "
            f"{curve.labels[image]}\nanswer {curve.predicted[worst, image]} with "
            f"p = {curve.confidence[worst, image]:.2f}\n"
            f"uncertainty {curve.uncertainty[worst, image]:.2f}",
            fontsize=8,
        )
        axes.set_axis_off()
    return figure


def _line(name, values):
    return f"{name:20}" + "".join(f"{v:8.2f}" for v in (*values, np.mean(values)))


if __name__ == "__main__":
    app.run(main)
