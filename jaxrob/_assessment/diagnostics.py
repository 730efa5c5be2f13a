"""Diagnostics of a sampled curve: signs that results drawn from it are misleading."""

import math
from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._codec import Integer, Number
from jaxrob.metrics._curvature import (
    between_counts,
    middle_deviation,
    open_width,
    sharpest,
)
from jaxrob.strategies import History, Task
from jaxrob.strategies._strategy import checked_asked

# Triples of levels that span at most this share of the range reveal jitter.
_CLOSE = 1 / 64
# In 117 runs of ASAP on real curves, 9 in 10 stay below 12, and most of the others have
# a jump. Of runs whose levels each have random numbers of their own, half exceed 59.
_MOST_JITTER = 12.0
_MOST_PLATEAU = 0.02
# A crossing missed in a narrower interval changes little.
_WIDE = 1 / 32
# Four constants decide what the sign "margin" warns of. They were chosen on curves of
# the generator "first" of experiments/asap_warnings.py: of 1,400 smooth curves and
# 1,400 near the threshold, 58 and 45 draw a false warning; of 431 jagged ones whose
# bound fails, 15 draw none.
#
# The share of the images whose answers at a level are accidents. With 0, 159 near
# curves draw a warning; with twice this share, 19 jagged ones draw none.
_ACCIDENTS = 0.0012
# A curve that falls from its best level on both sides changes side twice. With 2, 247
# smooth curves would be taken to be jagged; with 4, 27 jagged ones would pass.
_CHANGES = 3
# The least roughness that draws a warning, as a share of the margin. With twice as
# much, 21 jagged curves pass; with half, near ones draw 3 times as many warnings.
_MOST_ROUGHNESS = 0.2
# The least bend that draws a warning; one of 1 reaches the threshold. With 0.5, 27
# smooth curves draw one; a curve of the 2020 paper's authors fails with a bend of 0.37.
_MOST_BEND = 0.34
_WIDEST_UNSEEN = 0.2
# A level's nearer neighbour is at least this share of the farther one's distance away.
_COMPARABLE = 0.5 * (1 - 1e-9)
# An interval may miss its bound by this share of its width through rounding.
_ROUNDING = 1e-6

_MORE_LEVELS = (
    "More levels tell: --levels=65, or in Python strategies.Uniform(65) or "
    "strategies.ASAP(concavity=128)."
)
#: The warnings of `Diagnostics`, the gravest first.
SIGNS = ("jitter", "unseen", "margin", "plateau")
# At least 0; NaN where unknown.
_Found = Annotated[float, Number(at_least=0, may_be_nan=True)]


