r"""Tables 2 and 3 of the 2024 paper: a plain network and a Bayesian one, undecided.

    python experiments/bnn_tables.py
    python experiments/bnn_tables.py --dataset=mnist --data_dir=... --seeds=5

Trains, for each seed, a perceptron with 79,510 parameters and a Bayesian one with
161,040 (on images of 28 by 28), assesses both at 21 levels of seven alterations, and
prints the robustness without and with unknown answers beside the paper's, the answers
to the paper's questions with 95 % intervals over the seeds, and how far unknown answers
are the wrong ones. A second table explains what differs from the paper, by readings of
its alterations and by networks trained as its authors trained theirs; a third one, on
request, shows what the prior does. Writes the numbers as JSON, and two figures of the
first seed: the measures over the level, and the most uncertain images.
"""

import dataclasses
import json
import time

import gate
import hosts
import jax
import jax.numpy as jnp
import journals
import numpy as np
import optax
import startup
from absl import app, flags
from flax import linen as nn
from jax.flatten_util import ravel_pytree
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
_PRIOR_SCALES = flags.DEFINE_multi_float(
    "prior_scales", [], "Further prior scales to be tried, on the first seed."
)
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

# The rows that are measured, with short names.
_ROWS = {
    "MLP": "MLP",
    "BNN": "BNN",
    "BNN, unknown": "unknown",
    "against indecision": "indecision",
    "augmented": "augmented",
}
_requirements = gate.define_require(*_ROWS.values())


def main(argv):
    startup.start(argv)
    output = hosts.output(_OUTPUT.value)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    rows, explained, their_accuracy = [], [], []
    for seed in range(_SEEDS.value):
        found = _one_seed(seed, train_set, test_set)
        rows.append(found["robustness"])
        explained.append(found["explained"])
        their_accuracy.append(found["their_accuracy"])
        if seed == 0:
            first = found
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    print(f"\nmean of {_SEEDS.value} seeds [%], the paper's in the line below it")
    print(f"{'':20}" + "".join(f"{name:>8}" for name in (*_SHORT, "mean")))
    for name, values in means.items():
        print(_line(name, 100 * values))
        if name in _PAPER:
            print(_line("  paper", _PAPER[name]))
    _print_explained(explained)
    priors = _priors(train_set, test_set)
    answers = _answers(rows) + [_their_answer(explained)] + _odds(first["bnn"])
    print("\n" + "\n".join(answers))
    document = {
        "dataset": _DATASET.value,
        "num_images": len(test_set),
        "accuracy": first["accuracy"],
        "their_accuracy": their_accuracy,
        "robustness": [
            {name: list(values) for name, values in row.items()} for row in rows
        ],
        "explained": explained,
        "priors": priors,
        "answers": answers,
    }
    (output / "tables.json").write_text(json.dumps(document, indent=1))
    _measures_figure(first["bnn"]).savefig(output / "measures.png", dpi=110)
    _uncertain_figure(first["bnn"], test_set).savefig(
        output / "uncertain.png", dpi=110, bbox_inches="tight"
    )
    print(f"wrote {output / 'tables.json'}, measures.png and uncertain.png")
    gate.require(
        _requirements(),
        {
            column: {short: means[name][i] for name, short in _ROWS.items()}
            for i, column in enumerate(_SHORT)
        },
    )


