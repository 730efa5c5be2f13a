"""Plots of curves over the level; matplotlib comes with the `command` extra."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_integer,
    checked_names,
    checked_sequence,
)
from jaxrob._arguments.messages import named
from jaxrob._arguments.texts import required
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import ScoreCurve
from jaxrob._keys import check_key
from jaxrob._numbers import as_floats
from jaxrob.alterations import Alteration
from jaxrob.metrics._measures import any_measure, in_words
from jaxrob.reporting._pictures import altered
from jaxrob.reporting._table import robustness_text
from jaxrob.reporting._words import images_at_levels, listed_levels

ACCEPTED, THRESHOLD = "#2a9d5c", "#c0392b"
#: Margin between the range and the frame, as a share of either, so that the frame does
#: not hide a line at an end.
MARGIN = 0.015
#: The most levels with a mark each; more marks would hide the line.
MOST_MARKS = 64


class LineStyle(NamedTuple):
    """How one of several lines looks: `dashes` in SVG, `linestyle` in matplotlib."""

    colour: str
    dashes: str
    linestyle: Any
    marker: str


LINES = (
    LineStyle("#1f4e79", "", "-", "o"),
    LineStyle("#d1700b", "8 3", "--", "s"),
    LineStyle("#7b3fa0", "2.5 2.5", ":", "^"),
    LineStyle("#2a7d4f", "10 3 2 3", "-.", "D"),
    LineStyle("#b3266b", "5 2", (0, (5, 1)), "v"),
    LineStyle("#444", "1.5 4", (0, (1, 2)), "P"),
)


def plot(assessment: Assessment, axes: Any = None) -> Any:
    """Plots the measure over the level, like the 2020 paper's figures 1 and 2.

    The threshold is a dashed line, the identity a dotted one. Shading shows where the
    values, joined by straight lines, are accepted. The robustness in the title follows
    the assessment's rule. From few images (`Assessment.sampling`) the values are those
    of the images evaluated, with pointwise bands of the confidence level, which are
    wider at levels with fewer images.

    Args:
      assessment: the assessment.
      axes: matplotlib axes to draw on and return; by default those of a new figure.

    Raises:
      ImportError: if matplotlib is missing.
    """
    check_type("assessment", assessment, Assessment, "a jaxrob.Assessment")
    axes = checked_axes(axes)
    colour, _, _, marker = LINES[0]
    for interval in assessment.accepted:
        axes.axvspan(*interval, color=ACCEPTED, alpha=0.18, linewidth=0)
    axes.axhline(assessment.threshold, color=THRESHOLD, linestyle="--", linewidth=1)
    axes.axvline(assessment.identity, color="0.35", linestyle=":", linewidth=1)
    axes.plot(
        assessment.levels,
        assessment.values,
        color=colour,
        marker=marker if len(assessment.levels) <= MOST_MARKS else None,
        markersize=2.5,
        linestyle="-" if assessment.listed is None else "none",
    )
    images = ""
    if assessment.sampling is not None:
        band = metrics.bands(
            assessment.counts, assessment.measure, assessment.confidence_level
        )
        axes.fill_between(
            assessment.levels, *band, color=colour, alpha=0.15, linewidth=0
        )
        images = f"; {images_at_levels(assessment)} images"
    _frame(axes, assessment, images)
    axes.set_ylabel(literal(value_label(assessment)))
    what = "stability" if assessment.is_stability else "robustness"
    title = f"{assessment.alteration}: {what} {robustness_text(assessment, '.1%')}"
    if assessment.curve.alpha is not None and assessment.accepted:
        title += f", {assessment.lowest_decided_ratio:.0%} decided or more"
    axes.set_title(textwrap.fill(title, 44), fontsize=10)
    return axes


def plot_measures(assessment: Assessment, axes: Any = None) -> Any:
    """Plots accuracy, decided ratio and effectiveness over the level, with bands.

    The bands are pointwise: `jaxrob.metrics.bands` for accuracy and effectiveness,
    Wilson's for the decided ratio. Without alpha all inputs are decided, and only the
    accuracy is drawn; of a score, the mean score. The number of images at each level
    stands below.

    Args:
      assessment: the assessment, whatever its measure.
      axes: matplotlib axes to draw on and return; by default those of a new figure.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
    """
    check_type("assessment", assessment, Assessment, "a jaxrob.Assessment")
    axes = checked_axes(axes)
    curve, levels = assessment.curve, assessment.levels
    counts: Any = curve.counts
    is_score = isinstance(curve, ScoreCurve)
    names = [assessment.measure if is_score else "accuracy"]
    if curve.alpha is not None and not is_score:
        names += ["decided_ratio", "effectiveness"]
    for index, name in enumerate(names):
        values = any_measure(name)(counts)
        label = "decided ratio" if name == "decided_ratio" else name
        line = _line(axes, assessment, values, label, index, len(names))
        band = metrics.bands(counts, name, assessment.confidence_level)
        colour = line.get_color()
        joined = assessment.listed is None
        draw, width = (axes.fill_between, 0) if joined else (axes.vlines, 3)
        draw(levels, *band, color=colour, alpha=0.15, linewidth=width)
    axes.axvline(assessment.identity, color="0.35", linestyle=":", linewidth=1)
    _frame(axes, assessment, f"; {images_at_levels(assessment)} images at each level")
    axes.set_ylabel("score" if is_score else "share of images")
    axes.set_title(assessment.alteration, fontsize=10)
    axes.legend(fontsize=8)
    return axes


def plot_networks(
    assessments: Sequence[Assessment], names: Sequence[str], axes: Any = None
) -> Any:
    """Plots the measure over the level of several networks, for the same alteration.

    Coinciding lines stay distinguishable: each is thinner than the one before, with
    smaller marks, and all differ in dashes.

    Args:
      assessments: one for each network, at most six, of one alteration, range and
        measure.
      names: the networks' names.
      axes: matplotlib axes to draw on and return; by default those of a new figure.

    Returns:
      The axes. The threshold is drawn if it is the same for all.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
      ValueError: if the assessments differ in alteration, unit, range or measure, are
        more than six, or the names are not as many.
    """
    wanted = "jaxrob.Assessment"
    assessments = checked_sequence("assessments", assessments, Assessment, wanted)
    names = checked_names("names", names)
    if len(names) != len(assessments):
        raise ValueError(
            f"names must be as many as assessments; got {len(names)} and "
            f"{len(assessments)}"
        )
    if len(assessments) > len(LINES):
        raise ValueError(
            f"assessments must be at most {len(LINES)}, which can be told apart; got "
            f"{len(assessments)}"
        )
    first = assessments[0]
    for part in ("alteration", "unit", "lower", "upper", "measure"):
        found = {getattr(one, part) for one in assessments}
        if len(found) > 1:
            raise ValueError(
                f"assessments must have the same {part}; got {sorted(found)}"
            )
    axes = checked_axes(axes)
    for index, (one, name) in enumerate(zip(assessments, names)):
        _line(axes, one, one.values, name, index, len(names))
    if (threshold := common_threshold(assessments)) is not None:
        axes.axhline(threshold, color=THRESHOLD, linestyle="--", linewidth=1)
    axes.axvline(first.identity, color="0.35", linestyle=":", linewidth=1)
    images = dict.fromkeys(images_at_levels(one) for one in assessments)
    _frame(axes, first, f"; {' or '.join(sorted(images, key=len))} images")
    axes.set_ylabel(literal(in_words(first.measure)))
    axes.set_title(first.alteration, fontsize=10)
    axes.legend(fontsize=8)
    return axes


def figure(
    assessments: Sequence[Assessment],
    alterations: Sequence[Alteration],
    image: np.ndarray,
    key: jax.Array,
    columns: int = 4,
    num_examples: int = 7,
) -> Any:
    """Plots each assessment in a panel of a figure, with altered examples under it.

    Args:
      assessments: the assessments.
      alterations: their alterations, in the same order.
      image: one image `[H, W, C]`, uint8 or float in [0, 1].
      key: a random key for stochastic alterations.
      columns: panels in a row.
      num_examples: images in a strip, at levels evenly spread over the range; the
        lowest, the middle and the highest have their level below.

    Raises:
      ImportError: if matplotlib is missing.
      ValueError: if the two sequences differ in alterations or order, or are empty.
    """
    assessments = checked_sequence(
        "assessments", assessments, Assessment, "jaxrob.Assessment"
    )
    alterations = checked_sequence(
        "alterations", alterations, Alteration, "jaxrob.Alteration"
    )
    columns = checked_integer("columns", columns, at_least=1)
    num_examples = checked_integer("num_examples", num_examples, at_least=1)
    check_key(key)
    copies = np.stack([_checked_image(image)] * num_examples)
    wanted = [one.alteration for one in assessments]
    if (given := [one.name for one in alterations]) != wanted:
        raise ValueError(
            f"alterations must be those of assessments, in order, {wanted}; got {given}"
        )
    columns = min(columns, len(assessments))
    rows = math.ceil(len(assessments) / columns)
    whole = new_figure(3.6 * columns, 3.4 * rows)
    panels = whole.subfigures(rows, columns, squeeze=False).flat
    same = np.zeros(num_examples, np.uint32)
    # Labels under all images would overlap.
    labelled = np.unique([0, (num_examples - 1) / 2, num_examples - 1])
    for assessment, alteration, panel in zip(assessments, alterations, panels):
        top, bottom = panel.subplots(2, 1, height_ratios=(5, 1))
        plot(assessment, top)
        levels = np.linspace(alteration.lower, alteration.upper, num_examples)
        levels = alteration.snap(levels)
        canonical = alteration.canonical(levels).astype(np.float32)
        strip = altered(copies, canonical, same, key, alteration)
        # Joined into one picture, with a white pixel between the images.
        strip = np.pad(strip, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=1)
        strip = np.concatenate(list(strip), axis=1)[:, :-1]
        bottom.imshow(strip.clip(0, 1), cmap="gray", vmin=0, vmax=1)
        width = (strip.shape[1] + 1) / num_examples
        shown = np.interp(labelled, np.arange(num_examples), levels)
        names = [f"{level:.3g}" for level in shown]
        bottom.set_xticks(width * (labelled + 0.5) - 1, names, fontsize=7)
        bottom.tick_params(length=0, pad=1)
        bottom.set_yticks([])
        bottom.set_frame_on(False)
    return whole


def examples(
    alteration: Alteration, image: np.ndarray, levels: np.ndarray, key: jax.Array
) -> np.ndarray:
    """Alters one image at several levels.

    Args:
      alteration: the alteration.
      image: `[H, W, C]`, uint8 or float in [0, 1].
      levels: `[L]`, within the range.
      key: a random key, used if the alteration is stochastic.

    Returns:
      float32 `[L, H, W, C]`.

    Raises:
      ValueError: if a level lies outside the range.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    original = as_floats(_checked_image(image))
    if key is not None:
        check_key(key)
    checked_array("levels", levels, "L")
    alter = jax.vmap(lambda level: alteration(original, level, key))
    levels = alteration.canonical(levels)
    return np.asarray(jax.jit(alter)(jnp.asarray(levels, jnp.float32)))


