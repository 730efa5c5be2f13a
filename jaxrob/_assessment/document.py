"""Parts of an assessment's document beside the curve, and checks of them."""

from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._codec import Array, Integer, Number, Row, Text, refuse
from jaxrob._files.reading import short
from jaxrob._score import SCORE_NAME
from jaxrob.metrics import ConfidenceInterval, measures
from jaxrob.metrics._measures import MEAN, TOP_K
from jaxrob.strategies._strategy import STATUSES

#: The name of a measure, as `measure_named` takes it.
MEASURE = Text("the name of a measure", "|".join([*measures, TOP_K, MEAN + SCORE_NAME]))
# Levels nearer to an end than this share of the range count as that end.
_NEAR = 1e-6


class DataSet(NamedTuple):
    """The images in the provenance."""

    fingerprint: str
    labels: str = ""


class Network(NamedTuple):
    """The network in the provenance, which reports print."""

    name: str | None = None
    class_names: tuple[str, ...] | None = None


class ScoreFacts(NamedTuple):
    """What identifies a score."""

    name: str
    version: str | None
    labels: str | None


class Provenance(NamedTuple):
    """The parts of the provenance that `compare` and reports read; it may hold more."""

    # Null for an alteration that calls the host, which has no fingerprint.
    alteration: str | None
    dataset: DataSet
    network: Network = Network()
    key: tuple[Annotated[int, Integer(at_least=0, at_most=2**32 - 1)], ...] | None = (
        None
    )
    settings: dict[str, str | int | float | bool] = {}
    words: dict[str, str] = {}
    score: ScoreFacts | None = None
    plan: Annotated[str, Text("64 hexadecimal digits", "[0-9a-f]{64}")] = ""


def check_levels(levels: np.ndarray, bounds: tuple[float, float], rule: str) -> None:
    refuse(np.diff(levels) <= 0, f"levels must ascend; got {short(levels.tolist())}")
    lower, upper = bounds
    where = f"the range [{lower:g}, {upper:g}]"
    got = f"got levels from {levels[0]:g} to {levels[-1]:g}"
    refuse(
        levels[0] < lower or levels[-1] > upper, f"levels must lie in {where}; {got}"
    )
    near = _NEAR * (upper - lower)
    are_at_ends = levels[0] - lower <= near and upper - levels[-1] <= near
    refuse(
        rule in ("right", "linear") and not are_at_ends,
        f"rule {rule!r} needs levels at both ends of {where}; {got}",
    )


_UNIT = Number(at_least=0, at_most=1)
_Interval = Annotated[ConfidenceInterval, Row(_UNIT, ascends=True)]


class Sampling(NamedTuple):
    """The images that an assessment looked at, and what they leave open."""

    # The half width of `dataset_interval` asked for, or None
    half_width: Annotated[float | None, Number(at_least=0, below=0.5)]
    # The largest number of altered images allowed, or None
    budget: Annotated[int | None, Integer(at_least=1)]
    # Whether levels were decided only when the unseen images could not change them
    curtail: bool
    # The probability that `dataset_interval` misses, in all; 0 with `curtail`. None for
    # a user's own strategy, of which no few-image answer was asked.
    error: Annotated[float | None, _UNIT]
    # "precise" if the half width is reached, "certain" if `required` is certainly met
    # or certainly missed, "compared" if `compare_sequentially` ended it, with its
    # answer, "budget" if the budget did, "resolution" if all images at the strategy's
    # levels leave more open
    status: Annotated[str, Text(allowed=STATUSES)]
    # The number of images of the data set that count
    num_images: Annotated[int, Integer(at_least=1)]
    # The number of altered images classified
    evaluations: Annotated[int, Integer(0, 2**53)]
    # Integers `[L]`, the number of images looked at, at each level
    seen: Annotated[np.ndarray, Array("L", "int64", at_least=0)]
    # Integers `[L]`: 1 accepted, -1 not accepted, 0 open, by all images
    sides: Annotated[np.ndarray, Array("L", "int64", at_least=-1, at_most=1)]
    robustness: float  # the estimate
    # The interval of the robustness on all images of this data set
    dataset_interval: _Interval
    # The interval of the robustness on all images of the kind tested
    population_interval: _Interval
    # The required robustness, whose certain answer ends the search, or None
    required: Annotated[float | None, _UNIT] = None
