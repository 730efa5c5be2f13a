"""How a curve was sampled, and signs that numbers drawn from it deceive."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import middle_deviation
from jaxrob.metrics._finite_inputs import open_width
from jaxrob.strategies import Question, Samples

# Triples of levels that span no more than this share of the range tell jitter.
_CLOSE = 1 / 64
# Of 117 runs of ASAP on real curves 9 in 10 stay below 12, and most of the others have
# a jump. Of runs whose levels each have random numbers of their own, half exceed 59.
_MOST_JITTER = 12.0
_MOST_PLATEAU = 0.02
# Intervals that an adaptive strategy left undivided early are at least as wide.
_WIDE = 1 / 16
# Of 40 curves published by the 2020 paper's authors, ASAP's bound fails on two, which
# have excursions narrower than its first intervals. Both, and 8 others, come within
# this many times their roughness of the threshold.
_MOST_ROUGHNESS = 2.0
_WIDEST_UNSEEN = 0.2
# By this share of its width an interval may miss its bound through rounding.
_ROUNDING = 1e-6


_MORE_LEVELS = (
    "More levels tell: --levels=65, or in Python strategies.Uniform(65) or "
    "strategies.ASAP(concavity=128)."
)
#: What `Diagnostics` may warn of, the gravest first.
SIGNS = ("jitter", "unseen", "margin", "plateau")


class Diagnostics(NamedTuple):
    """How a curve was sampled.

    Attributes:
      points: the levels evaluated; of levels with the same effect, one counts.
      rounds: the frontiers they were evaluated in.
      widest_interval: the share of the range of the widest interval without a level
        inside. An excursion narrower than that may have been missed.
      jitter: the mean square deviation of values from their close neighbours, in units
        of what the number of inputs explains; about 1 for an accuracy curve whose
        levels share their random numbers. NaN where no three levels are close.
      plateau: the share of the range where the curve is so close to the threshold that
        a few inputs decide whether it is accepted.
      margin: how far the line between two neighbouring levels on the same side is from
        the threshold, in its middle; the least of intervals that take up a 16th of the
        range or more. NaN where there are none.
      roughness: by how much a level is off the line between its neighbours, at most,
        beyond what the number of inputs explains; NaN where it is not known.
    """

    points: int
    rounds: int
    widest_interval: float
    jitter: float
    plateau: float
    margin: float
    roughness: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to beware of, a sentence each."""
        return tuple(self.signs.values())

    @property
    def signs(self) -> dict[str, str]:
        """The warnings by their causes, which are `SIGNS`; the gravest first."""
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
        if self.margin <= _MOST_ROUGHNESS * self.roughness:
            found["margin"] = (
                "Between two levels that are far apart the measure may cross the "
                f"threshold and come back unseen: it is within {100 * self.margin:.2g} "
                "percentage points of the threshold there, and elsewhere it strays by "
                f"up to {100 * self.roughness:.2g} from the straight line between its "
                f"neighbours. {_MORE_LEVELS}"
            )
        if self.plateau > _MOST_PLATEAU:
            found["plateau"] = (
                f"In {_percent(self.plateau)} of the range the measure is within a few "
                "images of the threshold: there, chance decides what is accepted. More "
                "images tell."
            )
        return found


def diagnose(question: Question, samples: Samples, points: int) -> Diagnostics:
    """Diagnostics of a sampled curve.

    Args:
      question: the question it was sampled for.
      samples: all that the strategy asked for, at least one level.
      points: how many levels were evaluated; of levels of the same effect, one is.
    """
    positions = question.positions_of(samples.levels)
    num_inputs = samples.typical_inputs
    ends = np.concatenate([[0.0], positions, [1.0]])
    plateau = open_width(positions, samples.values, question.threshold, num_inputs)
    # A step between levels of the same effect is no jitter.
    distinct = samples.distinct
    positions, values = positions[distinct], samples.values[distinct]
    return Diagnostics(
        points,
        samples.rounds,
        float(np.diff(ends).max()),
        _jitter(positions, values, num_inputs),
        # Beside a crossing the curve is close to the threshold too, but not for long.
        math.fsum(plateau),
        _margin(positions, values, question.threshold),
        _roughness(positions, values, num_inputs),
    )


def diagnose_few(question: Question, samples: Samples, points: int) -> Diagnostics:
    """Diagnostics of a curve of which a few images were looked at; see `diagnose`.

    What lies between levels is in the interval; and values of different numbers of
    images tell no roughness.
    """
    nan = math.nan
    found = diagnose(question, samples, points)
    return found._replace(jitter=nan, margin=nan, roughness=nan)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _margin(positions: np.ndarray, values: np.ndarray, threshold: float) -> float:
    above = values >= threshold
    wide = np.diff(positions) >= _WIDE * (1 - _ROUNDING)
    undivided = wide & (above[:-1] == above[1:])
    if not undivided.any():
        return math.nan
    middles = (values[:-1] + values[1:]) / 2
    return float(np.abs(middles - threshold)[undivided].min())


def _roughness(
    positions: np.ndarray, values: np.ndarray, num_inputs: int | None
) -> float:
    if len(positions) < 3:
        return math.nan
    triples = _triples(len(positions))
    deviation, expected = middle_deviation(
        positions[triples], values[triples], num_inputs
    )
    return float(np.maximum(np.abs(deviation) - 2 * expected, 0).max())


def _triples(number: int) -> np.ndarray:
    """Indices `[3, number - 2]` of neighbouring levels."""
    return np.arange(number - 2) + np.arange(3)[:, None]


def _jitter(positions: np.ndarray, values: np.ndarray, num_inputs: int | None) -> float:
    if len(positions) < 3 or num_inputs is None:
        return math.nan
    triples = _triples(len(positions))
    close = np.ptp(positions[triples], axis=0) <= _CLOSE
    if not close.any():
        return math.nan
    triples = triples[:, close]
    deviation, expected = middle_deviation(
        positions[triples], values[triples], num_inputs
    )
    return float(np.mean(np.square(deviation / expected)))