def _one_seed(seed, train_set, test_set):
    """Both networks' curves and robustness, for one seed, and theirs."""
    key, mlp_key, bnn_key = _keys(seed)
    start = time.perf_counter()
    mlp = training.fit(
        networks.MLP(num_classes=len(train_set.class_names)),
        train_set,
        key=mlp_key,
        epochs=_EPOCHS.value,
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    middle = time.perf_counter()
    bnn = _bayesian(train_set, bnn_key, _PRIOR_SCALE.value)
    end = time.perf_counter()
    rows, accuracy, curves = _assess(
        mlp, bnn, _alterations(), test_set, key, f"seed{seed}"
    )
    print(
        f"seed {seed}: MLP {accuracy['MLP']:.2%} in {middle - start:.0f} s, BNN "
        f"{accuracy['BNN']:.2%} ({accuracy['unknown']:.2%} of the "
        f"{accuracy['decided']:.1%} decided) in {end - middle:.0f} s"
    )
    readings = [reading for _, reading in _READINGS]
    read, _, _ = _assess(mlp, bnn, readings, test_set, key, f"seed{seed}")
    theirs = (_their_mlp(train_set, mlp_key), _their_bnn(train_set, bnn_key))
    # Each column as the last of its readings has it.
    closest = dict(zip(_SHORT, _alterations())) | dict(_READINGS)
    trained, their_accuracy, _ = _assess(
        *theirs, list(closest.values()), test_set, key, f"seed{seed}-theirs"
    )
    print(
        f"        trained as theirs: MLP {their_accuracy['MLP']:.2%}, BNN "
        f"{their_accuracy['BNN']:.2%} ({their_accuracy['unknown']:.2%} of the "
        f"{their_accuracy['decided']:.1%} decided)"
    )
    explained = []
    for i, column in enumerate(_SHORT):
        explained.append((column, "as in the table above", _column(rows, i)))
        for j, (of, reading) in enumerate(_READINGS):
            if of == column:
                explained.append((column, reading.name, _column(read, j)))
        what = f"that, {_THEIRS}" if column in dict(_READINGS) else _THEIRS
        explained.append((column, what, _column(trained, i)))
    gains = {
        f"gain over {over}": rows["BNN, unknown"] - rows[over]
        for over in ("MLP", "BNN")
    }
    return {
        "accuracy": accuracy,
        "robustness": rows | gains,
        "explained": explained,
        "their_accuracy": their_accuracy,
        "bnn": curves,
    }


def _keys(seed):
    """Of the assessment, the plain network and the Bayesian one."""
    return jax.random.split(jax.random.key(seed), 3)


def _bayesian(train_set, key, prior_scale):
    return bayes.fit(
        networks.MLP(num_classes=2 * len(train_set.class_names)),
        train_set,
        key=key,
        num_samples=_SAMPLES.value,
        head="heteroscedastic",
        epochs=_BNN_EPOCHS.value,
        prior_scale=prior_scale,
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )


def _assess(mlp, bnn, some, test_set, key, name):
    """Rows of the paper's tables, nominal values, curves with unknown answers."""
    plain = _curves(mlp, some, test_set, key, f"{name}-mlp")
    rows, nominal, unknown = _assess_bayesian(bnn, some, test_set, key, f"{name}-bnn")
    rows = {"MLP": _robustness(plain, some, "accuracy")} | rows
    nominal["MLP"] = float(_at_identity(plain[0], plain[0].accuracy, some[0]))
    return rows, nominal, unknown


def _assess_bayesian(bnn, some, test_set, key, name):
    curves = _curves(bnn, some, test_set, key, name)
    unknown = [curve.with_unknown(_ALPHA.value) for curve in curves]
    rows = {
        "BNN": _robustness(curves, some, "accuracy"),
        "BNN, unknown": _robustness(unknown, some, "accuracy"),
        "against indecision": _robustness(unknown, some, "decided_ratio"),
        "augmented": _robustness(unknown, some, "effectiveness"),
    }
    plain, curve = curves[0], unknown[0]
    nominal = {
        "BNN": float(_at_identity(plain, plain.accuracy, some[0])),
        "unknown": float(_at_identity(curve, curve.accuracy, some[0])),
        "decided": float(1 - _at_identity(curve, curve.indecision, some[0])),
    }
    return rows, nominal, unknown


def _curves(classifier, some, test_set, key, name):
    return [
        jaxrob.evaluate(
            classifier,
            test_set,
            alteration,
            _levels(alteration),
            key=key,
            journal=journals.path(f"{_DATASET.value}-{name}"),
            mesh=hosts.mesh(),
            progress=_PROGRESS.value,
        )
        for alteration in some
    ]


def _column(rows, i):
    return {name: float(rows[name][i]) for name in _ROWS}


def _print_explained(explained):
    print(f"\nmedian of {_SEEDS.value} seeds [%]")
    print(f"{'':48}" + "".join(f"{name:>11}" for name in _ROWS.values()))

    def line(column, what, values):
        numbers = "".join(f"{value:11.2f}" for value in values)
        print(f"{column:4}{what:44}{numbers}")

    last = None
    for i, (column, what, _) in enumerate(explained[0]):
        if column != last:
            here = _SHORT.index(column)
            line(column, "the paper", [_PAPER[name][here] for name in _ROWS])
        last = column
        of_seeds = [[found[i][2][name] for name in _ROWS] for found in explained]
        line("", what, 100 * np.median(of_seeds, axis=0))


def _priors(train_set, test_set):
    """What the prior's scale does to the Bayesian network of the first seed."""
    found = {}
    key, _, bnn_key = _keys(0)
    for scale in _PRIOR_SCALES.value:
        bnn = _bayesian(train_set, bnn_key, scale)
        rows, nominal, _ = _assess_bayesian(
            bnn, _alterations(), test_set, key, f"prior{scale:g}"
        )
        print(
            f"\nprior scale {scale:g}: {nominal['BNN']:.2%} right, "
            f"{nominal['unknown']:.2%} of the {nominal['decided']:.1%} decided"
        )
        for name, values in rows.items():
            print(_line(name, 100 * values))
        found[scale] = nominal | {name: list(values) for name, values in rows.items()}
    return found


def _alterations():
    presets = alterations.presets.bnn_2024()
    by_name = {alteration.name: alteration for alteration in presets}
    # The order of the paper's tables.
    names = ("gaussian noise", "gaussian blur", "brightness", "horizontal translation")
    names += ("vertical translation", "jpeg compression", "zoom")
    return tuple(by_name[name] for name in names)


def _noise_by_deviation(image, level, key):
    return alterations.gaussian_noise(0.0, 0.2)(image, level**2, key)


def _coded_as_floats(image, level):
    coded = alterations.jpeg_compression()(jnp.round(image) / 255, level) * 255
    return jnp.where(level == 0, image, jnp.clip(coded, 0, 1))


# What the paper's authors may have done, by column; the last of each comes closest.
_READINGS = (
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
        "GN",
        dataclasses.replace(
            alterations.gaussian_noise(0.0, 0.2, clip=False),
            name="not clipped to [0, 1]",
        ),
    ),
    (
        "JC",
        jaxrob.Alteration(
            "a codec that rounds pixels in [0, 1]", _coded_as_floats, 0.0, 100.0
        ),
    ),
)

