"""Figures 3 to 6 of the paper, and one of a fifth method."""

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import jaxrob
from cnn_2020.results import Seed, mean

_NUMBERS = {"DA": 3, "LDA": 4, "NP": 5, "LNP": 6, "WL": None}


def write(
    folder: pathlib.Path,
    seeds: Sequence[Seed],
    alterations: Sequence[jaxrob.Alteration],
    threshold: float,
) -> int:
    """Writes a figure for each method; returns the number of figures."""
    for method, number in _NUMBERS.items():
        figure = _figure(seeds, method, alterations, threshold)
        name = method if number is None else f"figure{number}-{method}"
        figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)
    return len(_NUMBERS)


def _figure(
    seeds: Sequence[Seed],
    method: str,
    alterations: Sequence[jaxrob.Alteration],
    threshold: float,
) -> Figure:
    """Plots accuracy over the level: original dashed, retrained solid."""
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for i, (axes, alteration) in enumerate(zip(panels.flat, alterations)):
        for name, style, colour in (
            ("original", "--", "tab:gray"),
            (method, "-", "tab:blue"),
        ):
            levels = seeds[0][name]["curves"][i]["levels"]
            curves = [seed[name]["curves"][i]["accuracy"] for seed in seeds]
            axes.plot(levels, np.mean(curves, axis=0), style, color=colour, label=name)
            axes.fill_between(
                levels,
                np.min(curves, 0),
                np.max(curves, 0),
                color=colour,
                alpha=0.2,
                lw=0,
            )
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
