"""Plots of several curves over the level, by measure or by network."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import check_type, checked_names, checked_sequence
from jaxrob._assessment.assessment import Assessment
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics import wilson
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._axes import checked_axes, draw_band, frame, literal
from jaxrob.reporting._few import images_at_levels
from jaxrob.reporting._style import LINES, MOST_MARKS, THRESHOLD, common_threshold


def plot_measures(assessment: Assessment, axes: Any = None) -> Any:
    """Plots accuracy, decided ratio and effectiveness over the level, with bands.

    The bands are pointwise: `jaxrob.metrics.bands` for accuracy and effectiveness,
    Wilson's for the decided ratio. Without alpha all inputs are decided, and only the
    accuracy is drawn; of a score, the mean score. The number of images at each level
    stands below.

    Args:
      assessment: the assessment, whatever its measure.
      axes: matplotlib axes to draw on; by default those of a new figure.

    Returns:
      The axes.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
    """
    check_type("assessment", assessment, Assessment, "a jaxrob.Assessment")
    axes = checked_axes(axes)
    lines = _lines(assessment)
    for index, (name, (values, band)) in enumerate(lines.items()):
        line = _line(axes, assessment.levels, values, name, index, len(lines))
        draw_band(axes, assessment.levels, *band, line.get_color())
    axes.axvline(assessment.identity, color="0.35", linestyle=":", linewidth=1)
    frame(axes, assessment, f"; {images_at_levels(assessment)} images at each level")
    is_score = isinstance(assessment.curve, ScoreCurve)
    axes.set_ylabel("score" if is_score else "share of images")
    axes.set_title(assessment.alteration, fontsize=10)
    axes.legend(fontsize=8)
    return axes


def plot_networks(
    assessments: Sequence[Assessment],
    names: Sequence[str],
    axes: Any = None,
) -> Any:
    """Plots the measure over the level of several networks, for the same alteration.

    Coinciding lines stay distinguishable: each is thinner than the one before, with
    smaller marks, and all differ in dashes.

    Args:
      assessments: one for each network, at most six, of one alteration, range and
        measure.
      names: the networks' names.
      axes: matplotlib axes to draw on; by default those of a new figure.

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
        _line(axes, one.levels, one.values, name, index, len(names))
    if (threshold := common_threshold(assessments)) is not None:
        axes.axhline(threshold, color=THRESHOLD, linestyle="--", linewidth=1)
    axes.axvline(first.identity, color="0.35", linestyle=":", linewidth=1)
    images = dict.fromkeys(images_at_levels(one) for one in assessments)
    frame(axes, first, f"; {' or '.join(sorted(images, key=len))} images")
    axes.set_ylabel(literal(in_words(first.measure)))
    axes.set_title(first.alteration, fontsize=10)
    axes.legend(fontsize=8)
    return axes


def _lines(
    one: Assessment,
) -> dict[str, tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Returns values and bands by name."""
    curve, level = one.curve, one.confidence_level
    if isinstance(curve, ScoreCurve):
        return {
            one.measure: (one.values, metrics.bands(one.counts, one.measure, level))
        }
    counts = curve.counts
    lines = {"accuracy": (curve.accuracy, metrics.bands(counts, "accuracy", level))}
    if curve.alpha is not None:
        total = counts.summed()
        lines["decided ratio"] = (
            one.decided_ratio,
            wilson(total.decided, total.decided + total.unknown),
        )
        lines["effectiveness"] = (
            curve.effectiveness,
            metrics.bands(counts, "effectiveness", level),
        )
    return lines


def _line(
    axes: Any,
    levels: np.ndarray,
    values: np.ndarray,
    name: str,
    index: int,
    number: int,
) -> Any:
    """Draws one of several lines; earlier lines are wider and stay visible beneath."""
    style = LINES[index]
    below = number - 1 - index
    width = 1.4 + 1.8 * below
    if index:
        # A white edge separates the line from a wider one beneath.
        axes.plot(levels, values, color="white", linewidth=width + 0.5)
    (line,) = axes.plot(
        levels,
        values,
        color=style.colour,
        linestyle=style.linestyle,
        linewidth=width,
        marker=style.marker if len(levels) <= MOST_MARKS else None,
        markersize=4 + 2.2 * below,
        markeredgecolor="white",
        markeredgewidth=0.6,
        label=literal(name),
    )
    return line