# The rest is from drafts of the first author's master's thesis, which has the same
# tables (W. Essbai, 2023, github.com/wasim-essbai/MasterThesis): 40,000 images, 15
# epochs of RMSprop at PyTorch's defaults, and the library torchbnn.
_THEIRS = "trained as theirs"
_THEIR_EPOCHS = 15
_THEIR_OPTIMIZER = optax.rmsprop(1e-2, decay=0.99, eps=1e-8, eps_in_sqrt=False)
_THEIR_BATCH = 128
# Not in the thesis but usual with torchbnn: the standard deviation of the prior, and
# the weight of the divergence from it, averaged over the weights. With 80,000 weights
# and 40,000 images that is a 200th of what the ELBO has.
_THEIR_PRIOR_SCALE = 0.1
_THEIR_DIVERGENCE_WEIGHT = 0.01


def _theirs(train_set):
    return train_set[: len(train_set) * 2 // 3]


class _SoftmaxTwice(nn.Module):
    """A perceptron whose cross-entropy takes its probabilities for logits."""

    num_classes: int

    @nn.compact
    def __call__(self, images, train=False):
        return nn.softmax(networks.MLP(num_classes=self.num_classes)(images))


def _their_mlp(train_set, key):
    return training.fit(
        _SoftmaxTwice(len(train_set.class_names)),
        _theirs(train_set),
        key=key,
        epochs=_THEIR_EPOCHS,
        batch_size=_THEIR_BATCH,
        optimizer=_THEIR_OPTIMIZER,
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )


def _their_bnn(train_set, key):
    """Independent normals of all weights, by a tempered ELBO; each host by itself."""
    train_set = _theirs(train_set)
    images, labels = jnp.asarray(train_set.images), jnp.asarray(train_set.labels)
    images = images / 255 if images.dtype == jnp.uint8 else images
    module = networks.MLP(num_classes=len(train_set.class_names))
    key, init_key, draw_key = jax.random.split(key, 3)
    location, unravel = ravel_pytree(module.init(init_key, images[:1]))
    # Means, and logarithms of the standard deviations in units of the prior's.
    variational = location, jnp.zeros_like(location)

    def draw(variational, key):
        location, log_scale = variational
        noise = jnp.exp(log_scale) * jax.random.normal(key, location.shape)
        return unravel(location + _THEIR_PRIOR_SCALE * noise)

    def loss(variational, chosen, key):
        logits = module.apply(draw(variational, key), images[chosen])
        wrong = optax.softmax_cross_entropy_with_integer_labels(logits, labels[chosen])
        location, log_scale = variational
        squares = jnp.exp(2 * log_scale) + (location / _THEIR_PRIOR_SCALE) ** 2
        divergence = (squares - 1) / 2 - log_scale
        return wrong.mean() + _THEIR_DIVERGENCE_WEIGHT * divergence.mean()

    def step(carry, batch):
        variational, state = carry
        gradient = jax.grad(loss)(variational, *batch)
        updates, state = _THEIR_OPTIMIZER.update(gradient, state)
        return (optax.apply_updates(variational, updates), state), None

    @jax.jit
    def epoch(carry, key):
        order_key, noise_key = jax.random.split(key)
        steps = len(labels) // _THEIR_BATCH
        order = jax.random.permutation(order_key, len(labels))[: steps * _THEIR_BATCH]
        batches = order.reshape(steps, _THEIR_BATCH), jax.random.split(noise_key, steps)
        return jax.lax.scan(step, carry, batches)[0]

    carry = variational, _THEIR_OPTIMIZER.init(variational)
    for epoch_key in jax.random.split(key, _THEIR_EPOCHS):
        carry = epoch(carry, epoch_key)
    draws = jax.random.split(draw_key, _SAMPLES.value)
    return bayes.ensemble(module, [draw(carry[0], each) for each in draws])


def _levels(alteration):
    share = np.arange(_LEVELS.value) / (_LEVELS.value - 1)
    return alteration.snap(alteration.lower * share[::-1] + alteration.upper * share)


def _at_identity(curve, values, alteration):
    """The nominal value; the identity is the range's middle or an end of it."""
    return values[np.abs(curve.levels - alteration.identity).argmin()]


def _robustness(curves, some, measure):
    """Definitions 8, 9 and 11 with linear tolerance, theta = gamma = 0."""
    found = []
    for curve, alteration in zip(curves, some):
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


def _their_answer(explained):
    # The median, for some of the plain networks lose classes in training.
    gain = [
        np.mean([row["BNN"] - row["MLP"] for _, what, row in found if _THEIRS in what])
        for found in explained
    ]
    return (
        f"RQ1  the same, {_THEIRS}: median {100 * np.median(gain):+.2f} (the paper: "
        f"{np.mean(_PAPER['BNN']) - np.mean(_PAPER['MLP']):+.2f})"
    )


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
    figure, panels = plt.subplots(1, 7, figsize=(14, 3.1), layout="constrained")
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
