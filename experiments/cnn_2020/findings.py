"""Checks of the paper's findings, a line each."""

import pathlib
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from common import intervals
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import stats

import jaxrob

# Each method and its comparison, as in the paper's table II.
METHODS = {"DA": None, "LDA": "DA", "NP": "DA", "LNP": "NP", "WL": "DA"}
NETWORKS = ("original", *METHODS)


class Curve(TypedDict):
    """Accuracy over the level."""

    levels: list[float]
    accuracy: list[float]


class Found(TypedDict):
    """The results of one network; lists have an item for each alteration."""

    input_size: int
    seconds: float
    copies: list[float]  # of each image
    accuracy: float  # on clean images
    robustness: list[float]
    curves: list[Curve]
    adversariability: float | None


# One seed's results, by network.
Seed = dict[str, Found]


def mean(seeds: Sequence[Seed], network: str, what: str) -> np.ndarray:
    return np.mean([seed[network][what] for seed in seeds], axis=0)


def robustness(seeds: Sequence[Seed], names: Sequence[str], threshold: float) -> str:
    """Returns table II: robustness by alteration and method, and differences [%]."""
    means = {network: 100 * mean(seeds, network, "robustness") for network in NETWORKS}
    head = f"{'':5}{'C_o':>8} "
    under = f"{'Alt.':5}{'rob':>8} "
    for method, other in METHODS.items():
        width = 22 if other is None else 29
        head += " |" + f"C_{method}".center(width)
        under += f" |{'xn':>5}{'rob':>8}{'d C_o':>8} "
        under += "" if other is None else f"{f'd {other}':>7}"
    lines = [
        f"Table II, robustness [%], mean over seeds: {len(seeds)} "
        f"(accuracy of at least {threshold:g})",
        head,
        under,
    ]
    many = {method: mean(seeds, method, "copies") for method in METHODS}
    for i, name in enumerate(names):
        values = {network: some[i] for network, some in means.items()}
        copies = {method: f"{some[i]:.3g}" for method, some in many.items()}
        lines.append(_robustness_line(name, values, copies))
    averages = {network: some.mean() for network, some in means.items()}
    lines.append(_robustness_line("AVG", averages, dict.fromkeys(METHODS, "")))
    return "\n".join(lines)


def _robustness_line(
    name: str, values: dict[str, float], copies: dict[str, str]
) -> str:
    line = f"{name:5}{values['original']:8.2f} "
    for method, other in METHODS.items():
        line += f" |{copies[method]:>5}{values[method]:8.2f}"
        line += f"{values[method] - values['original']:+8.2f} "
        if other is not None:
            line += f"{values[method] - values[other]:+7.2f}"
    return line


def summary(seeds: Sequence[Seed]) -> str:
    lines = [
        f"Table III, mean over seeds: {len(seeds)}",
        f"{'C':8}{'input size':>12}{'train. time':>13}{'accuracy':>10}"
        f"{'avg rob.':>10}{'adversariability':>18}",
    ]
    for name in NETWORKS:
        score = "-"
        if seeds[0][name]["adversariability"] is not None:
            score = f"{mean(seeds, name, 'adversariability'):.3f}"
        lines.append(
            f"{name:8}{mean(seeds, name, 'input_size'):12,.0f}"
            f"{mean(seeds, name, 'seconds'):11.0f} s"
            f"{mean(seeds, name, 'accuracy'):10.2%}"
            f"{mean(seeds, name, 'robustness').mean():10.2%}{score:>18}"
        )
    return "\n".join(lines)


# Their gain in clean accuracy over the original [points].
_PAPER_ACCURACY = {"DA": 0.11, "LDA": 0.18, "NP": 0.64, "LNP": 0.05}


def findings(
    seeds: Sequence[Seed], alterations: Sequence[jaxrob.Alteration]
) -> list[str]:
    def rob(name: str) -> np.ndarray:
        return np.array([np.mean(seed[name]["robustness"]) for seed in seeds])

    def acc(name: str) -> np.ndarray:
        return np.array([seed[name]["accuracy"] for seed in seeds])

    lines = ["findings; differences in percentage points [95 % interval over seeds]"]
    fewer = mean(seeds, "LDA", "input_size") < mean(seeds, "DA", "input_size")
    lines += [
        _line("robustness LDA - DA (paper: +2.48)", rob("LDA") - rob("DA"), equal=True)
        + f"; of {'fewer' if fewer else 'more'} inputs",
        _line("robustness NP - original (paper: +6.71)", rob("NP") - rob("original")),
        _line("robustness DA - NP (paper: +14.63)", rob("DA") - rob("NP")),
        _line("robustness LDA - LNP (paper: +16.20)", rob("LDA") - rob("LNP")),
        _line("robustness LNP - NP (paper: +0.91)", rob("LNP") - rob("NP"), equal=True),
    ]
    for name in METHODS:
        paper = ""
        if name in _PAPER_ACCURACY:
            paper = f" (paper: +{_PAPER_ACCURACY[name]:.2f})"
        what = f"accuracy on unaltered images {name} - original{paper}"
        lines.append(_line(what, acc(name) - acc("original"), equal=True))
    for name in METHODS:
        gains = [_gains(seed["original"], seed[name], alterations) for seed in seeds]
        far, near = np.transpose(gains)
        what = f"accuracy gained by {name}, far levels - near ones"
        lines.append(_line(what, far - near))
    lines.append(_line("robustness WL - DA (not in the paper)", rob("WL") - rob("DA")))
    lines.append(_line("robustness WL - LDA (likewise)", rob("WL") - rob("LDA")))
    if seeds[0]["original"]["adversariability"] is not None:
        lines.append(_correlation(seeds))
    return lines


