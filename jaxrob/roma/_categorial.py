"""Categorial robustness: categories side by side (Levy and Katz 2022, experiment 3)."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import scipy

from jaxrob._runtime.checks import checked_array, checked_integer, checked_names

Group = TypeVar("Group")


class Categorial(NamedTuple):
    """How robust each of C categories is, and which differ.

    Attributes:
      names: the categories' names.
      inputs: int `[C]`, inputs in each.
      answered: int `[C]`, those with an answer.
      plr: `[C]` mean plr of the answered.
      interval: `[C, 2]` its 95 % interval over inputs, by Student's t, within [0, 1].
      std: `[C]` standard deviation of plr over the answered.
      adversarial: `[C]` the mean probability of a distinct misclassification.
      plr_all: `[C]` mean plr of all inputs. Those without an answer enter with the
        share of their plain draws that were not distinctly misclassified; if nothing
        was counted for them, it is NaN.
      welch: `[C, C]` p-values of Welch's t-test for equal means.
      binomial: `[C, C]` p-values of the binomial test that an input with a distinctly
        misclassified draw is as likely in either category; NaN where nothing was
        counted.

    The p-values are Holm's (1979), corrected for all pairs of categories; their
    diagonals are 1. They are NaN where a category has fewer than two answers.
    """

    names: tuple[str, ...]
    inputs: np.ndarray
    answered: np.ndarray
    plr: np.ndarray
    interval: np.ndarray
    std: np.ndarray
    adversarial: np.ndarray
    plr_all: np.ndarray
    welch: np.ndarray
    binomial: np.ndarray


def compare_categories(
    plr: np.ndarray,
    hits: np.ndarray | None,
    num_samples: int,
    categories: np.ndarray,
    class_names: tuple[str, ...] | None = None,
) -> Categorial:
    """Tells which categories of inputs are more robust than others.

    `RomaResult.categorial` calls it with its own arrays.

    Args:
      plr: `[N]`, NaN where there is no answer.
      hits: `[N]` distinct misclassifications among `num_samples` plain draws, or None.
      num_samples: plain draws.
      categories: int `[N]`.
      class_names: names of the categories 0, 1, ...; by default their numbers.

    Returns:
      One entry for each category that occurs, in their order.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a category has no name, the arrays' lengths differ, or a number
        lies outside its range.
    """
    plr, hits, categories = _checked(plr, hits, num_samples, categories)
    present = np.unique(categories)
    if class_names is not None:
        class_names = checked_names("class_names", class_names)
    if class_names is None:
        names = tuple(str(number) for number in present)
    elif present.max() >= len(class_names):
        raise ValueError(
            f"class_names must name all categories up to {present.max()}; got "
            f"{len(class_names)} names"
        )
    else:
        names = tuple(class_names[number] for number in present)
    everyone = [plr[categories == number] for number in present]
    answered = [values[~np.isnan(values)] for values in everyone]
    mean = np.array([_or_nan(values, np.mean, 1) for values in answered])
    std = np.array([_or_nan(values, _deviation, 2) for values in answered])
    number = np.array([len(values) for values in answered])
    with np.errstate(invalid="ignore", divide="ignore"):
        half = scipy.stats.t.ppf(0.975, number - 1) * std / np.sqrt(number)
    interval = np.clip(np.stack([mean - half, mean + half], axis=1), 0, 1)
    filled = plr
    if hits is not None:
        filled = np.where(np.isnan(plr), 1 - hits / num_samples, plr)
    return Categorial(
        names,
        np.array([len(values) for values in everyone]),
        number,
        mean,
        interval,
        std,
        1 - mean,
        np.array([filled[categories == number].mean() for number in present]),
        _of_pairs(answered, _welch),
        _of_pairs(
            [None if hits is None else hits[categories == c] > 0 for c in present],
            _binomial,
        ),
    )


def _checked(
    plr: np.ndarray, hits: np.ndarray | None, num_samples: int, categories: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    axes: dict[str, int] = {}
    plr = checked_array(
        "plr", plr, "N", at_least=0, at_most=1, may_be_nan=True, axes=axes
    )
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    if hits is not None:
        hits = checked_array(
            "hits", hits, "N", "integers", at_least=0, at_most=num_samples, axes=axes
        )
    categories = checked_array(
        "categories", categories, "N", "integers", at_least=0, axes=axes
    )
    return plr, hits, categories


def _welch(first: np.ndarray, second: np.ndarray) -> float:
    if min(len(first), len(second)) < 2:
        return np.nan
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 1.0 if first[0] == second[0] else 0.0
    with warnings.catch_warnings():
        # SciPy warns of values that are equal except for rounding.
        warnings.simplefilter("ignore", RuntimeWarning)
        return scipy.stats.ttest_ind(first, second, equal_var=False).pvalue


def _binomial(first: np.ndarray | None, second: np.ndarray | None) -> float:
    if first is None or second is None:
        return np.nan
    hit, all_hit = first.sum(), first.sum() + second.sum()
    if all_hit == 0:
        return 1.0
    expected = len(first) / (len(first) + len(second))
    return scipy.stats.binomtest(int(hit), int(all_hit), expected).pvalue


def _of_pairs(
    groups: Sequence[Group], test: Callable[[Group, Group], float]
) -> np.ndarray:
    """Corrected p-values of all pairs of groups, `[C, C]`."""
    number = len(groups)
    values = np.ones((number, number))
    pairs = np.triu_indices(number, 1)
    if not len(pairs[0]):
        return values
    # In the order of `pairs`.
    found = [test(*two) for two in itertools.combinations(groups, 2)]
    corrected = _holm(np.array(found))
    values[pairs] = corrected
    values.T[pairs] = corrected
    return values


def _holm(p_values: np.ndarray) -> np.ndarray:
    """Corrected p-values (Holm 1979); those that are NaN stay so and do not count."""
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full_like(p_values, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return corrected


def _or_nan(
    values: np.ndarray, statistic: Callable[[np.ndarray], float], least: int
) -> float:
    """A statistic of the values; NaN of fewer than `least`."""
    return statistic(values) if len(values) >= least else np.nan


def _deviation(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1))
