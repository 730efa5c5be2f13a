"""Quality measures: ratios of counts, for each class and for all inputs."""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._checks import checked_counts
from jaxrob.metrics._counts import Counts, counts_of


class Ratio(NamedTuple):
    """A measure as a fraction: arrays of one shape.

    Attributes:
      numerator: the numerator.
      denominator: the denominator; where it is 0 the measure is undefined.
      inputs: the number of inputs that the ratio is a share of, which sets its scatter.
    """

    numerator: np.ndarray
    denominator: np.ndarray
    inputs: np.ndarray


@dataclasses.dataclass(frozen=True)
class Measure:
    """A quality measure, for all inputs and by class.

    A call returns the values, float64 `[L]`, of `Counts` or of a confusion `[L, K, K +
    1]` by label and answer, the last column for "unknown". Each value is one ratio of
    integers, or the mean of K ratios, rounded to float64 once, so that a threshold that
    the counts meet exactly is met.

    Attributes:
      name: its name as `measure=`.
      ratio: the formula, from `Counts` to a `Ratio`, element by element.
      of_classes: whether the measure is that of class 1 of 2 classes, or the mean over
        the classes if there are more. Otherwise it is one ratio of all inputs together.
      if_undefined: the value of one ratio of all inputs if its denominator is 0.
      is_proportion: whether the ratio is a proportion of inputs, each counted once.
        Then its confidence band is Wilson's interval, otherwise the bootstrap's.
      ranks: the number of ranks that the ratio needs in the counts.
    """

    name: str
    ratio: Callable[[Counts], Ratio]
    of_classes: bool = False
    if_undefined: float = np.nan
    is_proportion: bool = False
    ranks: int = 0

    def __call__(self, counts: Counts | np.ndarray) -> np.ndarray:
        """Computes the measure at each level."""
        counts = checked_counts(counts)
        ratio = self.single_ratio(counts)
        if ratio is not None:
            return self.value_of(ratio)
        ratio = self.ratio(counts)
        return _mean(ratio.numerator, ratio.denominator)

    def per_class(self, counts: Counts | np.ndarray) -> np.ndarray:
        """Computes the measure of each class."""
        counts = checked_counts(counts)
        ratio = self.ratio(counts)
        return quotient(ratio.numerator, ratio.denominator, np.nan)

    def num_inputs(self, counts: Counts | np.ndarray) -> np.ndarray:
        """Returns the number of inputs that the value at each level is a share of."""
        # For a mean over K classes with n_k inputs, this is the number of inputs whose
        # share has the same scatter, `K**2 / sum(1 / n_k)`.
        counts = checked_counts(counts)
        ratio = self.single_ratio(counts)
        if ratio is not None:
            return ratio.inputs
        inputs = self.ratio(counts).inputs
        some = inputs > 0
        reciprocals = np.where(some, 1 / np.where(some, inputs, 1), 0).sum(-1)
        return some.sum(-1) ** 2 / np.maximum(reciprocals, 1e-300)

    def single_ratio(self, counts: Counts) -> Ratio | None:
        """Returns the measure as one ratio `[L]`; None if it is a mean over classes."""
        if not self.of_classes:
            return self.ratio(counts.summed())
        if counts.num_classes == 2:
            return Ratio(*(part[..., 1] for part in self.ratio(counts)))
        return None

    @functools.cached_property
    def of_one_input(self) -> Ratio | None:
        """The ratio of one input that is right, wrong or unknown, `[3]`.

        The measure of many is that of the sums. None if it is not, because what the
        ratio counts depends on other inputs.
        """
        # By label and answer, of two classes: the inputs of class 1, then of class 0.
        kinds = [(1, 1), (1, 0), (1, 2), (0, 0), (0, 1), (0, 2)]
        one = np.zeros((len(kinds), 2, 3), np.int64)
        for row, kind in zip(one, kinds):
            row[kind] = 1
        first, second = np.triu_indices(len(kinds))
        together = np.concatenate([one[first] + one[second], one.sum(0)[None]])
        single, found = self._of_two_classes(one), self._of_two_classes(together)
        for part, whole in zip(single, found):
            sums = np.append(part[first] + part[second], part.sum())
            others = 0 * part[:3] if self.of_classes else part[:3]
            if (sums != whole).any() or (part[3:] != others).any():
                return None
        return Ratio(*(part[:3] for part in single))

    @functools.cached_property
    def counts_unknown(self) -> bool:
        """Whether an "unknown" answer counts, as one that is not right."""
        unknown = np.array([[[0, 0, 0], [0, 0, 1]]])
        return bool(self._of_two_classes(unknown).denominator.any())

    def _of_two_classes(self, confusion: np.ndarray) -> Ratio:
        counts = counts_of(confusion)
        # An input that is wrong is of no rank that counts.
        ranks = counts.correct[..., None] * (np.arange(max(self.ranks, 1)) == 0)
        ratio = self.single_ratio(counts._replace(ranks=ranks))
        assert ratio is not None
        return ratio

    def value_of(self, ratio: Ratio) -> np.ndarray:
        """Computes the values of single ratios."""
        return quotient(ratio.numerator, ratio.denominator, self.if_undefined)


def typical_inputs(num_inputs: np.ndarray) -> int:
    """Returns the median number of inputs behind a curve's values, at least 1."""
    # The number differs between levels if there are unknown answers.
    return max(int(np.median(num_inputs)), 1)


def quotient(
    numerator: np.ndarray, denominator: np.ndarray, if_undefined: float
) -> np.ndarray:
    """Returns `numerator / denominator`, or `if_undefined` where the latter is 0."""
    undefined = denominator == 0
    return np.where(
        undefined, if_undefined, numerator / np.where(undefined, 1, denominator)
    )


def _mean(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Computes the mean over classes of the defined ratios, rounded once."""
    # It adds integers in units of 2**-128, because the float64 mean of 0.7, 0.8 and 0.9
    # is below 0.8.
    means = []
    for row in zip(numerator.tolist(), denominator.tolist()):
        ratios = [(part << 128) // whole for part, whole in zip(*row) if whole]
        means.append(sum(ratios) / (len(ratios) << 128) if ratios else np.nan)
    return np.array(means)