def _checked_image(image: Any) -> np.ndarray:
    image = checked_array("image", image, "H, W, C", at_least=0, at_most=255)
    if image.dtype != np.uint8:
        image = checked_array("image", image, "H, W, C", at_least=0, at_most=1)
    return image


def checked_axes(axes: Any, size: tuple[float, float] = (5, 3.2)) -> Any:
    if axes is None:
        return new_figure(*size).add_subplot()
    if not hasattr(axes, "axvspan"):
        raise TypeError(f"axes must be axes of matplotlib; got {named(axes)}")
    return axes


def new_figure(width: float, height: float) -> Any:
    pyplot = required("matplotlib.pyplot", "a plot", "command")
    # Without a screen or a notebook nobody sees and closes figures: only the last one
    # stays open, for pyplot.savefig.
    name = "jaxrob" if pyplot.get_backend().lower() == "agg" else None
    if name:
        pyplot.close(name)
    return pyplot.figure(name, (width, height), layout="constrained")


def literal(name: str) -> str:
    """Escapes a name, so that matplotlib reads no formula and its legend shows it."""
    text = name.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def axis_label(quantity: str, unit: str) -> str:
    return f"{quantity} [{unit}]" if unit else quantity


def value_label(one: Assessment) -> str:
    measure = in_words(one.measure)
    return f"{measure} (own answers)" if one.is_stability else measure


