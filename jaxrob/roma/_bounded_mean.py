"""Intervals of the mean of values in [0, 1], and how many inputs they take."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_integer, checked_number
from jaxrob.metrics._testing import clopper_pearson

# The capital's share for calls; all where half reaches less far than Hoeffding.
_CALLS = 0.5
# The bets suit values that spread this much less than zeros and ones of the same mean.
_NARROWER = 2.0
# Below 1: no value loses all, and expected counts may be far below 1.
_LARGEST_BET = 1 - 1e-6
# Cells of shared stakes: a 50th of Hoeffding's half width, or 5 % where less.
_STEPS, _RATIO = 50, 1.05
_BLOCK = 64
# Points at which a cell is searched, in each of two rounds.
_POINTS = 33


class _Stakes(NamedTuple):
    low: np.ndarray  # the cells' lower ends
    high: np.ndarray  # their upper ends
    calls: np.ndarray  # the share of the capital that buys calls
    strike: np.ndarray  # the sum beyond which calls pay, an integer
    bet: np.ndarray  # the share of the rest that each value puts at stake


def mean_interval(
    low: np.ndarray,
    high: np.ndarray,
    tail: float,
    draws: int | None = None,
    groups: np.ndarray | None = None,
) -> tuple[float, float]:
    """The interval of the mean of independent values, or groups of values."""
    if groups is not None:
        # Sums by the largest size lie in [0, 1]. That the mean of their means is the
        # candidate will do: bets by geometric means, calls by Hoeffding (1956, th. 3).
        _, of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        low, high = (np.bincount(of, one) / sizes.max() for one in (low, high))
        ends = np.divide(mean_interval(low, high, tail), sizes.mean() / sizes.max())
        return float(ends[0]), min(float(ends[1]), 1.0)
    # A stake grown to 1 / tail rejects a candidate (Markov). Half bets on each value
    # (Waudby-Smith, Ramdas 2024), half buys calls on the sum (Hoeffding 1963, th. 4).
    if draws == 1:
        ends = clopper_pearson(low.sum(), len(low), 1 - 2 * tail)
        return float(ends[0]), float(ends[1])
    narrower = narrower_than_binary(draws)
    lower = lower_limit(*np.unique(low, return_counts=True), tail, narrower)
    above = lower_limit(*np.unique(1 - high, return_counts=True), tail, narrower)
    return lower, 1 - above


def narrower_than_binary(draws: int | None) -> float:
    """How much less than zeros and ones the values spread that the bets suit."""
    return _NARROWER if draws is None else min(_NARROWER, draws**0.5)


def lower_limit(
    values: np.ndarray, weights: np.ndarray, tail: float, narrower: float
) -> float:
    values, weights = values[weights > 0], weights[weights > 0]
    number, total = round(float(weights.sum())), float(values @ weights)
    mean = min(total / number, 1.0)
    if mean == 0:
        return 0.0
    # Calls reject all lower ones: an expected shortfall is at most mean over tail.
    lowest = max(mean - _hoeffding(number, tail), _CALLS * tail * mean / _RATIO)
    stakes = _stakes_between(lowest, mean, number, tail, narrower)
    goal = -np.log(tail)

    def rejected(stakes: _Stakes, candidates: np.ndarray) -> np.ndarray:
        return _log_capital(stakes, candidates, number, values, weights) >= goal

    # The cell of the mean itself is never rejected as a whole.
    found = np.argmin(np.append(rejected(stakes, stakes.high)[:-1], False))
    low, high = stakes.low[found], stakes.high[found]
    here = _Stakes(*(part[[found]] for part in stakes))
    for _ in range(2):
        candidates = np.linspace(low, high, _POINTS)
        last = max(np.count_nonzero(rejected(here, candidates)) - 1, 0)
        low, high = candidates[last], candidates[min(last + 1, _POINTS - 1)]
    return float(min(low, mean))


def _log_capital(
    stakes: _Stakes,
    candidates: np.ndarray,
    number: int,
    values: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """`[M]` the logarithm of the capital, from 1, after bets against each candidate."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pay = np.maximum(values @ weights - stakes.strike, 0)
        expected = _expected_excess(number, candidates, stakes.strike)
        # Where nothing exceeds the strike, calls pay nothing.
        calls = np.where(pay > 0, np.log(stakes.calls * pay / expected), -np.inf)
        gains = stakes.bet[:, None] * (values / candidates[:, None] - 1)
        bets = np.log1p(-stakes.calls) + np.log1p(gains) @ weights
    return np.logaddexp(calls, bets)


