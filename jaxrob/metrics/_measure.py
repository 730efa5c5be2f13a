"""What a quality measure is: one ratio of counts, of each class and of all inputs."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._checks import checked_confusion


class Counts(NamedTuple):
    """How inputs were answered: arrays of one shape, for each class or for all inputs.

    Attributes:
      correct: the inputs of the class that are given this class.
      decided: the inputs of the class that are given any class.
      given: the inputs of any class that are given this class.
      unknown: the inputs of the class whose answer is "unknown".
    """

    correct: np.ndarray
    decided: np.ndarray
    given: np.ndarray
    unknown: np.ndarray


class Ratio(NamedTuple):
    """A measure as a fraction: arrays of one shape.

    Attributes:
      above: the numerator.
      below: the denominator; where it is 0 the measure is undefined.
      inputs: how many inputs the ratio is a share of, for judging its scatter.
    """

    above: np.ndarray
    below: np.ndarray
    inputs: np.ndarray


@dataclasses.dataclass(frozen=True)
class Measure:
    """A quality measure: its values, per class too, and what its band is made of.

    A call gives the values, float64 `[L]`, of counts `[L, K, K + 1]` by label and
    answer, the last column for "unknown". Every value is one ratio of integers, or the
    mean of K such, rounded to float64 once, so that a threshold that the counts meet
    exactly is met.

    Attributes:
      name: what `measure=` calls it.
      ratio: the formula, from `Counts` to a `Ratio`, element by element.
      of_classes: whether the measure is of class 1 of 2 classes, and the mean over the
        classes of more. Otherwise it is one ratio of all inputs together.
      if_undefined: the value of one ratio of all inputs where its denominator is 0.
      is_proportion: whether the ratio is the share of some inputs among others, each
        counted once. Then Wilson's interval is its confidence band, otherwise the
        bootstrap's.
    """

    name: str
    ratio: Callable[[Counts], Ratio]
    of_classes: bool = False
    if_undefined: float = np.nan
    is_proportion: bool = False

    def __call__(self, confusion: np.ndarray) -> np.ndarray:
        """The measure at each level.

        Args:
          confusion: integers `[L, K, K + 1]`.

        Returns:
          float64 `[L]` in [0, 1]; NaN where it is undefined.

        Raises:
          TypeError: if the confusion holds no integers.
          ValueError: if it has another shape, or a count is negative.
        """
        confusion = checked_confusion(confusion)
        ratio = self.single_ratio(confusion)
        if ratio is not None:
            return self.value_of(ratio)
        ratio = self.ratio(_by_class(confusion))
        return _mean(ratio.above, ratio.below)

    def per_class(self, confusion: np.ndarray) -> np.ndarray:
        """The measure of each class alone.

        Args:
          confusion: integers `[L, K, K + 1]`.

        Returns:
          float64 `[L, K]`; NaN where a class has nothing to divide by.

        Raises:
          TypeError: if the confusion holds no integers.
          ValueError: if it has another shape, or a count is negative.
        """
        confusion = checked_confusion(confusion)
        ratio = self.ratio(_by_class(confusion))
        return quotient(ratio.above, ratio.below, np.nan)

    def num_inputs(self, confusion: np.ndarray) -> np.ndarray:
        """How many inputs the value at each level is a share of.

        Of a mean over K classes with n_k inputs it is the number of inputs whose share
        would scatter as much, `K**2 / sum(1 / n_k)`.

        Args:
          confusion: integers `[L, K, K + 1]`.

        Returns:
          Numbers of at least 0, `[L]`.

        Raises:
          TypeError: if the confusion holds no integers.
          ValueError: if it has another shape, or a count is negative.
        """
        confusion = checked_confusion(confusion)
        ratio = self.single_ratio(confusion)
        if ratio is not None:
            return ratio.inputs
        inputs = self.ratio(_by_class(confusion)).inputs
        some = inputs > 0
        reciprocals = np.where(some, 1 / np.where(some, inputs, 1), 0).sum(-1)
        return some.sum(-1) ** 2 / np.maximum(reciprocals, 1e-300)

    def single_ratio(self, confusion: np.ndarray) -> Ratio | None:
        """The ratio `[L]` that the measure is; None if it is a mean over classes."""
        if not self.of_classes:
            return self.ratio(_of_all_inputs(confusion))
        if confusion.shape[-2] == 2:
            return Ratio(*(part[..., 1] for part in self.ratio(_by_class(confusion))))
        return None

    def value_of(self, ratio: Ratio) -> np.ndarray:
        """The values of single ratios."""
        return quotient(ratio.above, ratio.below, self.if_undefined)


def typical_inputs(num_inputs: np.ndarray) -> int:
    """One number of inputs for a whole curve: the median over its values, at least 1.

    Unknown answers make the number differ from level to level.
    """
    return max(int(np.median(num_inputs)), 1)


def quotient(above: np.ndarray, below: np.ndarray, if_undefined: float) -> np.ndarray:
    """`above / below`, and `if_undefined` where `below` is 0."""
    none = below == 0
    return np.where(none, if_undefined, above / np.where(none, 1, below))


def _by_class(confusion: np.ndarray) -> Counts:
    """`[L, K]`."""
    classes = confusion[..., :-1]
    return Counts(
        correct=_correct(confusion),
        decided=classes.sum(-1),
        given=classes.sum(-2),
        unknown=confusion[..., -1],
    )


def _of_all_inputs(confusion: np.ndarray) -> Counts:
    """`[L]`: every decided input is given one class."""
    decided = confusion[..., :-1].sum((-2, -1))
    return Counts(
        correct=_correct(confusion).sum(-1),
        decided=decided,
        given=decided,
        unknown=confusion[..., -1].sum(-1),
    )


def _correct(confusion: np.ndarray) -> np.ndarray:
    return np.diagonal(confusion, axis1=-2, axis2=-1)


def _mean(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The mean over classes of the ratios that are defined, rounded once.

    Integers in units of 2**-128: the mean of the float64 0.7, 0.8 and 0.9 is below 0.8.
    """
    means = []
    for row in zip(above.tolist(), below.tolist()):
        ratios = [(part << 128) // whole for part, whole in zip(*row) if whole]
        means.append(sum(ratios) / (len(ratios) << 128) if ratios else np.nan)
    return np.array(means)
