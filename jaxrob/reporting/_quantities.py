"""What may be required of results: each quantity is one record."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._counts import Counts
from jaxrob.metrics._measures import accuracy, measures
from jaxrob.reporting._words import is_open_by_levels
from jaxrob.roma import RomaResult

#: What a quantity is a value of.
OF_ALTERATION, OF_SET, OF_ROMA = "an alteration", "all alterations", "RoMA"


class Quantity(NamedTuple):
    """A quantity that may be required."""

    of: str  # `OF_ALTERATION`, `OF_SET` (one value of all alterations) or `OF_ROMA`
    meaning: str  # what it is, for readers who do not know its name
    # Gets it from a result; None where that takes more than one
    get: Callable[[Any], float | ConfidenceInterval] | None = None
    low: float = 0.0  # its lowest possible value
    high: float = 1.0  # its highest
    of_tested: bool = True  # whether it is a value of the tested images alone
    # Whether it depends on what the curve does between its levels
    over_levels: bool = False


def _mean_plr(result: RomaResult) -> float | ConfidenceInterval:
    if (result.status == "undecided").any():
        return result.mean_plr_interval
    return result.mean_plr


def _robustness(result: Assessment) -> float | ConfidenceInterval:
    if math.isnan(result.robustness):
        return math.nan
    if result.sampling is None or is_open_by_levels(result.sampling):
        return float(result.robustness)
    return result.dataset_interval


def _lowest_accuracy(result: Assessment) -> float:
    if result.sampling is not None or not result.curve.num_classes:
        return math.nan
    counts = result.curve.counts_for("accuracy")
    # An accuracy of nothing counts as 1, which must not pass a gate.
    if not isinstance(counts, Counts):
        return math.nan
    is_known = measures["accuracy"].num_inputs(counts).all()
    return float(accuracy(counts).min()) if is_known else math.nan


def _worst_class(result: Assessment) -> float:
    robustness = result.robustness_per_class
    if robustness is None:
        return math.nan
    inputs = np.asarray(result.curve.counts.at(0).inputs)
    # NaN of a class that has inputs makes the lowest unknown.
    return float(np.min(robustness[inputs > 0]))


_GOOD = "the share of the range over which the network is good enough, on"
_DISTINCT = (
    "the probability that a random perturbation of an image leads to no distinct "
    "misclassification"
)
#: The quantities that may be required, by name.
QUANTITIES = {
    "robustness": Quantity(
        OF_ALTERATION,
        f"{_GOOD} the images of the data set",
        _robustness,
        over_levels=True,
    ),
    "robustness.low": Quantity(
        OF_ALTERATION,
        "the lower end of the interval of the robustness, "
        f"{_GOOD} all images of the kind tested",
        lambda one: float(one.confidence_interval.low),
        of_tested=False,
        over_levels=True,
    ),
    "accuracy": Quantity(
        OF_ALTERATION,
        "the lowest share of right answers at any level that was looked at; between "
        "the levels it may be lower",
        _lowest_accuracy,
    ),
    "worst_class": Quantity(
        OF_ALTERATION,
        "the robustness of the class for which it is lowest",
        _worst_class,
        over_levels=True,
    ),
    "decided_ratio": Quantity(
        OF_ALTERATION,
        'the share of images that get an answer other than "unknown", at that accepted '
        "level where it is smallest",
        lambda one: math.nan if one.sampling else one.lowest_decided_ratio,
    ),
    "difference": Quantity(
        OF_ALTERATION,
        "the robustness, less that of an earlier result on the same images. Its whole "
        "interval has to meet the requirement",
        low=-1.0,
        of_tested=False,
        over_levels=True,
    ),
    "mce": Quantity(
        OF_SET,
        "the mean error over the common corruptions, each divided by AlexNet's: above "
        "1 is worse than AlexNet",
        high=math.inf,
    ),
    "plr": Quantity(OF_ROMA, f"{_DISTINCT}, on average over the images", _mean_plr),
    "plr.low": Quantity(
        OF_ROMA,
        f"{_DISTINCT}: the lower ends of the intervals, on average",
        lambda one: one.mean_low,
    ),
}
# A script may have quantities of its own, which are shares.
_OTHER = Quantity(OF_ALTERATION, "")


def about_quantity(name: str) -> Quantity:
    return QUANTITIES.get(name, _OTHER)


def names_of(*kinds: str) -> tuple[str, ...]:
    return tuple(name for name, one in QUANTITIES.items() if one.of in kinds)
