"""An assessment by the values of a column: each scanner's, each site's robustness."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import as_written, check_choice, checked_array
from jaxrob._assessment.assessment import Assessment, ScoreFacts
from jaxrob._assessment.diagnostics import diagnose
from jaxrob._curve import Curve, ScoreCurve
from jaxrob._metadata import ImageTable
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._counts import quotient
from jaxrob.metrics._curvature import open_width
from jaxrob.metrics._measures import any_measure
from jaxrob.strategies import History, Task

# More slices than this are most likely a column that tells single images apart.
_MOST = 1000
#: How the names of measures end in which each group counts once.
OF_GROUPS = " of groups"


class Slice(NamedTuple):
    """The images with one value of a column.

    Attributes:
      value: the value, as text; of bins "[0, 40)".
      assessment: of these images alone, at the levels that all of them were assessed
        at; its `error_bound` is its own.
      joint_interval: its confidence interval with simultaneous coverage of all slices,
        by Bonferroni's inequality; NaN where the robustness is not known.
    """

    value: str
    assessment: Assessment
    joint_interval: ConfidenceInterval


class Slices(NamedTuple):
    """An assessment by the values of a column of metadata, the least robust first.

    Attributes:
      column: its name.
      slices: a `Slice` for each value that an image has.
    """

    column: str
    slices: tuple[Slice, ...]

    @property
    def worst(self) -> Slice:
        """The slice of the least robustness; it may be so by chance."""
        return self.slices[0]

    @property
    def is_told_apart(self) -> bool:
        """Whether the worst one's joint interval lies below all others'."""
        high = self.worst.joint_interval.high
        return all(high < other.joint_interval.low for other in self.slices[1:])


def by_column(
    whole: Assessment, column: str, bins: Sequence[float] | None = None
) -> Slices:
    """Assesses the images with each value of a column, see `Assessment.by`."""
    curve, table = _answered("by", whole)
    check_choice("column", column, table.columns)
    values, of_image = table.columns[column]
    if bins is not None:
        values, of_image = _binned(column, values, of_image, bins)
    places = np.unique(of_image).tolist()
    if len(places) > _MOST:
        raise ValueError(
            f"column must have at most {_MOST} values; {column!r} has {len(places)}. "
            "Give bins, or a column of fewer"
        )
    level = 1 - (1 - whole.confidence_level) / len(places)
    found = []
    for place in places:
        one = _restated(whole, curve.of_images(of_image == place))
        joint = ConfidenceInterval(math.nan, math.nan)
        if not math.isnan(one.robustness):
            joint = dataclasses.replace(one, confidence_level=level).confidence_interval
        found.append(Slice(values[place], one, joint))
    return Slices(column, tuple(sorted(found, key=_order)))


def of_groups(whole: Assessment) -> Assessment:
    """Assesses groups in place of images, see `Assessment.of_groups`."""
    curve, table = _answered("of_groups", whole)
    if table.groups is None:
        raise ValueError("of_groups needs a data set with groups, Dataset(groups=)")
    if isinstance(curve, ScoreCurve):
        scores = curve.scores
    elif whole.measure == "accuracy":
        scores = np.where(curve.unknown, np.nan, curve._is_right)
    else:
        raise ValueError(
            f"of_groups needs the accuracy or a mean score; got {whole.measure!r}"
        )
    known = ~np.isnan(scores)
    if not known.any(1).all():
        raise ValueError("of_groups needs an answer that is decided at each level")
    sums, numbers = (
        np.stack([np.bincount(table.groups, row) for row in part])
        for part in (np.where(known, scores, 0.0), known)
    )
    kept = numbers.any(0)
    means = quotient(sums, numbers, np.nan)[:, kept]
    about = ScoreFacts(whole.measure + OF_GROUPS, "1", None)
    provenance = {**whole.provenance, "score": about._asdict()}
    last = np.zeros(sums.shape[1], int)
    last[table.groups] = np.arange(len(table.groups))
    columns = {
        name: one._replace(of_image=one.of_image[last[kept]])
        for name, one in table.columns.items()
        if (one.of_image == one.of_image[last[table.groups]]).all()
    }
    # Of one image each, they have the same intervals as groups of one size.
    alone = ImageTable(np.arange(means.shape[1], dtype=np.int32), columns)
    curve = ScoreCurve(curve.levels, means, about.name, alone)
    whole = dataclasses.replace(whole, measure=curve.measure, provenance=provenance)
    return _restated(whole, curve)


def _answered(what: str, whole: Assessment) -> tuple[Curve | ScoreCurve, ImageTable]:
    if whole.sampling is not None or whole.scores is not None:
        raise ValueError(
            f"{what} needs the answers on all images, each accepted or not; this "
            "assessment is from few of them, or with tolerance. Assess without"
        )
    table = getattr(whole.curve, "table", None)
    if not isinstance(whole.curve, Curve | ScoreCurve) or table is None:
        raise ValueError(
            f"{what} needs a data set with metadata, jaxrob.Dataset(..., metadata="
            "{...}), and a result that keeps the answers"
        )
    return whole.curve, table


def _order(one: Slice) -> tuple[float, str]:
    # Those that are not known come first, for they may be the worst.
    robustness = one.assessment.robustness
    return (-1.0 if math.isnan(robustness) else robustness), one.value


def _restated(whole: Assessment, curve: Curve | ScoreCurve) -> Assessment:
    """Returns the assessment of other answers, at levels chosen for those of all."""
    measure: Any = any_measure(whole.measure)
    counts = curve.counts_for(whole.measure)
    values = np.nan_to_num(measure(counts))
    history = History(
        whole.levels,
        values,
        np.maximum(np.rint(measure.num_inputs(counts)), 1).astype(int),
        rounds=whole.diagnostics.rounds,
    )
    task = Task(whole.lower, whole.upper, whole.threshold, whole.identity)
    bound = whole.error_bound
    are_listed = whole.listed is not None
    if bound is not None and not are_listed:
        # The strategy looked for the crossings of all images' curve, so a slice's
        # may lie in any interval whose ends differ, or that images leave open.
        accepted = values >= whole.threshold
        inputs = history.typical_inputs
        unseen = open_width(whole.levels, values, whole.threshold, inputs)
        crossing = accepted[:-1] != accepted[1:]
        wide = np.where(crossing, np.diff(whole.levels), unseen)
        bound = min(math.fsum(wide) / (whole.upper - whole.lower), 1.0)
    return dataclasses.replace(
        whole,
        curve=curve,
        error_bound=bound,
        diagnostics=diagnose(task, history, whole.diagnostics.points, are_listed),
        warnings=(),
    )


def _binned(
    column: str, values: tuple[str, ...], of_image: np.ndarray, bins: Sequence[float]
) -> tuple[tuple[str, ...], np.ndarray]:
    edges = as_written(checked_array("bins", bins, "n"))
    if len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"bins must be two or more ascending edges; got {bins}")
    try:
        numbers = np.array([float(one) for one in values])
    except ValueError as error:
        raise ValueError(
            f"bins need a column of numbers without missing ones; {column!r}: {error}"
        ) from error
    outside = (numbers < edges[0]) | (numbers > edges[-1])
    if outside.any():
        raise ValueError(
            f"bins must cover the column {column!r}; {numbers[outside][0]:g} lies "
            f"outside [{edges[0]:g}, {edges[-1]:g}]"
        )
    last = len(edges) - 2
    place = np.minimum(np.searchsorted(edges, numbers, side="right") - 1, last)
    names = [
        f"[{low:g}, {high:g}{']' if i == last else ')'}"
        for i, (low, high) in enumerate(zip(edges, edges[1:]))
    ]
    return tuple(names), place[of_image]
