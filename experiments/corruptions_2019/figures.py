"""Accuracy over the continuous severity, and a strip of pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from common import datasets
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import jaxrob
from corruptions_2019.cells import MOST, SEVERITIES, at_severities, severity_text

_COLUMNS = 5


def curves(rows: Sequence[dict[str, Any]], threshold: float) -> Figure:
    """Plots each corruption's curve, its severities, and the interval of failing."""
    height = -(-len(rows) // _COLUMNS)
    figure, panels = plt.subplots(
        height,
        _COLUMNS,
        figsize=(13, 2.5 * height + 0.4),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for axes, row in zip(panels.flat, rows):
        levels, accuracy = np.array(row["levels"]), np.array(row["accuracy"])
        axes.plot(levels, accuracy, color="tab:blue", lw=1.2)
        at = at_severities(levels)
        axes.plot(levels[at], accuracy[at], "o", color="tab:blue", ms=4)
        axes.axhline(threshold, color="black", lw=0.8, ls=":")
        first, last = row["fails within"]
        if first <= MOST:
            axes.axvspan(first, min(last, MOST), color="tab:orange", alpha=0.35, lw=0)
        name = row["corruption"].replace("_", " ")
        fails = "does not fail" if np.isinf(first) else "fails at " + severity_text(row)
        axes.set_title(f"{name}\n{fails}", fontsize=9)
        axes.set_ylim(0, 1)
        axes.set_xticks((0, *SEVERITIES))
    for axes in panels.flat[len(rows) :]:
        axes.set_axis_off()
    for axes in panels[-1]:
        axes.set_xlabel("severity")
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy")
    return figure


def strip(
    alterations: Mapping[str, jaxrob.Alteration], image: np.ndarray, key: jax.Array
) -> Figure:
    """Shows one image at severities 0 to 5, a row for each corruption but frost."""
    # The licence of frost's pictures is not stated.
    shown = {name: one for name, one in alterations.items() if name != "frost"}
    levels = np.arange(MOST + 1, dtype=np.float32)
    figure, panels = plt.subplots(
        len(shown),
        len(levels),
        figsize=(1.1 * len(levels) + 1.2, 1.1 * len(shown) + 0.3),
        layout="constrained",
        squeeze=False,
    )
    for axes, (name, alteration) in zip(panels, shown.items()):
        prepared = alteration.prepared(datasets.unit_range(image), key)
        altered = jax.jit(jax.vmap(alteration.at_level, (None, 0)))(prepared, levels)
        for panel, picture in zip(axes, np.asarray(altered)):
            panel.imshow(picture, interpolation="nearest")
            panel.set(xticks=[], yticks=[])
        axes[0].set_ylabel(
            name.replace("_", "\n"), rotation=0, ha="right", va="center", fontsize=8
        )
    for panel, level in zip(panels[0], levels):
        panel.set_title(
            f"severity {level:g}" if level == 0 else f"{level:g}", fontsize=9
        )
    return figure