def common_threshold(assessments: Sequence[Assessment]) -> float | None:
    first, *others = {one.threshold for one in assessments}
    return None if others else first


def _frame(axes: Any, assessment: Assessment, images: str) -> None:
    margin = MARGIN * (assessment.upper - assessment.lower)
    axes.set_xlim(assessment.lower - margin, assessment.upper + margin)
    if (listed := listed_levels(assessment)) is not None:
        axes.set_xticks([*listed], [*map(literal, listed.values())])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"{axis_label('level', assessment.unit)}{images}")


def _line(
    axes: Any,
    assessment: Assessment,
    values: np.ndarray,
    name: str,
    index: int,
    number: int,
) -> Any:
    """Draws one of several lines; earlier lines are wider and stay visible beneath."""
    style, levels = LINES[index], assessment.levels
    below, are_points = number - 1 - index, assessment.listed is not None
    width = 1.4 + 1.8 * below
    if index and not are_points:
        # A white edge separates the line from a wider one beneath.
        axes.plot(levels, values, color="white", linewidth=width + 0.5)
    (line,) = axes.plot(
        levels,
        values,
        color=style.colour,
        linestyle="none" if are_points else style.linestyle,
        linewidth=width,
        marker=style.marker if len(levels) <= MOST_MARKS else None,
        markersize=4 + 2.2 * below,
        markeredgecolor="white",
        markeredgewidth=0.6,
        label=literal(name),
    )
    return line
