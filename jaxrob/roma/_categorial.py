"""Categorial robustness: categories side by side (Levy and Katz 2022, experiment 3)."""

import warnings
from typing import NamedTuple

import numpy as np
import scipy


class Categorial(NamedTuple):
    """Robustness of C categories.

    Attributes:
      names: the categories' names.
      inputs: int `[C]`, inputs in each.
      answered: int `[C]`, those with an answer.
      plr: `[C]` mean plr of the answered.
      interval: `[C, 2]` its 95 % interval over inputs, by Student's t, within [0, 1].
      std: `[C]` standard deviation of plr over the answered.
      adversarial: `[C]` the mean probability of a distinct misclassification.
      plr_all: `[C]` mean plr of all inputs, where those without an answer enter with
        the share of their plain draws that were not distinctly misclassified; NaN if
        there are such and nothing was counted.
      welch: `[C, C]` p-values of Welch's t-test for equal means.
      binomial: `[C, C]` p-values of the binomial test that an input with a distinctly
        misclassified draw is as likely in either category; NaN where nothing was
        counted.

    The p-values are Holm's (1979), corrected for all pairs of categories; their
    diagonals are 1. NaN stands where a category has fewer than two answers.
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
    """Means, spreads and tests by category.

    Args:
      plr: `[N]`, NaN where there is no answer.
      hits: `[N]` distinct misclassifications among `num_samples` plain draws, or None.
      num_samples: plain draws.
      categories: int `[N]`.
      class_names: names of the categories 0, 1, ...; by default their numbers.

    Returns:
      One entry for each category that occurs, in their order.

    Raises:
      ValueError: if a category has no name.
    """
    present = np.unique(categories)
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


def _welch(first, second):
    if min(len(first), len(second)) < 2:
        return np.nan
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return 1.0 if first[0] == second[0] else 0.0
    with warnings.catch_warnings():
        # Of values that are equal but for rounding, SciPy warns.
        warnings.simplefilter("ignore", RuntimeWarning)
        return scipy.stats.ttest_ind(first, second, equal_var=False).pvalue


def _binomial(first, second):
    if first is None:
        return np.nan
    hit, all_hit = first.sum(), first.sum() + second.sum()
    if all_hit == 0:
        return 1.0
    expected = len(first) / (len(first) + len(second))
    return scipy.stats.binomtest(int(hit), int(all_hit), expected).pvalue


def _of_pairs(groups, test):
    """Holm-corrected p-values of all pairs."""
    number = len(groups)
    values = np.ones((number, number))
    pairs = np.triu_indices(number, 1)
    if not len(pairs[0]):
        return values
    found = np.array([test(groups[i], groups[j]) for i, j in zip(*pairs)])
    corrected = _holm(found)
    values[pairs] = corrected
    values.T[pairs] = corrected
    return values


def _holm(p_values):
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full_like(p_values, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return corrected


def _or_nan(values, statistic, least):
    return statistic(values) if len(values) >= least else np.nan


def _deviation(values):
    return np.std(values, ddof=1)
