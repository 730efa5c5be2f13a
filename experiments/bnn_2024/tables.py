"""The tables, the paper's beside them, and the answers to the paper's questions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from common import intervals
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import stats

import jaxrob
from bnn_2024.measuring import COLUMNS, ROWS, Rows, in_order
from jaxrob import metrics, reporting

# Tables 2 and 3 of the paper [%].
PAPER = {
    "MLP": (97.40, 96.01, 99.88, 81.03, 84.12, 62.62, 74.67),
    "BNN": (96.81, 93.31, 99.88, 85.63, 86.25, 62.08, 77.31),
    "BNN, unknown": (98.42, 96.16, 99.97, 89.85, 89.94, 75.33, 79.50),
    "against indecision": (96.24, 91.60, 98.90, 89.93, 90.65, 76.55, 89.01),
    "augmented": (92.17, 85.90, 98.13, 77.91, 78.63, 58.54, 72.09),
    "gain over MLP": (1.02, 0.15, 0.09, 8.82, 5.82, 12.71, 4.83),
}

TRAINED_AS_THEIRS = "trained as theirs"


class Explained(NamedTuple):
    """A column of the tables, measured in a way that may explain the paper's."""

    column: str
    what: str
    values: dict[str, float]  # by row


def print_means(means: Mapping[str, np.ndarray], num_seeds: int) -> None:
    print(f"\nmean of {num_seeds} seeds [%], the paper's in the line below it")
    print(f"{'':20}" + "".join(f"{name:>8}" for name in (*COLUMNS, "mean")))
    for name, values in means.items():
        print(line(name, 100 * values))
        if name in PAPER:
            print(line("  paper", PAPER[name]))


def print_explained(explained: Sequence[Sequence[Explained]]) -> None:
    print(f"\nmedian of {len(explained)} seeds [%]")
    print(f"{'':48}" + "".join(f"{name:>11}" for name in ROWS.values()))

    def print_line(column: str, what: str, values: Iterable[float]) -> None:
        numbers = "".join(f"{value:11.2f}" for value in values)
        print(f"{column:4}{what:44}{numbers}")

    last = None
    for i, (column, what, _) in enumerate(explained[0]):
        if column != last:
            here = COLUMNS.index(column)
            print_line(column, "the paper", [PAPER[name][here] for name in ROWS])
        last = column
        of_seeds = [[found[i].values[name] for name in ROWS] for found in explained]
        print_line("", what, 100 * np.median(of_seeds, axis=0))


def line(name: str, values: Sequence[float] | np.ndarray) -> str:
    return f"{name:20}" + "".join(f"{v:8.2f}" for v in (*values, np.mean(values)))


def answers(rows: Sequence[Rows]) -> list[str]:
    lines = []
    gain = [row["BNN"].mean() - row["MLP"].mean() for row in rows]
    lines.append(f"RQ1  BNN less MLP, mean of alterations: {intervals.in_points(gain)}")
    for i, name in enumerate(COLUMNS):
        gain = [row["gain over BNN"][i] for row in rows]
        text = intervals.in_points(gain)
        lines.append(f"RQ2  gain by unknown answers, {name}: {text}")
    pairs = ((row["BNN, unknown"], row["augmented"]) for row in rows)
    tau: Any = [stats.kendalltau(*pair)[0] for pair in pairs]
    order = {}
    for name in ("BNN, unknown", "augmented"):
        means = np.mean([row[name] for row in rows], axis=0)
        order[name] = " ".join(COLUMNS[i] for i in np.argsort(-means))
    lines.append(
        f"RQ3  order by robustness: {order['BNN, unknown']}; by augmented robustness: "
        f"{order['augmented']}; Kendall's tau {np.mean(tau):.2f}"
    )
    return lines


def their_answer(explained: Sequence[Sequence[Explained]]) -> str:
    # The median, because some of the plain networks lose classes in training.
    gain = []
    for found in explained:
        theirs = [values for _, what, values in found if TRAINED_AS_THEIRS in what]
        gain.append(np.mean([values["BNN"] - values["MLP"] for values in theirs]))
    return (
        f"RQ1  the same, {TRAINED_AS_THEIRS}: median {100 * np.median(gain):+.2f} (the "
        f"paper: {np.mean(PAPER['BNN']) - np.mean(PAPER['MLP']):+.2f})"
    )


def odds(curves: Sequence[jaxrob.Curve], alpha: float) -> list[str]:
    return [
        f"odds {name} at level {_odds(curve, alpha)}"
        for curve, name in zip(curves, COLUMNS)
    ]


def _odds(curve: jaxrob.Curve, alpha: float) -> str:
    uncertainty, confidence = map(np.asarray, (curve.uncertainty, curve.confidence))
    counts = metrics.unknown_counts(curve.predicted, curve.labels, uncertainty, alpha)
    correct = curve.predicted == curve.labels
    hardest = np.argmin(correct.mean(axis=1))
    found = metrics.odds_ratio(counts[hardest : hardest + 1])
    calibration = metrics.expected_calibration_error(confidence, correct)
    area = metrics.aurc(-uncertainty, correct)
    (unknown_wrong, _), (decided_wrong, _) = counts[hardest]
    of_unknown = unknown_wrong / max(counts[hardest, 0].sum(), 1)
    of_decided = decided_wrong / max(counts[hardest, 1].sum(), 1)
    return (
        f"{curve.levels[hardest]:.3g}: unknown answers would be wrong "
        f"{of_unknown:.1%}, decided ones are {of_decided:.1%}; odds ratio "
        f"{found.ratio[0]:.1f} [{found.low[0]:.1f}, {found.high[0]:.1f}]; calibration "
        f"error {calibration[hardest]:.3f}, area under risk-coverage "
        f"{area[hardest]:.3f}"
    )


def measures(curves: Sequence[jaxrob.Curve]) -> Figure:
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for curve, alteration, axes in zip(curves, in_order(), panels.flat):
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


def most_uncertain(curves: Sequence[jaxrob.Curve], test_set: jaxrob.Dataset) -> Figure:
    """Shows each alteration's most uncertain image, at the level of most indecision."""
    figure, panels = plt.subplots(1, 7, figsize=(14, 3.1), layout="constrained")
    for curve, alteration, axes in zip(curves, in_order(), panels):
        worst = curve.indecision.argmax()
        confidence, uncertainty = (
            np.asarray(some)[worst] for some in (curve.confidence, curve.uncertainty)
        )
        image = uncertainty.argmax()
        level, key = curve.levels[worst : worst + 1], jax.random.key(0)
        shown = alteration, test_set.images[image], level, key
        altered = reporting.examples(*shown)[0]
        axes.imshow(altered.clip(0, 1), cmap="gray", vmin=0, vmax=1)
        axes.set_title(
            f"{alteration.name}\nlevel {curve.levels[worst]:.3g}: label "
            f"{curve.labels[image]}\nanswer {curve.predicted[worst, image]} with "
            f"p = {confidence[image]:.2f}\n"
            f"uncertainty {uncertainty[image]:.2f}",
            fontsize=8,
        )
        axes.set_axis_off()
    return figure
