r"""Draws the pictures of the explanations with the library itself.

    python docs/figures.py
    python docs/figures.py FOLDER

Writes SVG files into `docs/figures`, or the folder given. The same versions give the
same files. All pictures use the embedded digits.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import jaxrob
from jaxrob import alterations, bayes, data, metrics, networks, reporting, training
from jaxrob.alterations.presets import SEVERITIES
from jaxrob.strategies import ASAP, History, Task, Uniform

_LINE, _ACCEPTED, _THRESHOLD, _OTHER = "#1f4e79", "#2a9d5c", "#c0392b", "#e08e0b"
_GREY = "0.45"
_KEY = jax.random.key(0)


def main(folder: pathlib.Path) -> None:
    """Draws all pictures."""
    matplotlib.use("agg")
    # By default the identifiers in an SVG file are random, and it holds today's date.
    matplotlib.rcParams |= {"svg.hashsalt": "jaxrob", "font.size": 9}
    train, test = data.digits("train"), data.digits("test")
    classifier = training.fit(networks.MLP(), train, key=jax.random.key(0), epochs=20)
    pictures = {
        "robustness": robustness(classifier, test),
        "asap-rounds": asap_rounds(),
        "two-errors": two_errors(classifier, test),
        "unknown": unknown(train, test),
        "roma-scores": roma_scores(classifier, test),
        "corruptions": corruptions(test),
    }
    for name, figure in pictures.items():
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        print(f"wrote {path}")


def robustness(classifier: jaxrob.Classifier, test: jaxrob.Dataset) -> Figure:
    """Draws a curve with its accepted part, and that of another threshold."""
    zoom = alterations.zoom(1.0, 2.0)
    result = jaxrob.assess(classifier, test, zoom, strategy=Uniform(65))
    figure = plt.figure(figsize=(8, 3.3), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.15, 1))
    top, bottom = left.subplots(2, 1, height_ratios=(5, 1))
    reporting.plot(result, top)
    end = result.accepted[0].end
    top.annotate(
        "",
        (zoom.lower, 0.1),
        (end, 0.1),
        arrowprops={"arrowstyle": "<->", "color": _ACCEPTED},
    )
    top.text((zoom.lower + end) / 2, 0.14, "accepted", color=_ACCEPTED, ha="center")
    levels = np.linspace(zoom.lower, zoom.upper, 7)
    strip = reporting.examples(zoom, test.images[3], levels, _KEY)
    strip = np.pad(strip, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=1)
    bottom.imshow(np.concatenate(list(strip), axis=1), cmap="gray", vmin=0, vmax=1)
    bottom.set_axis_off()
    axes = right.subplots()
    thresholds = np.linspace(0, 1, 201)
    shares = [
        metrics.heaviside_robustness(result.levels, result.values, some, "linear")
        for some in thresholds
    ]
    axes.plot(thresholds, shares, color=_LINE)
    axes.axvline(result.threshold, color=_THRESHOLD, linestyle="--", linewidth=1)
    axes.set(xlabel="threshold", ylabel="robustness", ylim=(0, 1.02), xlim=(0, 1))
    axes.set_title("the same curve, other thresholds", fontsize=10)
    return figure


def _accuracy(level: np.ndarray) -> np.ndarray:
    """Returns a made-up accuracy that falls through 0.8 at 0.6 of the range."""
    return 0.97 - 0.75 * np.square(level) / (np.square(level) + 1.2234)


def corruptions(test: jaxrob.Dataset) -> Figure:
    """Draws a digit under common corruptions, also between the severities."""
    of = alterations.corruptions
    some = (of.impulse_noise(), of.glass_blur(), of.fog())
    levels = np.linspace(0, 5, 11)
    figure, rows = plt.subplots(
        len(some), len(levels), figsize=(8, 2.5), layout="constrained"
    )
    for axes, corruption in zip(rows, some):
        shown = reporting.examples(corruption, test.images[3], levels, _KEY)
        for panel, picture in zip(axes, shown):
            panel.imshow(picture, cmap="gray", vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
        axes[0].set_ylabel(corruption.name.replace(" ", "\n"), rotation=0, ha="right")
    for panel, level in zip(rows[0], levels):
        panel.set_title(f"{level:g}", weight="bold" if level in SEVERITIES else None)
    figure.suptitle("severity", fontsize=9)
    return figure


def asap_rounds() -> Figure:
    """Draws the first rounds of Algorithm 1 on an exact curve, with its parabolas."""
    concavity, rounds = 2.0, 4
    task = Task(0.0, 1.0, 0.8)
    strategy = ASAP(n=64, concavity=concavity)
    figure, panels = plt.subplots(
        1, rounds, figsize=(9, 2.7), layout="constrained", sharey=True
    )
    history = History()
    fine = np.linspace(0, 1, 400)
    for number, axes in enumerate(panels, 1):
        asked = [one.level for one in strategy.ask(task, history, history)[0]]
        new = np.setdiff1d(asked, history.levels)
        levels = np.sort(np.append(history.levels, new))
        history = History(levels, _accuracy(levels), rounds=number)
        axes.plot(fine, _accuracy(fine), color=_GREY, linewidth=0.8, linestyle=":")
        for start, end in zip(levels[:-1], levels[1:]):
            _area(axes, start, end, concavity, task.threshold)
        axes.plot(levels, history.values, "o", color=_LINE, markersize=3.5)
        axes.plot(new, _accuracy(new), "o", color=_OTHER, markersize=3.5)
        axes.axhline(task.threshold, color=_THRESHOLD, linestyle="--", linewidth=1)
        axes.set(xlabel="level", ylim=(0.4, 1.3), xlim=(-0.03, 1.03))
        axes.set_title(f"round {number}: {len(levels)} levels", fontsize=10)
    panels[0].set_ylabel("accuracy")
    return figure


def _area(axes: Axes, start: float, end: float, concavity: float, threshold: float):
    """Fills the area between two parabolas through a curve's points."""
    x = np.linspace(start, end, 60)
    chord = np.interp(x, [start, end], _accuracy(np.array([start, end])))
    depth = concavity * (x - start) * (end - x)
    low, high = chord - depth, chord + depth
    crosses = low.min() < threshold <= high.max()
    colour = _OTHER if crosses else _ACCEPTED
    axes.fill_between(x, low, high, color=colour, alpha=0.3, linewidth=0)


