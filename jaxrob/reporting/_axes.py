"""Matplotlib axes, and elements that plots of curves share."""

from typing import Any

import numpy as np

from jaxrob._arguments.extra import install
from jaxrob._arguments.naming import named
from jaxrob._assessment.assessment import Assessment
from jaxrob.reporting._style import MARGIN, axis_label


def checked_axes(axes: Any, size: tuple[float, float] = (5, 3.2)) -> Any:
    """Returns the axes, or those of a new figure of this size in inches."""
    if axes is None:
        return pyplot().figure(figsize=size, layout="constrained").add_subplot()
    if not hasattr(axes, "axvspan"):
        raise TypeError(f"axes must be axes of matplotlib; got {named(axes)}")
    return axes


def pyplot() -> Any:
    """Imports matplotlib's `pyplot`."""
    try:
        from matplotlib import pyplot as module
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {install('command')}") from error
    return module


def draw_band(
    axes: Any, levels: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str
) -> None:
    """Draws a confidence band; all arrays are `[L]`."""
    axes.fill_between(levels, low, high, color=colour, alpha=0.15, linewidth=0)


def frame(axes: Any, assessment: Assessment, images: str) -> None:
    """Sets the axes' limits and the label of the levels, with `images` at its end."""
    margin = MARGIN * (assessment.upper - assessment.lower)
    axes.set_xlim(assessment.lower - margin, assessment.upper + margin)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"{axis_label('level', assessment.unit)}{images}")


def literal(name: str) -> str:
    """Escapes a name, so that matplotlib reads no formula and its legend shows it."""
    text = name.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
