"""The paper's figures 1 to 5."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import special, stats

from jaxrob import roma
from roma_2022.hic import NORMAL_BELOW, Drawn
from roma_2022.results import COUNTED, PAPER, short

_Rows = Sequence[dict[str, Any]]

# The order of the statuses of "roma".
_STATUSES = ("normal", "transformed", "failed", "unresolved", "constant")


def hic(drawn: Mapping[str, Drawn], delta: float) -> Figure:
    """Plots figures 1 and 2: histograms with the normal distribution fitted to them."""
    panels = [
        (title, drawn[status], transformed)
        for title, status, transformed in (
            ("normal as drawn", "normal", False),
            ("not normal as drawn", "transformed", False),
            ("the same after Box-Cox", "transformed", True),
        )
        if status in drawn
    ]
    how = {"layout": "constrained", "squeeze": False}
    size = 4.2 * len(panels), 3.6
    figure, axes = plt.subplots(1, len(panels), figsize=size, **how)
    for axis, (title, one, transformed) in zip(axes[0], panels):
        _histogram(axis, title, one, transformed, delta)
    axes[0, 0].legend(fontsize=8)
    axes[0, 0].set_ylabel(f"density of {len(panels[0][1].log_hic):,} draws")
    return figure


def _histogram(
    axis: Axes, title: str, one: Drawn, transformed: bool, delta: float
) -> None:
    values, bound = np.exp(one.log_hic), delta
    label = "hic"
    if transformed:
        values = special.boxcox(values, one.boxcox_lambda)
        bound = special.boxcox(bound, one.boxcox_lambda)
        label = f"Box-Cox of hic, λ = {one.boxcox_lambda:.3f}"
    mean, std = values.mean(), values.std(ddof=1)
    score = (bound - mean) / std
    statistic = one.statistics[transformed]
    axis.hist(values, 60, density=True, color="tab:blue", alpha=0.6)
    low, high = values.min(), max(values.max(), bound)
    grid = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 400)
    density = stats.norm.pdf(grid, mean, std)
    axis.plot(grid, density, "tab:green", lw=2, label="normal, fitted")
    axis.axvline(bound, color="tab:red", ls="--", label=f"δ = {delta:g}")
    axis.set(xlabel=label, yticks=[])
    axis.set_title(
        f"{title} (input {one.number})\nA² = {statistic:.2f} "
        f"{'<' if statistic < NORMAL_BELOW else '≥'} {NORMAL_BELOW:g}, "
        f"z = {score:.2f}, Adv = {short(float(stats.norm.sf(score)))}, "
        f"drawn {short(float(np.mean(one.log_hic > math.log(delta))))}",
        fontsize=9,
    )


def curves(rows: _Rows, varied: str, title: str) -> Figure:
    """Plots figures 3 and 4: plr with 95 % intervals, and the queries' statuses."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    estimators = list(dict.fromkeys(row["estimator"] for row in rows))
    for number, name in enumerate(estimators):
        some = _sorted(rows, name, varied)
        all_answered = min(row["answered"] for row in some) == 1
        label = name if all_answered else f"{name}, answered only"
        plr = [(row["plr"], *row["plr_interval"]) for row in some]
        _points(left, some, varied, plr, f"C{number}", label)
    some = _sorted(rows, estimators[0], varied)
    ends = [(row["counted"], *row["counted_interval"][::-1]) for row in some]
    counted = [tuple(1 - end for end in row) for row in ends]
    _points(left, some, varied, counted, "k", "counted among plain draws")
    left.set(xlabel=varied, ylabel="mean plr [%]", title=title)
    left.set_xticks(sorted({row[varied] for row in rows}))
    left.ticklabel_format(axis="y", useOffset=False)
    left.legend()
    name = "roma" if "roma" in estimators else estimators[0]
    _statuses(right, _sorted(rows, name, varied), varied)
    right.set(xlabel=varied, ylabel="inputs [%]", title=f"answers of {name}")
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _points(
    axis: Axes, rows: _Rows, varied: str, plr: Any, colour: str, label: str
) -> None:
    y, *ends = 100 * np.array(plr).T
    # Without an interval, there is a point without a bar.
    away = np.nan_to_num(np.abs(np.array(ends) - y))
    x = [row[varied] for row in rows]
    axis.errorbar(x, y, away, fmt="o-", color=colour, capsize=3, ms=4, label=label)


def _statuses(axis: Axes, rows: _Rows, varied: str) -> None:
    seen = {status for row in rows for status in row["statuses"]}
    places, bottom = range(len(rows)), np.zeros(len(rows))
    known = [status for status in _STATUSES if status in seen]
    for status in (*known, *sorted(seen.difference(_STATUSES))):
        height = np.array([row["statuses"].get(status, 0) for row in rows])
        height = 100 * height / [sum(row["statuses"].values()) for row in rows]
        axis.bar(places, height, 0.7, bottom, label=status)
        bottom += height
    axis.set_xticks(places, [f"{row[varied]:g}" for row in rows])


def _sorted(rows: _Rows, name: str, varied: str) -> _Rows:
    some = (row for row in rows if row["estimator"] == name)
    return sorted(some, key=lambda row: row[varied])


def categories(
    found: Mapping[str, Mapping[str, roma.Categorial]], title: str
) -> Figure:
    """Figure 5, the table by category: Adv with 95 % intervals, and the paper's."""
    figure, axes = plt.subplots(
        1, len(found), figsize=(5.5 * len(found), 4), layout="constrained", sharey=True
    )
    for axis, (kind, some) in zip(axes, found.items()):
        _categories(axis, some)
        axis.set(title=f"{title}, {kind}", ylim=(0, None))
    axes[0].set_ylabel("Adv = 1 - plr [%]")
    axes[0].legend()
    return figure


def _categories(axis: Axes, found: Mapping[str, roma.Categorial]) -> None:
    names = next(iter(found.values())).names
    for number, (name, table) in enumerate(found.items()):
        places = np.array([names.index(one) for one in table.names])
        places = places + 0.16 * (number + 1 - len(found) / 2)
        adversarial = 100 * table.adversarial
        ends = 100 * (1 - table.interval[:, ::-1].T)
        axis.errorbar(
            places,
            adversarial,
            np.nan_to_num(np.abs(ends - adversarial)),
            fmt="o",
            capsize=3,
            color="k" if name == COUNTED else f"C{number - 1}",
            label=name,
        )
    if set(names) <= set(PAPER):
        paper = [100 - PAPER[name][0] for name in names]
        axis.plot(range(len(names)), paper, "x", color="tab:red", label="paper, VGG16")
    axis.set_xticks(range(len(names)), names)
    if max(map(len, names)) > 2:
        axis.tick_params(axis="x", rotation=30)