class Diagnostics(NamedTuple):
    """Diagnostics of a sampled curve.

    Attributes:
      points: the number of levels evaluated; levels of the same effect count once.
      rounds: the number of rounds in which images were classified.
      widest_interval: the share of the range of the widest interval without a level
        inside. An excursion narrower than that may have been missed.
      jitter: the mean square deviation of values from their close neighbours, in units
        of what the number of inputs explains; about 1 for an accuracy curve whose
        levels share their random numbers. NaN where no three levels are close.
      plateau: the share of the range where the curve is so close to the threshold that
        a few inputs decide whether it is accepted.
      margin: the distance from the threshold of the middle of the line between two
        neighbouring levels on the same side; the least over intervals as wide as a 32nd
        of the range or wider. NaN where there are none.
      roughness: the largest deviation of a level from the line between its neighbours,
        beyond what the number of inputs explains, if levels lie alternately above and
        below such lines: up, down, up and down again. 0 for a curve that falls smoothly
        from its best level; NaN where unknown.
      bend: in the same intervals, the bend that the levels around show, as a share of
        that of a parabola that would touch the threshold; the largest. NaN where
        unknown.
      half_met: the width of an excursion across the threshold that a level meets with
        probability 1/2, if its place in the range is uniformly distributed, as a share
        of the range. An excursion as wide as `widest_interval` is always met.
    """

    points: Annotated[int, Integer(at_least=1)]
    rounds: Annotated[int, Integer(at_least=0)]
    widest_interval: _Found
    jitter: _Found
    plateau: _Found
    margin: _Found
    roughness: _Found
    bend: _Found
    half_met: _Found

    @staticmethod
    def of(task: Task, history: History) -> "Diagnostics":
        """The diagnostics of a curve that `jaxrob.strategies.sample` looked at.

        Args:
          task: the task.
          history: one level or more, each with an effect of its own.

        Raises:
          TypeError: if one has a wrong type.
          ValueError: if there is no level, or a level lies outside the range.
        """
        task = checked_asked(task, history)
        return diagnose(task, history, len(history.levels))

    @property
    def excursions(self) -> str:
        """The excursions across the threshold that levels may have missed, in words.

        A missed excursion leaves no sign, and is in neither the error bound nor the
        confidence interval.
        """
        return (
            "A dip or peak that lies beyond the threshold over "
            f"{_percent(self.widest_interval)} of the range is seen for sure, one over "
            f"{_percent(self.half_met)} in half of the places where it may be. One "
            "that lies between levels leaves no sign, and is in neither the error "
            "bound nor the interval."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, a sentence or more each."""
        return tuple(self.signs.values())

    @property
    def signs(self) -> dict[str, str]:
        """The warnings by their causes, which are among `SIGNS`; the gravest first."""
        found = {}
        if self.jitter > _MOST_JITTER:
            found["jitter"] = (
                f"Values jump between close levels (jitter {self.jitter:.0f}, about 1 "
                "is usual). Either the alteration is not continuous there, or the "
                "levels do not share their random numbers; then neither the robustness "
                "from few levels nor its error bound can be relied on. Let the key "
                "alone decide what is drawn, and not the level."
            )
        if self.widest_interval > _WIDEST_UNSEEN * (1 + _ROUNDING):
            found["unseen"] = (
                f"An interval of {_percent(self.widest_interval)} of the range holds "
                f"no level: what happens within is not seen. {_MORE_LEVELS}"
            )
        if self.roughness > _MOST_ROUGHNESS * self.margin:
            found["margin"] = (
                "The curve is jagged: levels lie above and below the lines between "
                f"their neighbours in turn, by up to {_points(self.roughness)}. "
                "Between two levels that are far apart, where it is within "
                f"{_points(self.margin)} of the threshold, it may cross and come back "
                "unseen; then the error bound is too small, as on a tenth to a fifth "
                f"of random curves with this warning. {_MORE_LEVELS}"
            )
        elif self.bend >= _MOST_BEND:
            found["margin"] = (
                "The curve bends sharply beside two levels that are far apart: if it "
                f"bends {1 / self.bend:.1f} times as sharply between them, it crosses "
                "the threshold and comes back unseen; then the error bound is too "
                "small, as on one in a hundred random curves with this warning. "
                f"{_MORE_LEVELS}"
            )
        if self.plateau > _MOST_PLATEAU:
            found["plateau"] = (
                f"In {_percent(self.plateau)} of the range the measure is within a few "
                "images of the threshold: there, chance decides what is accepted. More "
                "images tell."
            )
        return found


def severity(found: Diagnostics, sign: str) -> float:
    """How grave a warning is beside others of its cause, one of `SIGNS`."""
    if sign == "jitter":
        return found.jitter
    if sign == "unseen":
        return found.widest_interval
    if sign == "plateau":
        return found.plateau
    if found.roughness > _MOST_ROUGHNESS * found.margin:
        # Graver than any bend.
        return 1 + found.roughness
    return 1 - 1 / (1 + found.bend)


def diagnose(
    task: Task, history: History, points: int, are_listed: bool = False
) -> Diagnostics:
    if are_listed:  # Nothing lies between them, so nothing is missed there.
        nan = math.nan
        return Diagnostics(points, history.rounds, 0, nan, nan, nan, nan, nan, 0)
    positions = task.positions_of(history.levels)
    num_inputs = history.typical_inputs
    ends = np.concatenate([[0.0], positions, [1.0]])
    plateau = open_width(positions, history.values, task.threshold, num_inputs)
    # A step between levels of the same effect is not jitter.
    distinct = history.distinct
    positions, values = positions[distinct], history.values[distinct]
    above = values >= task.threshold
    wide = np.diff(positions) >= _WIDE * (1 - _ROUNDING)
    # Where a few inputs decide the side, the plateau is the sign.
    clear = open_width(positions, values, task.threshold, num_inputs) == 0
    undivided = wide & clear & (above[:-1] == above[1:])
    return Diagnostics(
        points,
        history.rounds,
        float(np.diff(ends).max()),
        _jitter(positions, values, num_inputs),
        # The curve is close to the threshold beside a crossing too, but only briefly.
        math.fsum(plateau),
        _margin(values, task.threshold, undivided),
        _roughness(positions, values, num_inputs),
        _bend(positions, values, task.threshold, num_inputs, undivided),
        met_width(np.diff(ends), 0.5),
    )


def met_width(gaps: np.ndarray, chance: float) -> float:
    """Returns the width of an excursion that a level meets with a probability."""
    # One of width w is missed within a gap: `sum(max(gap - w, 0)) / (1 - w)`.
    # The sum is the maximum over k of the k widest gaps' sum less k times w.
    widest = np.sort(gaps)[::-1]
    missed = 1 - chance
    widths = (np.cumsum(widest) - missed) / (np.arange(len(gaps)) + 1 - missed)
    return float(widths.max())


def diagnose_few(task: Task, history: History, points: int) -> Diagnostics:
    """Diagnoses a curve of which a few images were looked at; see `diagnose`."""
    # The interval covers what lies between levels, and values of different numbers of
    # images show no roughness.
    unknown = dict.fromkeys(("jitter", "margin", "roughness", "bend"), math.nan)
    return diagnose(task, history, points)._replace(**unknown)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(difference: float) -> str:
    return f"{100 * difference:.2g} percentage points"


def _margin(values: np.ndarray, threshold: float, undivided: np.ndarray) -> float:
    if not undivided.any():
        return math.nan
    middles = (values[:-1] + values[1:]) / 2
    return float(np.abs(middles - threshold)[undivided].min())


def _bend(
    positions: np.ndarray,
    values: np.ndarray,
    threshold: float,
    num_inputs: int | None,
    undivided: np.ndarray,
) -> float:
    if len(positions) < 3 or not undivided.any():
        return math.nan
    distance = np.abs(values - between_counts(threshold, num_inputs))
    # A parabola of concavity a touches the threshold within an interval h wide if
    # sqrt(a) h = sqrt(distance at one end) + sqrt(distance at the other).
    reach = np.sqrt(distance[:-1]) + np.sqrt(distance[1:])
    touching = np.square(reach / np.diff(positions))
    shown = sharpest(positions, values, num_inputs, _accidents(values, num_inputs))
    at_once = touching <= 0
    share = np.where(at_once, 0.0, shown / np.where(at_once, 1.0, touching))
    return float(share[undivided].max())


def _roughness(
    positions: np.ndarray, values: np.ndarray, num_inputs: int | None
) -> float:
    if len(positions) < 3:
        return math.nan
    # Neighbours at comparable distances: otherwise the closer one carries no
    # information.
    apart = np.maximum(np.diff(positions)[:-1], np.diff(positions)[1:]) * _COMPARABLE
    middle = np.arange(1, len(positions) - 1)
    inner = positions[1:-1]
    left = np.searchsorted(positions, inner - apart, side="right") - 1
    right = np.searchsorted(positions, inner + apart, side="left")
    there = (left >= 0) & (right < len(positions))
    triples = np.stack([left, middle, right])[:, there]
    deviation, expected = middle_deviation(
        positions[triples],
        values[triples],
        num_inputs,
        _accidents(values, num_inputs)[triples],
    )
    excess = np.maximum(np.abs(deviation) - 2 * expected, 0)
    sides = np.sign(deviation[excess > 0])
    jagged = np.count_nonzero(np.diff(sides)) >= _CHANGES
    return float(excess.max()) if jagged else 0.0


def _accidents(values: np.ndarray, num_inputs: int | None) -> np.ndarray:
    variance = 0.0 if num_inputs is None else _ACCIDENTS / num_inputs
    return np.full(len(values), math.sqrt(variance))


def _jitter(positions: np.ndarray, values: np.ndarray, num_inputs: int | None) -> float:
    if len(positions) < 3 or num_inputs is None:
        return math.nan
    triples = np.arange(len(positions) - 2) + np.arange(3)[:, None]
    close = np.ptp(positions[triples], axis=0) <= _CLOSE
    if not close.any():
        return math.nan
    triples = triples[:, close]
    deviation, expected = middle_deviation(
        positions[triples], values[triples], num_inputs
    )
    return float(np.mean(np.square(deviation / expected)))