def _gains(
    original: Found, retrained: Found, alterations: Sequence[jaxrob.Alteration]
) -> tuple[float, float]:
    """Mean accuracies gained in the outer and the inner half, where there is need."""
    far, near = [], []
    for i, alteration in enumerate(alterations):
        if original["robustness"][i] == 1:
            continue
        levels = np.array(original["curves"][i]["levels"])
        away = levels - alteration.identity
        end = np.where(away < 0, alteration.lower, alteration.upper)
        span = np.where(away == 0, 1.0, end - alteration.identity)
        share = away / span
        curves = (one["curves"][i]["accuracy"] for one in (retrained, original))
        gain = np.subtract(*curves)
        far.append(gain[share > 0.5].mean())
        near.append(gain[share <= 0.5].mean())
    if not far:
        return 0.0, 0.0
    return float(np.mean(far)), float(np.mean(near))


def _line(what: str, differences: np.ndarray, equal: bool = False) -> str:
    """Formats a difference with its interval and verdict; `equal`: 0 also counts."""
    text = f"{what}: {100 * np.mean(differences):+.2f}"
    if len(differences) < 2:
        return f"{text}; one seed, no interval"
    if np.ptp(differences) < 1e-9:
        # Robustness is a multiple of one level's share.
        return f"{text} for every seed; no interval"
    low, high = intervals.student_t(100 * differences)
    if low > 0:
        verdict = "holds"
    elif high < 0:
        verdict = "does not hold"
    else:
        verdict = "equal within the interval" if equal else "not decided"
    return f"{text} [{low:+.2f}, {high:+.2f}]; {verdict}"


def _correlation(seeds: Sequence[Seed]) -> str:
    robustness = [mean(seeds, name, "robustness").mean() for name in NETWORKS]
    score = [mean(seeds, name, "adversariability") for name in NETWORKS]
    found: Any = stats.spearmanr(robustness, score)
    verdict = "no correlation shown" if found.pvalue > 0.05 else "correlated"
    return (
        f"robustness and adversariability, rank correlation over the {len(NETWORKS)} "
        f"networks' means: {found.statistic:+.2f}, p = {found.pvalue:.2f}; {verdict}"
    )


_NUMBERS = {"DA": 3, "LDA": 4, "NP": 5, "LNP": 6, "WL": None}


def write_figures(
    folder: pathlib.Path,
    seeds: Sequence[Seed],
    alterations: Sequence[jaxrob.Alteration],
    threshold: float,
) -> int:
    for method, number in _NUMBERS.items():
        figure = _figure(seeds, method, alterations, threshold)
        name = method if number is None else f"figure{number}-{method}"
        figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)
    return len(_NUMBERS)


def _figure(
    seeds: Sequence[Seed], method: str, alterations: Sequence[Any], threshold: float
) -> Figure:
    """Plots accuracy over the level: original dashed, retrained solid."""
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for i, (axes, alteration) in enumerate(zip(panels.flat, alterations)):
        lines = ("original", "--", "tab:gray"), (method, "-", "tab:blue")
        for name, style, colour in lines:
            levels = seeds[0][name]["curves"][i]["levels"]
            curves = [seed[name]["curves"][i]["accuracy"] for seed in seeds]
            axes.plot(levels, np.mean(curves, axis=0), style, color=colour, label=name)
            ends = np.min(curves, axis=0), np.max(curves, axis=0)
            axes.fill_between(levels, *ends, color=colour, alpha=0.2, lw=0)
        axes.axhline(threshold, color="black", lw=0.8, ls=":", label="threshold")
        before, after = (
            mean(seeds, name, "robustness")[i] for name in ("original", method)
        )
        axes.set_title(
            f"{alteration.name}\nrobustness {before:.1%} to {after:.1%}", fontsize=10
        )
        axes.set_xlabel(f"level [{alteration.unit}]" if alteration.unit else "level")
        axes.set_ylim(-0.02, 1.02)
    for axes in panels.flat[len(alterations) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy")
    panels.flat[0].legend(loc="lower center", fontsize=9)
    return figure
