"""The experiments' results, and the paper's."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxrob import roma

# Of the paper, all on CIFAR-10 with VGG16 [%]: plr and its standard deviation by
# category, and the share of inputs with an answer.
PAPER = {
    "airplane": (99.143, 5.18),
    "automobile": (99.372, 3.86),
    "bird": (97.226, 8.87),
    "cat": (97.112, 8.77),
    "deer": (98.586, 6.25),
    "dog": (97.233, 8.58),
    "frog": (98.524, 6.39),
    "horse": (98.606, 6.09),
    "ship": (98.389, 6.63),
    "truck": (99.390, 4.26),
}
PAPER_ANSWERED = {"experiment 1": 82.0, "experiment 3": 90.48, "as drawn": 12.82}

# The kinds of category. The paper speaks of "inputs classified as Cats".
CATEGORIES = {"label": "true classes", "predicted": "predicted classes"}

# The crude Monte Carlo draws alone, without an estimator: unbiased.
COUNTED = "plain draws"


class Timed(NamedTuple):
    """A result, its query, and the seconds it took."""

    result: roma.RomaResult
    seconds: float  # NaN if answers came from a journal
    inputs: np.ndarray  # [N], their numbers among the images that are assessed


class Values(NamedTuple):
    """The probability of a distinct misclassification at each input, float64 `[N]`."""

    adversarial: np.ndarray
    known: np.ndarray  # bool


def readings(found: Mapping[str, Timed]) -> dict[str, tuple[Timed, Values]]:
    """Returns the ways to read results of the same inputs, by name.

    Returns:
      For each estimator its answers alone, as the paper reads "roma", or, if it
      answers for nearly all inputs, all of them; and `COUNTED`.
    """
    first = next(iter(found.values()))
    counted = np.asarray(first.result.hits) / first.result.num_samples
    read = {COUNTED: (first, Values(counted, np.full(len(counted), True)))}
    for name, one in found.items():
        known = one.result.answered
        if name != "roma":
            known = np.full(len(known), True)
        read[name] = one, Values(adversarial(one.result), known)
    return read


def by_category(
    found: Mapping[str, Timed], class_names: tuple[str, ...], by: str
) -> dict[str, roma.Categorial]:
    """Returns the table by category for each way to read the results."""
    tables = {}
    for name, (one, values) in readings(found).items():
        result = one.result
        plr = np.where(values.known, 1 - values.adversarial, np.nan)
        tables[name] = roma.compare_categories(
            plr, result.hits, result.num_samples, category(result, by), class_names
        )
    return tables


def category(result: roma.RomaResult, by: str) -> np.ndarray:
    """Returns each input's category, int `[N]`; `by` is one of `CATEGORIES`."""
    found = {"label": result.labels, "predicted": result.excluded}[by]
    assert found is not None
    return found


def adversarial(result: roma.RomaResult) -> np.ndarray:
    """Returns 1 - plr, counted among the crude draws if there is no answer."""
    counted = np.asarray(result.hits) / result.num_samples
    found = np.exp(result.log_adversarial_probability)
    return np.where(result.answered, found, counted)


def at_inputs(found: Timed, inputs: np.ndarray) -> roma.RomaResult:
    """Returns the result restricted to some inputs, given their numbers."""
    chosen = np.isin(found.inputs, inputs)
    values = {
        field.name: getattr(found.result, field.name)
        for field in dataclasses.fields(found.result)
    }
    return roma.RomaResult(
        **{
            name: value[chosen] if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }
    )


def without_nan(value: Any) -> Any:
    """Replaces NaN and infinity by None, because JSON has neither."""
    if isinstance(value, dict):
        return {name: without_nan(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def comparable(one: roma.RomaResult, other: roma.RomaResult) -> np.ndarray:
    """Returns the inputs that both answer, the second by more than a bound."""
    return one.answered & other.answered & (other.status != "bounded")


def log10_adversarial(result: roma.RomaResult, inputs: np.ndarray) -> np.ndarray:
    """Returns log10 of 1 - plr."""
    return result.log_adversarial_probability[inputs] * np.log10(np.e)