def two_errors(classifier: jaxrob.Classifier, test: jaxrob.Dataset) -> Figure:
    """Draws the errors from few levels and from few images."""
    zoom = alterations.zoom(1.0, 2.0)
    figure, panels = plt.subplots(1, 3, figsize=(9, 2.9), layout="constrained")
    few = jaxrob.assess(classifier, test, zoom, strategy=Uniform(9))
    reporting.plot(few, panels[0])
    above = few.values >= few.threshold
    crossing = np.flatnonzero(above[:-1] != above[1:])[0]
    between = few.levels[crossing : crossing + 2]
    panels[0].axvspan(*between, color=_OTHER, alpha=0.4, linewidth=0)
    panels[0].set_title("levels: it crosses somewhere in here", fontsize=10)
    for axes, number in zip(panels[1:], (100, 500)):
        result = jaxrob.assess(classifier, test[:number], zoom, strategy=Uniform(65))
        low, high = metrics.bands(result.curve.counts, result.measure)
        axes.fill_between(
            result.levels, low, high, color=_LINE, alpha=0.25, linewidth=0
        )
        axes.plot(result.levels, result.values, color=_LINE, linewidth=1)
        axes.axhline(result.threshold, color=_THRESHOLD, linestyle="--", linewidth=1)
        ends = zoom.lower + np.array(result.confidence_interval)
        axes.axvspan(*ends, color=_OTHER, alpha=0.4, linewidth=0)
        axes.set(xlabel="level [factor]", ylim=(0, 1.02), xlim=(1, 2))
        axes.set_title(f"images: bands of {number} images", fontsize=10)
    return figure


