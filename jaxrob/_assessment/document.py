"""Checks of an assessment's document beyond its fields' types and limits."""

from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._codec import Integer, Text, refuse
from jaxrob._files.strict_json import short
from jaxrob._score import SCORE_NAME
from jaxrob.metrics import measures
from jaxrob.metrics._measures import MEAN, TOP_K

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
    """Refuses levels that do not ascend, leave the range, or do not fit the rule."""
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
