"""The conclusions from few images: a robustness, its intervals and their cost."""

from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._codec import Array, Integer, Number, Row, Text
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._strategy import STATUSES

_UNIT = Number(at_least=0, at_most=1)
_Interval = Annotated[ConfidenceInterval, Row(_UNIT, ascends=True)]


class Sampling(NamedTuple):
    """The images that an assessment looked at, and what they leave open.

    Attributes:
      half_width: the half width of `dataset_interval` asked for, or None.
      budget: the largest number of altered images allowed, or None.
      curtail: whether levels were decided only when the unseen images could not change
        them.
      error: the probability that `dataset_interval` misses, in all; 0 with `curtail`.
        None for a user's own strategy, of which no few-image answer was asked.
      status: "precise" if the half width is reached, "certain" if `required` is
        certainly met or certainly missed, "compared" if `compare_sequentially` ended
        it, with its answer, "budget" if the budget did, "resolution" if all images at
        the strategy's levels leave more open.
      num_images: the number of images of the data set that count.
      evaluations: the number of altered images classified.
      seen: integers `[L]`, the number of images looked at, at each level.
      sides: integers `[L]`: 1 accepted, -1 not accepted, 0 open, by all images.
      robustness: the estimate.
      dataset_interval: the interval of the robustness on all images of this data set.
      population_interval: the interval of the robustness on all images of the kind
        tested.
      required: the required robustness, whose certain answer ends the search, or None.
    """

    half_width: Annotated[float | None, Number(at_least=0, below=0.5)]
    budget: Annotated[int | None, Integer(at_least=1)]
    curtail: bool
    error: Annotated[float | None, _UNIT]
    status: Annotated[str, Text(allowed=STATUSES)]
    num_images: Annotated[int, Integer(at_least=1)]
    evaluations: Annotated[int, Integer(0, 2**53)]
    seen: Annotated[np.ndarray, Array("L", "int64", at_least=0)]
    sides: Annotated[np.ndarray, Array("L", "int64", at_least=-1, at_most=1)]
    robustness: float
    dataset_interval: _Interval
    population_interval: _Interval
    required: Annotated[float | None, _UNIT] = None
