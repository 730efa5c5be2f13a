"""Plots by class, of pictures that fail, and of ranks."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_integer,
    checked_names,
    checked_number,
    checked_sequence,
)
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import ScoreCurve, select
from jaxrob.reporting._plot import LINES, checked_axes, literal, new_figure
from jaxrob.reporting._results import Picture
from jaxrob.reporting._words import percent_of
from jaxrob.roma import RomaResult

# More numbers or names would be illegible.
_MOST_NUMBERS = 15
_MOST_NAMES = 40


def plot_confusion(
    assessment: Assessment,
    level: float,
    class_names: Sequence[str] | None = None,
    axes: Any = None,
) -> Any:
    """Plots the confusion of classes at the evaluated level nearest to `level`.

    Colours show shares of each class's images; up to 15 classes also have counts. With
    alpha the last column is "unknown".

    Args:
      assessment: the assessment.
      level: a level within the range. The title states the level shown.
      class_names: the classes' names; by default their numbers.
      axes: matplotlib axes to draw on and return; by default those of a new figure.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
      ValueError: if the level lies outside the range, the names are not as many as the
        classes, the curve is reduced and of more than 64 classes, or it is of a score,
        which has no classes.
    """
    check_type("assessment", assessment, Assessment, "a jaxrob.Assessment")
    if isinstance(assessment.curve, ScoreCurve):
        raise ValueError(
            "assessment must be of classes to be confused; got one of the score "
            f"{assessment.curve.score!r}"
        )
    level = checked_number(
        "level", level, at_least=assessment.lower, at_most=assessment.upper
    )
    at = int(np.abs(assessment.levels - level).argmin())
    one = select(assessment.curve, np.array([at]), assessment.levels[[at]])
    (counts,) = one.confusion
    if assessment.curve.alpha is None:
        counts = counts[:, :-1]
    names = [str(index) for index in range(len(counts))]
    if class_names is not None:
        names = [literal(name) for name in checked_names("class_names", class_names)]
    if len(names) != len(counts):
        raise ValueError(
            f"class_names must be as many as the classes; got {len(names)} for "
            f"{len(counts)}"
        )
    axes = checked_axes(axes, (4.6, 4))
    totals = counts.sum(-1, keepdims=True)
    shares = np.where(totals > 0, counts / np.maximum(totals, 1), np.nan)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    answers = [*names, "unknown"][: counts.shape[1]]
    if len(names) <= _MOST_NAMES:
        axes.set_xticks(range(len(answers)), answers, rotation=90, fontsize=7)
        axes.set_yticks(range(len(names)), names, fontsize=7)
    if len(names) <= _MOST_NUMBERS:
        for row, column in np.argwhere(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            number = f"{counts[row, column]}"
            axes.text(
                column, row, number, color=colour, ha="center", va="center", fontsize=7
            )
    axes.set_xlabel("answer")
    axes.set_ylabel("right class")
    shown = f"{assessment.levels[at]:.4g} {assessment.unit}".rstrip()
    axes.set_title(f"{literal(assessment.alteration)} at {shown}", fontsize=10)
    return axes


def plot_categories(
    result: RomaResult, class_names: Sequence[str] | None = None, axes: Any = None
) -> Any:
    """Plots each category's mean plr, with its interval over the inputs.

    It shows `RomaResult.categorial`. The least robust category is lowest.

    Args:
      result: probabilistic local robustness.
      class_names: names of the categories; by default their numbers.
      axes: matplotlib axes to draw on and return; by default those of a new figure.

    Returns:
      The axes. The number of inputs with an answer stands behind each name.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
      ValueError: as `RomaResult.categorial`.
    """
    check_type("result", result, RomaResult, "a jaxrob.roma.RomaResult")
    if class_names is not None:
        class_names = checked_names("class_names", class_names)
    found = result.categorial(class_names)
    axes = checked_axes(axes, (5, 1 + 0.28 * len(found.names)))
    order = np.argsort(np.where(np.isnan(found.plr), -1, found.plr), kind="stable")
    places = np.arange(len(order))
    low, high = found.interval[order].T
    colour = LINES[0].colour
    axes.hlines(places, low, high, color=colour, linewidth=2)
    axes.plot(found.plr[order], places, "o", color=colour, markersize=5)
    labels = [
        f"{literal(found.names[index])} ({found.answered[index]} of "
        f"{found.inputs[index]})"
        for index in order
    ]
    axes.set_yticks(places, labels, fontsize=8)
    by = "predicted class" if result.labels is None else "right class"
    level = percent_of(found.confidence_level)
    axes.set_xlabel(f"mean plr and its {level} interval over the inputs, by {by}")
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    return axes


def plot_first_failures(
    pictures: Sequence[Picture],
    class_names: Sequence[str] | None = None,
    columns: int = 6,
) -> Any:
    """Plots the images that fail first, each at the level at which it fails.

    Example::

        shown = reporting.pictures(result, blur, test)
        reporting.plot_first_failures(shown).savefig("failures.png")

    Args:
      pictures: an assessment's pictures, from `jaxrob.reporting.pictures`. Those not
        shown as "first failure", or without an image, are left out.
      class_names: the classes' names; by default their numbers.
      columns: images in a row.

    Returns:
      A matplotlib figure. Under each image are its level, its class and the answer.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
      ValueError: if no picture shows a failure.
    """
    wanted = "jaxrob.reporting.Picture"
    pictures = checked_sequence("pictures", pictures, Picture, wanted)
    if class_names is not None:
        class_names = checked_names("class_names", class_names)
    columns = checked_integer("columns", columns, at_least=1)
    failed = [
        one
        for one in pictures
        if one.shown_as == "first failure" and one.image is not None
    ]
    if not failed:
        raise ValueError(
            'pictures must hold one that is shown as "first failure" and has an image; '
            f"got {sorted({one.shown_as for one in pictures})}"
        )
    columns = min(columns, len(failed))
    rows = math.ceil(len(failed) / columns)
    whole = new_figure(1.5 * columns, 2.1 * rows)
    for panel, one in zip(whole.subplots(rows, columns, squeeze=False).flat, failed):
        panel.imshow(one.image, cmap="gray", vmin=0, vmax=255)
        words = f"{_name(one.label, class_names)} taken for "
        words += _name(one.predicted, class_names)
        lines = [f"level {one.level:.3g}", *textwrap.wrap(words, 20)[:3]]
        panel.set_title("\n".join(lines), fontsize=7)
    for panel in whole.axes:
        panel.set_axis_off()
    return whole


def _name(number: int | None, class_names: Sequence[str] | None) -> str:
    if number is None:
        return "a class not known"
    if class_names is None:
        return f"class {number}"
    return literal(class_names[number]) if number < len(class_names) else "unknown"
