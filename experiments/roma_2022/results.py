"""What the experiments find, and what the paper has."""

import math
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


class Timed(NamedTuple):
    """A result, and the seconds it took."""

    result: roma.RomaResult
    seconds: float


def adversarial(result: roma.RomaResult) -> np.ndarray:
    """1 - plr, counted among the plain draws where there is no answer."""
    counted = np.asarray(result.hits) / result.num_samples
    found = np.exp(result.log_adversarial_probability)
    return np.where(result.answered, found, counted)


def without_nan(value: Any) -> Any:
    """Results with None for NaN and infinity, which JSON does not know."""
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
    """The inputs for which both have an answer, and the second no mere bound."""
    return one.answered & other.answered & (other.status != "bounded")


def log10_adversarial(result: roma.RomaResult, inputs: np.ndarray) -> np.ndarray:
    """The powers of ten of 1 - plr."""
    return result.log_adversarial_probability[inputs] * np.log10(np.e)