def unknown(train: jaxrob.Dataset, test: jaxrob.Dataset) -> Figure:
    """Draws uncertainties of right and wrong answers, and a curve with abstention."""
    alpha = 0.5
    classifier = bayes.fit(networks.MLP(), train, key=jax.random.key(0))
    noise = alterations.gaussian_noise(0.0, 0.4)
    levels = np.linspace(noise.lower, noise.upper, 21)
    always = jaxrob.evaluate(classifier, test, noise, levels, key=jax.random.key(1))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    correct = always.predicted == always.labels
    bins = np.linspace(0, 1, 31)
    for mask, colour, name in (
        (correct, _LINE, "right answers"),
        (~correct, _OTHER, "wrong answers"),
    ):
        uncertainty = always.uncertainty[mask]
        left.hist(
            uncertainty,
            bins,
            density=True,
            histtype="stepfilled",
            color=colour,
            alpha=0.6,
            label=name,
        )
    left.axvline(1 - alpha, color=_THRESHOLD, linestyle="--", linewidth=1)
    left.text(1 - alpha + 0.02, 7.5, '"unknown"', color=_THRESHOLD)
    left.set(xlabel="uncertainty", ylabel="density", xlim=(0, 1))
    left.legend(loc="upper center", fontsize=8)
    decided = always.with_unknown(alpha)
    for values, style, name in (
        (decided.accuracy, "-", "accuracy of decided answers"),
        (always.accuracy, ":", "accuracy, always deciding"),
        (1 - decided.indecision, "--", "share decided"),
        (decided.effectiveness, "-.", "effectiveness"),
    ):
        right.plot(levels, values, style, label=name, linewidth=1.5)
    right.axhline(0.8, color=_THRESHOLD, linestyle="--", linewidth=0.8)
    right.set(xlabel="noise [variance]", ylim=(0, 1.02))
    right.legend(loc="lower left", fontsize=8)
    return figure


def roma_scores(classifier: jaxrob.Classifier, test: jaxrob.Dataset) -> Figure:
    """Draws the tails of hic, which the normal distributions fitted do not have."""
    image, delta = jnp.float32(test.images[3]) / 255, 0.6
    answer = int(classifier.log_probabilities(image[None])[0, 0].argmax())

    @jax.jit
    def some(key):
        """Returns the logarithm of the highest incorrect confidence of some draws."""
        shape = 20_000, *image.shape
        noise = jax.random.uniform(key, shape, minval=-0.3, maxval=0.3)
        log_p = classifier.log_probabilities(image + noise)[0]
        return jnp.delete(log_p, answer, axis=1).max(axis=1)

    keys = jax.random.split(jax.random.key(0), 6)
    log_hic = np.concatenate([some(key) for key in keys]).astype(np.float64)
    hic = np.exp(log_hic)
    # The transforms and normal distributions use as many draws as RoMA does.
    seen = slice(1000)
    _, boxcox = stats.boxcox(hic[seen])
    transforms = {
        "hic": lambda p: p,
        "hic, after Box-Cox": lambda p: stats.boxcox(p, boxcox),
    }
    figure, panels = plt.subplots(1, 2, figsize=(6, 2.8), layout="constrained")
    for axes, (name, transform) in zip(panels, transforms.items(), strict=True):
        scores, bound = transform(hic), transform(np.array([delta]))[0]
        axes.hist(
            scores,
            80,
            density=True,
            log=True,
            histtype="stepfilled",
            color=_LINE,
            alpha=0.5,
        )
        x = np.linspace(scores.min(), max(scores.max(), bound), 300)
        fitted = stats.norm(scores[seen].mean(), scores[seen].std(ddof=1))
        axes.plot(x, fitted.pdf(x), color=_OTHER, label="normal, fitted")
        axes.axvline(bound, color=_THRESHOLD, linestyle="--", linewidth=1)
        axes.set(xlabel=name, ylim=(1e-6, None))
        share = np.mean(scores >= bound)
        axes.set_title(
            f"beyond delta: {share:.1e}, fitted {fitted.sf(bound):.1e}", fontsize=9
        )
    panels[0].set_ylabel("density")
    panels[0].legend(fontsize=8)
    return figure


if __name__ == "__main__":
    chosen = sys.argv[1] if sys.argv[1:] else pathlib.Path(__file__).parent / "figures"
    main(pathlib.Path(chosen))
