"""The measures over the level, and the most uncertain images."""

from collections.abc import Sequence

import jax
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import jaxrob
from bnn_2024.measuring import in_order
from jaxrob import reporting


def measures(curves: Sequence[jaxrob.Curve]) -> Figure:
    """Plots each measure over the level, a panel for each alteration."""
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
            f"p = {confidence[image]:.2f}\n"
            f"uncertainty {uncertainty[image]:.2f}",
            fontsize=8,
        )
        axes.set_axis_off()
    return figure