def _stakes_between(
    low: float, high: float, number: int, tail: float, narrower: float
) -> _Stakes:
    first, last = _cell(np.array([low, high]), number, tail)
    start, stop = first // _BLOCK, last // _BLOCK + 1
    blocks = [_stakes(number, tail, narrower, block) for block in range(start, stop)]
    chosen = slice(first - start * _BLOCK, last + 1 - start * _BLOCK)
    return _Stakes(*(np.concatenate(parts)[chosen] for parts in zip(*blocks)))


@functools.lru_cache(maxsize=256)
def _stakes(number: int, tail: float, narrower: float, block: int) -> _Stakes:
    """The stakes of a block of cells, fixed before the values are seen."""
    cells = block * _BLOCK + np.arange(_BLOCK + 1)
    edges = np.minimum(_edge(cells, number, tail), 1.0)
    low, high = edges[:-1], edges[1:]
    strike = scipy.stats.binom.isf(_CALLS * tail, number, high)
    reach = number * (low + _hoeffding(number, tail))
    enough = _CALLS * (reach - strike) >= _expected_excess(number, high, strike) / tail
    calls = np.where(enough | (reach > number), _CALLS, 1.0)
    strike = scipy.stats.binom.isf(calls * tail, number, high)
    # The best bet of zeros and ones, as if they were `narrower**2` times as many.
    rate = np.log(1 / ((1 - _CALLS) * tail)) / (number * narrower**2)
    mean = np.minimum(high, 1 - 1e-9)
    best = (_divergence_reaches(rate, mean) - mean) / (1 - mean)
    return _Stakes(
        low, high, calls, strike, np.minimum(narrower**2 * best, _LARGEST_BET)
    )


def _divergence_reaches(rate: float, mean: np.ndarray) -> np.ndarray:
    """The larger mean at which zeros and ones diverge from `mean` by `rate`, or 1."""
    low, high = mean, np.ones_like(mean)
    for _ in range(50):
        middle = (low + high) / 2
        found = scipy.special.rel_entr(middle, mean)
        found += scipy.special.rel_entr(1 - middle, 1 - mean)
        low, high = np.where(found < rate, (middle, high), (low, middle))
    return high


def _expected_excess(number: int, mean: np.ndarray, strike: np.ndarray) -> np.ndarray:
    above = scipy.stats.binom.sf(strike, number, mean)
    at_least = scipy.stats.binom.sf(strike - 1, number - 1, mean)
    return number * mean * at_least - strike * above


def _hoeffding(number: int, tail: float) -> float:
    return float(np.sqrt(-np.log(tail) / (2 * number)))


def _cell(candidates: np.ndarray, number: int, tail: float) -> np.ndarray:
    step = _hoeffding(number, tail) / _STEPS
    start = step / (_RATIO - 1)
    even = (candidates - start) / step
    # Products of denormal numbers are 0, whose logarithm is not needed.
    above = np.maximum(candidates, np.finfo(np.float64).tiny)
    geometric = np.log(above / start) / np.log(_RATIO)
    return np.floor(np.where(even >= 0, even, geometric)).astype(int)


def _edge(cells: np.ndarray, number: int, tail: float) -> np.ndarray:
    step = _hoeffding(number, tail) / _STEPS
    start = step / (_RATIO - 1)
    return np.where(
        cells >= 0, start + cells * step, start * _RATIO ** cells.clip(max=0.0)
    )


_MOST_INPUTS = 2**31 - 1
# Draws that are tried where the number is left open. `assess` takes no fewer.
_DRAWS = 2 ** np.arange(3, 13)
_RELATIVE = 1 / 512
# Correlations this near to 0 or 1 are taken as that.
_NEXT_TO_NONE = 1e-9


class SampleSize(NamedTuple):
    """A plan for `RomaResult.global_robustness`.

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

        local = jaxrob.roma.assess(classifier, few, num_samples=100, key=key)
        pilot = local.global_robustness("all")
        plan = jaxrob.roma.inputs_needed(
            pilot.probability[0], relative=0.5, correlation=pilot.correlation[0]
        )
        print(plan.inputs, plan.num_samples)

    `GlobalRobustness.population_interval` is at most as wide as asked for in about half
    of all cases; take 10 % more inputs to be surer. Computed for expected numbers of
    hits, as if the inputs' own probabilities were Beta distributed.

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
    hits = np.arange(draws + 1)
    # Of numbers so near the ends, the beta distribution's would overflow.
    if correlation < _NEXT_TO_NONE:
        return hits / draws, scipy.stats.binom.pmf(hits, draws, probability)
    if correlation > 1 - _NEXT_TO_NONE:
        return np.array([0.0, 1.0]), np.array([1 - probability, probability])
    ends = np.array([probability, 1 - probability]) * (1 / correlation - 1)
    return hits / draws, scipy.stats.betabinom.pmf(hits, draws, *ends)
