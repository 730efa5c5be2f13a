r"""Experiments 1 to 3 of Levy and Katz (2022), by their estimator and a better one.

    python experiments/roma_cifar10.py
    python experiments/roma_cifar10.py --dataset=mnist --data_dir=... --num_images=300
    python experiments/roma_cifar10.py --dataset=cifar10 --data_dir=... \
        --model=vgg16 --epochs=200 --num_images=10000

Trains a network, keeping it at several epochs, and assesses the probabilistic local
robustness (plr) of test images with "roma", the paper's Algorithm 1, and with "auto",
whose answers come with intervals: over epsilon (figure 3), over the training epochs
(figure 4) and by category (the table called figure 5), beside what the paper found.
Figures 1 and 2 show the highest incorrect confidences (hic) at an input where they are
normal as drawn, and at one where Box and Cox's transform makes them so. A last figure
compares the two estimators input by input. Tables are printed, and written as JSON with
the figures into the folder `--output`. The networks are kept there, so that another run
does not train again.

On a CPU "auto" takes seconds an input with a convolutional network, most of them where
the probability is below 1e-15: keep `--num_images` small, or ask for
`--estimators=roma --estimators=count`. `--require` is of each estimator's plr at the
last epoch and `--epsilon`.
"""

import dataclasses
import functools
import json
import math
import pathlib
import statistics
import time
from typing import NamedTuple

import gate
import hosts
import jax
import jax.numpy as jnp
import journals
import numpy as np
import startup
import timing
from absl import app, flags
from flax import serialization
from matplotlib import pyplot as plt
from scipy import special, stats

import jaxrob
from jaxrob import data, networks, reporting, roma, training
from jaxrob._runtime.pixels import unit_range


class _Setting(NamedTuple):
    """What suits a data set; the paper's epsilon is for CIFAR-10."""

    epochs: int
    epsilon: float
    epsilons: tuple[str, ...]


_SETTINGS = {
    "digits": _Setting(10, 0.8, ("0.4", "0.6", "0.8", "1.2")),
    "mnist": _Setting(3, 0.2, ("0.1", "0.2", "0.3", "0.4", "0.6")),
    "cifar10": _Setting(20, 0.04, ("0.01", "0.02", "0.04", "0.06", "0.08", "0.1")),
}
_NETWORKS = {"cnn": networks.MnistCNN, "mlp": networks.MLP, "vgg16": networks.VGG16}

_DATASET = flags.DEFINE_enum("dataset", "digits", tuple(_SETTINGS), "Data set.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_MODEL = flags.DEFINE_enum(
    "model", "mlp", tuple(_NETWORKS), "Network; vgg16, the paper's, is for cifar10."
)
_EPOCHS = flags.DEFINE_integer(
    "epochs", None, "Training epochs; by default a number for the data set.", 1
)
_CHECKPOINTS = flags.DEFINE_integer(
    "checkpoints", 3, "Epochs that are assessed, evenly spread to the last one.", 1
)
_NUM_TRAIN = flags.DEFINE_integer("num_train", 60000, "Training images at most.", 1)
_NUM_IMAGES = flags.DEFINE_integer(
    "num_images", 50, "Test images at most, evenly picked.", 1
)
_EPSILON = flags.DEFINE_float(
    "epsilon", None, "Radius of experiments 2 and 3; by default for the data set.", 0
)
_EPSILONS = flags.DEFINE_list(
    "epsilons", None, "Radii of experiment 1; by default for the data set."
)
_DELTA = flags.DEFINE_float("delta", 0.6, "Least confidence of a distinct answer.")
_SAMPLES = flags.DEFINE_integer("num_samples", 1000, "Plain draws an input, n.", 8)
_ESTIMATORS = flags.DEFINE_multi_enum(
    "estimators", ["roma", "auto"], roma.ESTIMATORS, "Estimators side by side."
)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/roma", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")
_requirements = gate.define_require("plr", "plr.low")

