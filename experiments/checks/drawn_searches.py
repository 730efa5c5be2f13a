"""Searches with few images, driven by drawn answers instead of a network."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob import metrics, strategies

# Which of N images are right at a level in [0, 1], bool `[N]`, in the order in which
# they are looked at.
Right = Callable[[float], np.ndarray]


class Found(NamedTuple):
    """What a search found."""

    low: float  # the lower end of the data set's interval
    high: float  # the upper end
    robustness: float  # the answer
    status: str  # see `jaxrob.strategies.Found`
    evaluations: int  # altered images looked at
    levels: np.ndarray  # `[n]`, those looked at
    sides: np.ndarray  # int `[n]`: 1 accepted, -1 rejected, 0 open


def search(
    right: Right, num_images: int, threshold: float, parts: int = 1024, **asked: Any
) -> Found:
    """The robustness from few images, as `jaxrob.assess` finds it."""
    task = strategies.Task(0.0, 1.0, threshold, 0.0, num_images)
    history, found = strategies.sample_few(
        strategies.ASAP(n=parts),
        task,
        lambda levels: np.stack([right(level) for level in levels]),
        **asked,
    )
    assert history.scores is not None and found.robustness is not None
    assert found.sides is not None
    evaluations = sum(map(len, history.scores))
    about = found.robustness, found.status, evaluations, history.levels, found.sides
    return Found(*found.interval, *about)


def truth(right: Right, threshold: float, parts: int = 1024) -> float:
    """The robustness by all images, at all levels."""
    levels = np.linspace(0, 1, parts + 1)
    values = np.array([right(level).mean() for level in levels])
    return metrics.heaviside_robustness(levels, values, threshold, "linear")
