"""How many inputs and draws a stated half width of the global robustness takes."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_integer, checked_number
from jaxrob.roma._bounded_mean import lower_limit, narrower_than_binary
from jaxrob.roma._count import clopper_pearson

_MOST_INPUTS = 2**31 - 1
# Draws that are tried where the number is left open. `assess` takes no fewer.
_DRAWS = 2 ** np.arange(3, 13)
# How exactly the number of inputs is found.
_RELATIVE = 1 / 512
# Correlations this near to 0 or 1 are taken as that.
_NEXT_TO_NONE = 1e-9


class SampleSize(NamedTuple):
    """A plan for `global_robustness`.

    Attributes:
      inputs: inputs of the category.
      num_samples: plain draws for each.
      evaluations: forward passes, one for each draw and one for each input.
    """

    inputs: int
    num_samples: int
    evaluations: int


def inputs_needed(
    probability: float,
    *,
    half_width: float | None = None,
    relative: float | None = None,
    num_samples: int | None = None,
    correlation: float = 1.0,
    confidence_level: float = 0.95,
    categories: int = 1,
) -> SampleSize:
    """How many inputs of a category, and draws for each, a stated half width takes.

    Example::

        pilot = jaxrob.roma.global_robustness(classifier, few, by="all", key=key)
        plan = jaxrob.roma.inputs_needed(
            pilot.probability[0], relative=0.5, correlation=pilot.correlation[0]
        )
        print(plan.inputs, plan.num_samples)

    `GlobalRobustness.population_interval` is at most as wide as asked for in about half
    of all cases. Take 10 % more inputs to be surer. It is computed for expected numbers
    of hits, as if the inputs' own probabilities were Beta distributed.

    Args:
      probability: the global probability, assumed or by a pilot, in (0, 1).
      half_width: half of the interval's width, in (0, 1/2).
      relative: that, divided by the probability; one of the two is needed.
      num_samples: draws for each input; by default those that take the fewest forward
        passes, at least 8.
      correlation: how alike the draws at one input are, in [0, 1], as
        `GlobalRobustness.correlation` estimates it. At 1, the worst case, further draws
        at the same input tell nothing.
      confidence_level: at least 0.5.
      categories: how many categories' intervals hold together.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a number is out of range, none or both of half_width and relative
        are given, or more than 2**31 - 1 inputs would be needed.
    """
    probability = checked_number("probability", probability, above=0, below=1)
    wanted = _wanted(probability, half_width, relative)
    correlation = checked_number("correlation", correlation, at_least=0, at_most=1)
    confidence_level = checked_number(
        "confidence_level", confidence_level, at_least=0.5, below=1
    )
    categories = checked_integer("categories", categories, at_least=1)
    tail = (1 - confidence_level) / 2 / categories
    tried = _DRAWS.tolist()
    if num_samples is not None:
        tried = [checked_integer("num_samples", num_samples, at_least=1, at_most=2**16)]
    best = None
    for draws in tried:
        of_inputs = functools.partial(_width, probability, correlation, draws, tail)
        inputs = _fewest(of_inputs, 2 * wanted)
        plan = SampleSize(inputs, draws, inputs * (1 + draws))
        if best is not None and plan.evaluations >= best.evaluations:
            break
        best = plan
    assert best is not None
    return best


def _wanted(
    probability: float, half_width: float | None, relative: float | None
) -> float:
    """The half width asked for."""
    if (half_width is None) == (relative is None):
        raise ValueError(
            "half_width or relative is needed, and not both; got "
            f"half_width={half_width}, relative={relative}"
        )
    if half_width is not None:
        return checked_number("half_width", half_width, above=0, below=0.5)
    return probability * checked_number("relative", relative, above=0)


def _fewest(width: Callable[[int], float], wanted: float) -> int:
    """The smallest number of inputs whose width will do, to a few in a thousand."""
    low, high = 0, 1
    while width(high) > wanted:
        low, high = high, 2 * high
        if high > _MOST_INPUTS:
            raise ValueError(
                f"half_width or relative must be larger: {_MOST_INPUTS} inputs are not "
                f"enough for a half width of {wanted / 2:g}"
            )
    while high - low > max(1, _RELATIVE * high):
        middle = (low + high) // 2
        low, high = (middle, high) if width(middle) > wanted else (low, middle)
    return high


def _width(
    probability: float, correlation: float, draws: int, tail: float, number: int
) -> float:
    """The width of the interval without assumptions, at expected numbers of hits."""
    if draws == 1:
        ends = clopper_pearson(np.array(number * probability), number, 1 - 2 * tail)
        return float(ends[1] - ends[0])
    shares, weights = _distribution(probability, correlation, draws)
    narrower = narrower_than_binary(draws)
    low, below = (
        lower_limit(values, number * weights, tail, narrower)
        for values in (shares, 1 - shares)
    )
    return 1 - below - low


@functools.lru_cache(maxsize=32)
def _distribution(
    probability: float, correlation: float, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of hits, and how probable each is."""
    hits = np.arange(draws + 1)
    # Of numbers so near the ends, the beta distribution's would overflow.
    if correlation < _NEXT_TO_NONE:
        return hits / draws, scipy.stats.binom.pmf(hits, draws, probability)
    if correlation > 1 - _NEXT_TO_NONE:
        return np.array([0.0, 1.0]), np.array([1 - probability, probability])
    ends = np.array([probability, 1 - probability]) * (1 / correlation - 1)
    return hits / draws, scipy.stats.betabinom.pmf(hits, draws, *ends)