# Of the paper, all on CIFAR-10 with VGG16 [%]: plr and its standard deviation by
# category.
_PAPER = {
    "airplane": (99.143, 5.18),
    "automobile": (99.372, 3.86),
    "bird": (97.226, 8.87),
    "cat": (97.112, 8.77),
    "deer": (98.586, 6.25),
    "dog": (97.233, 8.58),
    "frog": (98.524, 6.39),
    "horse": (98.606, 6.09),
    "ship": (98.389, 6.63),
    "truck": (99.390, 4.26),
}
_PAPER_ANSWERED = {"experiment 1": 82.0, "experiment 3": 90.48, "as drawn": 12.82}

# The order of the statuses of "roma" in figures.
_STATUSES = ("normal", "transformed", "failed", "unresolved", "constant")
# Statuses of an answer that is but an upper bound.
_BOUNDS = ("bounded", "incomplete")
# Inputs tried for figures 1 and 2.
_TRIED = 5


def main(argv):
    startup.start(argv)
    if _MODEL.value == "vgg16" and _DATASET.value != "cifar10":
        raise app.UsageError(f"vgg16 needs images of 32x32; not {_DATASET.value}")
    setting = _SETTINGS[_DATASET.value]
    epochs = _EPOCHS.value or setting.epochs
    epsilon = _EPSILON.value or setting.epsilon
    epsilons = [float(text) for text in _EPSILONS.value or setting.epsilons]

    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)
    networks_at = _checkpoints(epochs)
    accuracy = {epoch: _accuracy(c, test_set) for epoch, c in networks_at.items()}
    test_set = test_set[:: -(-len(test_set) // _NUM_IMAGES.value)]
    print(
        f"{_title()}: accuracy {accuracy[epochs]:.2%} after {epochs} epochs; "
        f"{len(test_set)} images assessed, delta {_DELTA.value:g}, "
        f"n {_SAMPLES.value}, on {jax.devices()[0].device_kind}"
    )

    assess = functools.cache(functools.partial(_assess, networks_at, test_set))

    print("\nexperiment 1, over epsilon (seconds include what is compiled)")
    print(_line("epsilon", "estimator", *_COLUMNS))
    first = _rows(assess, [(epochs, value) for value in epsilons], "epsilon")
    print(f"\nexperiment 2, over training epochs, epsilon {epsilon:g}")
    print(_line("epoch", "estimator", *_COLUMNS))
    second = _rows(assess, [(epoch, epsilon) for epoch in networks_at], "epoch")
    for row in second:
        row["accuracy"] = accuracy[row["epoch"]]

    found = {name: assess(epochs, epsilon, name) for name in _ESTIMATORS.value}
    third = {}
    for name, (result, _) in found.items():
        categories = result.categorial(test_set.class_names)
        print(f"\nexperiment 3, by category, epsilon {epsilon:g}, {name} [%]")
        _print_categories(categories)
        third[name] = _categories(categories)

    answers = _answers(first, found, third)
    answers += _against_auto(found) + _costs(networks_at[epochs], test_set, found)
    print("\n" + "\n".join(answers))

    drawn = {}
    if "roma" in found:
        drawn = _draw_hic(networks_at[epochs], test_set, found["roma"][0], epsilon)
    figures = {
        "epsilon": _curves_figure(first, "epsilon", "plr over epsilon"),
        "epochs": _curves_figure(second, "epoch", f"plr over epochs, ε = {epsilon:g}"),
    }
    if drawn:
        figures["hic"] = _hic_figure(drawn)
    if {"roma", "auto"} <= set(found):
        figures["estimators"] = _estimators_figure(found)
    output = hosts.output(_OUTPUT.value)
    for name, figure in figures.items():
        figure.savefig(output / f"{_title()}-{name}.png", dpi=110)
    for name, (result, _) in found.items():
        result.to_json(output / f"{_title()}-{name}.json")
    document = {
        "dataset": _DATASET.value,
        "model": _MODEL.value,
        "seed": _SEED.value,
        "num_images": len(test_set),
        "num_samples": _SAMPLES.value,
        "delta": _DELTA.value,
        "epsilon": epsilon,
        "over epsilon": first,
        "over epochs": second,
        "by category": third,
        "answers": answers,
    }
    path = output / f"{_title()}.json"
    path.write_text(json.dumps(_jsonable(document), indent=1, allow_nan=False))
    print(
        f"wrote {path}, and beside it " + ", ".join(f"{name}.png" for name in figures)
    )
    gate.require(
        _requirements(),
        {name: reporting.quantities(result) for name, (result, _) in found.items()},
    )


def _title():
    return f"{_DATASET.value}-{_MODEL.value}"


def _keys():
    """Keys of the training, of the assessments and of the figures."""
    return jax.random.split(jax.random.key(_SEED.value), 3)


def _checkpoints(epochs):
    """The network at the epochs that are assessed, by epoch; trained if need be."""
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    train_set = train_set[:: -(-len(train_set) // _NUM_TRAIN.value)]
    module = _NETWORKS[_MODEL.value](num_classes=len(train_set.class_names))
    count = min(_CHECKPOINTS.value, epochs)
    chosen = [epochs * (i + 1) // count for i in range(count)]
    folder = pathlib.Path(
        _OUTPUT.value,
        "networks",
        f"{_title()}-seed{_SEED.value}-{len(train_set)}images-{epochs}epochs",
    )
    paths = {epoch: folder / f"{epoch}.msgpack" for epoch in chosen}
    kept = {epoch: hosts.read(path) for epoch, path in paths.items()}

    def keep(epoch, classifier):
        if epoch in paths:
            kept[epoch] = serialization.to_bytes(classifier.variables)
            hosts.write(paths[epoch], kept[epoch])

    if None in kept.values():
        start = time.perf_counter()
        training.fit(
            module,
            train_set,
            key=_keys()[0],
            epochs=epochs,
            batch_size=min(64, len(train_set)),
            on_epoch=keep,
            mesh=hosts.mesh(),
            progress=_PROGRESS.value,
        )
        print(f"trained in {time.perf_counter() - start:.1f} s")
    image = jnp.zeros((1, *train_set.images.shape[1:]))
    like = jax.eval_shape(module.init, jax.random.key(0), image)
    # The same function for all, so that it is compiled once.
    classifier = jaxrob.Classifier.from_linen(module, None)
    return {
        epoch: dataclasses.replace(
            classifier, variables=serialization.from_bytes(like, content)
        )
        for epoch, content in kept.items()
    }


def _accuracy(classifier, test_set):
    @jax.jit
    def predicted(variables, images):
        return classifier.apply_fn(variables, unit_range(images)).argmax(axis=-1)

    right = 0
    for i in range(0, len(test_set), 500):
        part = test_set[i : i + 500]
        right += np.sum(predicted(classifier.variables, part.images) == part.labels)
    return float(right / len(test_set))


def _assess(networks_at, test_set, epoch, epsilon, estimator):
    """The result and the seconds it took."""
    start = time.perf_counter()
    result = roma.assess(
        networks_at[epoch],
        test_set.images,
        test_set.labels,
        epsilon=epsilon,
        delta=_DELTA.value,
        num_samples=_SAMPLES.value,
        estimator=estimator,
        key=_keys()[1],
        journal=journals.path(f"{_title()}-{epoch}-{epsilon:g}-{estimator}"),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    return result, time.perf_counter() - start


_COLUMNS = ("answered", "plr", "Adv", "auto's", "of all", "s", "status")


def _rows(assess, cases, varied):
    """A row for each case, an epoch and an epsilon, and estimator; printed too."""
    rows = []
    for epoch, epsilon in cases:
        for name in _ESTIMATORS.value:
            result, seconds = assess(epoch, epsilon, name)
            statuses, counts = np.unique(result.status, return_counts=True)
            row = {
                "epoch": epoch,
                "epsilon": epsilon,
                "estimator": name,
                "answered": float(result.answered.mean()),
                "plr": _mean(result.plr[result.answered]),
                "plr_all": 1 - _mean(_adversarial(result)),
                "adversarial": _mean(_adversarial(result)[result.answered]),
                "adversarial_all": _mean(_adversarial(result)),
                "seconds": seconds,
                "statuses": dict(zip(statuses.tolist(), counts.tolist())),
            }
            if "auto" in _ESTIMATORS.value:
                other = assess(epoch, epsilon, "auto")[0]
                both = result.answered & other.answered
                row["adversarial_of_auto"] = _mean(_adversarial(other)[both])
            print(
                _line(
                    f"{row[varied]:g}",
                    name,
                    f"{row['answered']:.1%}",
                    _percent(row["plr"]),
                    _short(row["adversarial"]),
                    _short(row.get("adversarial_of_auto", math.nan)),
                    _short(row["adversarial_all"]),
                    f"{seconds:.1f}",
                    ", ".join(f"{k} {v}" for k, v in row["statuses"].items()),
                )
            )
            rows.append(row)
    return rows


def _adversarial(result):
    """1 - plr, counted among the plain draws where there is no answer."""
    counted = result.hits / result.num_samples
    found = np.exp(result.log_adversarial_probability)
    return np.where(result.answered, found, counted)


def _print_categories(categories):
    head = f"{'category':12}{'inputs':>7}{'answered':>9}{'plr':>9}{'std':>7}{'Adv':>9}"
    with_paper = _DATASET.value == "cifar10"
    paper = f"{'plr':>11}{'std':>7}{'Adv':>8} (paper)" if with_paper else ""
    print(head + f"{'95 % interval':>18}{'plr of all':>12}" + paper)
    for i, name in enumerate(categories.names):
        low, high = 100 * categories.interval[i]
        line = (
            f"{name:12}{categories.inputs[i]:7}{categories.answered[i]:9}"
            f"{100 * categories.plr[i]:9.3f}{100 * categories.std[i]:7.2f}"
            f"{100 * categories.adversarial[i]:9.3f}"
            f"{f'{low:.2f} to {high:.2f}':>18}{100 * categories.plr_all[i]:12.3f}"
        )
        if with_paper:
            plr, std = _PAPER[name]
            line += f"{plr:11.3f}{std:7.2f}{100 - plr:8.3f}"
        print(line)


def _categories(categories):
    """What JSON keeps of a table, with the tests of two pairs of categories."""
    found = {
        name: getattr(categories, name)
        for name in ("names", "inputs", "answered", "plr", "interval", "std", "plr_all")
    }
    pairs = [("cat", "truck")] if {"cat", "truck"} <= set(categories.names) else []
    # The pair furthest apart, of categories with a spread to test with.
    plr = np.where(categories.answered < 2, np.nan, categories.plr)
    if np.isfinite(plr).sum() > 1:
        extremes = np.nanargmin(plr), np.nanargmax(plr)
        pairs.append(tuple(categories.names[i] for i in extremes))
    found["pairs"] = []
    for pair in pairs:
        worse, better = (categories.names.index(name) for name in pair)
        found["pairs"].append(
            {
                "categories": pair,
                "adversarial": categories.adversarial[[worse, better]],
                "welch": categories.welch[worse, better],
                "binomial": categories.binomial[worse, better],
            }
        )
    return found


def _answers(first, found, third):
    """What the rows say to the paper's findings, a line each."""
    lines = []
    for name in _ESTIMATORS.value:
        rows = [row for row in first if row["estimator"] == name]
        rows = sorted(rows, key=lambda row: row["epsilon"])
        adversarial = [row["adversarial_all"] for row in rows]
        answered = statistics.mean(row["answered"] for row in rows)
        lines.append(
            f"1  {name}: {answered:.2%} of the queries answered"
            + _paper(name, "experiment 1")
            + f"; Adv of all grows with epsilon in "
            f"{sum(np.diff(adversarial) > 0)} of {len(rows) - 1} steps, from "
            f"{_short(adversarial[0])} to {_short(adversarial[-1])}"
        )
    for name, (result, _) in found.items():
        as_drawn = np.mean(result.status == "normal")
        line = f"3  {name}: {result.answered.mean():.2%} answered"
        line += _paper(name, "experiment 3")
        if name == "roma":
            line += f", {as_drawn:.2%} normal as drawn" + _paper(name, "as drawn")
        lines.append(line)
        for pair in third[name]["pairs"]:
            worse, better = pair["adversarial"]
            ratio = worse / better if better > 0 else math.inf
            lines.append(
                f"3  {name}: Adv of {pair['categories'][0]} / "
                f"{pair['categories'][1]} {_short(worse)} / {_short(better)} = "
                f"{ratio:.3g}"
                + (" (paper: 4.7)" if pair["categories"] == ("cat", "truck") else "")
                + f"; Holm's p: Welch {pair['welch']:.2g}, binomial "
                f"{pair['binomial']:.2g} (paper: below 0.001, uncorrected)"
            )
    return lines


def _paper(name, what):
    return f" (paper: {_PAPER_ANSWERED[what]:g} %)" if name == "roma" else ""


def _against_auto(found):
    """How far "roma" is above "auto", by the size of what "auto" finds."""
    if not {"roma", "auto"} <= set(found):
        return []
    x, y = _both(found)
    lines = []
    for low, high in ((-2, 0), (-4, -2), (-6, -4), (-math.inf, -6)):
        inside = (x >= low) & (x < high)
        if inside.any():
            ratio = 10 ** np.median((y - x)[inside])
            above = np.mean((y - x)[inside] > 0)
            where = f"1e{low:g} to 1e{high:g}" if low > -math.inf else "below 1e-6"
            off = np.mean(np.abs(y - x)[inside] > np.log10(3))
            lines.append(
                f"   roma / auto, {where}: median "
                f"{ratio:.3g}, above for {above:.0%}, off by a factor 3 for {off:.0%} "
                f"of {inside.sum()} inputs"
            )
    return lines


def _both(found):
    """log10 of what "auto" and "roma" find, where neither gives a mere bound."""
    both = _comparable(found)
    return tuple(
        found[name][0].log_adversarial_probability[both] * np.log10(np.e)
        for name in ("auto", "roma")
    )


def _comparable(found):
    one, other = found["roma"][0], found["auto"][0]
    return one.answered & other.answered & ~np.isin(other.status, _BOUNDS)


def _costs(classifier, test_set, found):
    images = jnp.asarray(test_set.images[:250], jnp.float32) / 255
    forward = jax.jit(classifier.apply_fn)

    def run():
        jax.block_until_ready(forward(classifier.variables, images))

    run()
    one = statistics.median(timing.seconds(run) for _ in range(5)) / len(images)
    return [
        f"   {name}: {seconds:.1f} s, {result.evaluations.mean():.0f} forward passes "
        f"an input, which alone take {one * result.evaluations.sum():.1f} s"
        for name, (result, seconds) in found.items()
    ]


class _Drawn(NamedTuple):
    """Confidences at one input, as float64 `[n]`, and how normal they are."""

    index: int
    log_hic: np.ndarray
    boxcox_lambda: float
    statistics: tuple[float, float]  # as drawn and transformed


def _draw_hic(classifier, test_set, result, epsilon):
    """The inputs of figures 1 and 2, each with ten times as many draws.

    Among inputs of the wanted status, those are tried first whose probability is
    highest but below a half; the one shown is the first that is still as wanted with
    so many draws, or else the nearest to it.
    """
    drawn = {}
    for status, transformed in (("normal", 0), ("transformed", 1)):
        log_p = result.log_adversarial_probability
        fit = (result.status == status) & (log_p < math.log(0.5))
        tried = sorted(np.flatnonzero(fit), key=lambda i: -log_p[i])[:_TRIED]
        best = None
        for index in tried:
            one = _draw_one(classifier, test_set, result, epsilon, int(index))
            wanted = one.statistics[transformed]
            if best is None or wanted < best.statistics[transformed]:
                best = one
            if wanted < _NORMAL_BELOW and (
                not transformed or one.statistics[0] >= _NORMAL_BELOW
            ):
                best = one
                break
        if best is not None:
            drawn[status] = best
    return drawn


# The 15 % point of Anderson and Darling's statistic, as Algorithm 1 uses it.
_NORMAL_BELOW = 0.561


def _draw_one(classifier, test_set, result, epsilon, index):
    image = unit_range(jnp.asarray(test_set.images[index]))
    keys = jax.random.split(jax.random.fold_in(_keys()[2], index), 10)
    log_hic = _log_hic(
        classifier,
        roma.ball("linf", epsilon),
        image,
        result.excluded[index],
        keys,
        _SAMPLES.value,
    )
    log_hic = log_hic.reshape(-1)
    # Box-Cox of multiples of hic, which neither lambda nor the test depends on.
    centred = log_hic - log_hic.mean()
    lmbda = roma.boxcox_lambda(centred)
    as_drawn = roma.anderson_darling(jnp.exp(log_hic - log_hic.max()))
    transformed = roma.anderson_darling(roma.boxcox(centred, lmbda))
    return _Drawn(
        index,
        np.asarray(log_hic, float),
        float(lmbda),
        (float(as_drawn.statistic), float(transformed.statistic)),
    )


@functools.partial(jax.jit, static_argnames="num_samples")
def _log_hic(classifier, ball, image, excluded, keys, num_samples):
    """Logarithms of the highest incorrect confidences (section 3.2)."""

    def some(key):
        perturbed = jax.vmap(lambda key: ball.perturbed(image, ball.draw(key, image)))(
            jax.random.split(key, num_samples)
        )
        log_p = classifier.log_probabilities(perturbed)[0]
        is_excluded = jnp.arange(log_p.shape[-1]) == excluded
        return jnp.where(is_excluded, -jnp.inf, log_p).max(axis=-1)

    return jax.lax.map(some, keys)


def _hic_figure(drawn):
    """Figures 1 and 2: histograms with the normal distribution fitted to them."""
    panels = []
    if "normal" in drawn:
        panels.append(("normal as drawn", drawn["normal"], False))
    if "transformed" in drawn:
        panels.append(("not normal as drawn", drawn["transformed"], False))
        panels.append(("the same after Box-Cox", drawn["transformed"], True))
    width = 4.2 * len(panels)
    figure, axes = plt.subplots(
        1, len(panels), figsize=(width, 3.6), layout="constrained", squeeze=False
    )
    for axis, (title, one, transformed) in zip(axes[0], panels):
        values, bound = np.exp(one.log_hic), _DELTA.value
        label = "hic"
        if transformed:
            values = special.boxcox(values, one.boxcox_lambda)
            bound = special.boxcox(bound, one.boxcox_lambda)
            label = f"Box-Cox of hic, λ = {one.boxcox_lambda:.3f}"
        mean, std = values.mean(), values.std(ddof=1)
        score = (bound - mean) / std
        axis.hist(values, 60, density=True, color="tab:blue", alpha=0.6)
        low, high = values.min(), max(values.max(), bound)
        grid = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 400)
        density = stats.norm.pdf(grid, mean, std)
        axis.plot(grid, density, "tab:green", lw=2, label="normal, fitted")
        axis.axvline(bound, color="tab:red", ls="--", label=f"δ = {_DELTA.value:g}")
        axis.set(xlabel=label, yticks=[])
        axis.set_title(
            f"{title} (input {one.index})\nA² = {one.statistics[transformed]:.2f}, "
            f"z = {score:.2f}, Adv = {_short(stats.norm.sf(score))}, "
            f"drawn {_short(np.mean(one.log_hic > math.log(_DELTA.value)))}",
            fontsize=9,
        )
    axes[0, 0].legend(fontsize=8)
    axes[0, 0].set_ylabel(f"density of {len(one.log_hic):,} draws")
    return figure


def _curves_figure(rows, varied, title):
    """Figures 3 and 4, and what became of the queries."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for number, name in enumerate(_ESTIMATORS.value):
        some = _sorted(rows, name, varied)
        x, colour = [row[varied] for row in some], f"C{number}"
        label = name
        if min(row["answered"] for row in some) < 1:
            label = f"{name}, failures counted"
            answered = [100 * row["plr"] for row in some]
            left.plot(x, answered, "x:", color=colour, label=f"{name}, answered only")
        y = [100 * row["plr_all"] for row in some]
        left.plot(x, y, "o-", color=colour, label=label)
    left.set(xlabel=varied, ylabel="mean plr [%]", title=title)
    left.set_xticks([row[varied] for row in some])
    left.ticklabel_format(axis="y", useOffset=False)
    left.legend()
    name = "roma" if "roma" in _ESTIMATORS.value else _ESTIMATORS.value[0]
    some = _sorted(rows, name, varied)
    seen = [status for row in some for status in row["statuses"]]
    bottom = np.zeros(len(some))
    for status in sorted(set(seen), key=lambda status: (_order(status), status)):
        height = np.array([row["statuses"].get(status, 0) for row in some])
        height = 100 * height / [sum(row["statuses"].values()) for row in some]
        places = range(len(some))
        right.bar(places, height, 0.7, bottom, label=status)
        bottom += height
    right.set_xticks(range(len(some)), [f"{row[varied]:g}" for row in some])
    right.set(xlabel=varied, ylabel="inputs [%]", title=f"answers of {name}")
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _sorted(rows, name, varied):
    some = (row for row in rows if row["estimator"] == name)
    return sorted(some, key=lambda row: row[varied])


def _order(status):
    return _STATUSES.index(status) if status in _STATUSES else len(_STATUSES)


def _estimators_figure(found):
    """The paper's estimate over the better one, an input a point."""
    x, y = _both(found)
    status = found["roma"][0].status[_comparable(found)]
    figure, axis = plt.subplots(figsize=(5.2, 4.8), layout="constrained")
    lowest = min([*x, *y, -3.0])
    axis.plot([lowest, 0], [lowest, 0], "k-", lw=0.8, label="equal")
    for name, marker in (("normal", "s"), ("transformed", "o")):
        those = status == name
        if those.any():
            label = f"roma, {name}"
            axis.plot(x[those], y[those], marker, ms=4, alpha=0.6, label=label)
    axis.set(
        xlabel="log10 probability by auto",
        ylabel="log10 probability by roma",
        title="distinct misclassification, by input",
    )
    axis.legend()
    return figure


def _mean(values):
    return float(values.mean()) if len(values) else math.nan


def _percent(value):
    return "-" if math.isnan(value) else f"{value:.3%}"


def _short(probability):
    if math.isnan(probability):
        return "-"
    return f"{probability:.4f}" if probability >= 1e-3 else f"{probability:.1e}"


def _line(varied, estimator, *cells):
    widths = (9, 10, 10, 10, 10, 8)
    right = "".join(cell.rjust(width) for cell, width in zip(cells, widths))
    return f"{varied:>8} {estimator:10}{right}  {cells[-1]}"


def _jsonable(value):
    """NaN becomes None, arrays lists."""
    if isinstance(value, dict):
        return {name: _jsonable(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_jsonable(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


if __name__ == "__main__":
    app.run(main)
