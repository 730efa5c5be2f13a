"""Global robustness: the inputs' probabilities put together, category by category."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_names,
    checked_number,
    checked_path,
)
from jaxrob._codec import Array, Document, Integer, Number, Text, document, to_json
from jaxrob._devices.blocks import taken
from jaxrob.metrics._testing import clopper_pearson
from jaxrob.roma._bounded_mean import mean_interval
from jaxrob.roma._categorial import LocalAnswers, names_of

#: How inputs may be put into categories.
CATEGORIES = ("predicted", "label", "all")


_Counts = Annotated[np.ndarray, Array("C", "int64", at_least=0)]
_Numbers = Annotated[np.ndarray, Array("C", may_be_nan=True)]
_Intervals = Annotated[
    np.ndarray, Array("C, 2", at_least=-1e-5, at_most=1 + 1e-5, may_be_nan=True)
]


@document("jaxrob global robustness 1")
@dataclasses.dataclass(frozen=True)
class GlobalRobustness(Document):
    """How probable a distinct misclassification is anywhere in each of C categories.

    `RomaResult.global_robustness` says what that is. One number estimates two
    quantities: that of the *population*, which the next inputs will meet, and that of
    the *inputs* at hand, where only the draws leave anything open.

    Attributes:
      names: the categories' names.
      by: "predicted" for the class predicted at the unperturbed input, "label", or
        "all" for one category of all inputs.
      inputs: int `[C]`, inputs in each.
      unanswered: int `[C]`, inputs without a local answer: they count with their plain
        draws' share of hits, and with all that they may be in the intervals.
      probability: `[C]`, the mean over the inputs; NaN without an input.
      population_interval: `[C, 2]`, assumes nothing but that the inputs are a random
        sample from the population; of inputs in groups, that the groups are one and
        their sizes say nothing of robustness.
      inputs_interval: `[C, 2]`, of the mean over the inputs at hand. By plain draws it
        assumes nothing; of another estimator it is the mean of the ends of the inputs'
        own intervals, whatever the confidence.
      variance: `[C]`, of an input's estimated probability; NaN of fewer than two.
      draws_variance: `[C]`, the part of `variance` that is due to the draws. NaN where
        it is not known, as with one draw.
      num_samples: plain draws for each input.
      source: "draws" if the estimates are shares of plain draws, else "estimator".
      confidence_level: the intervals' confidence.
      jointly: whether it is that of all categories' intervals together (Bonferroni).
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
    """

    names: tuple[str, ...]
    by: Annotated[str, Text(allowed=CATEGORIES)]
    inputs: _Counts
    unanswered: _Counts
    probability: _Numbers
    population_interval: _Intervals
    inputs_interval: _Intervals
    variance: _Numbers
    draws_variance: _Numbers
    num_samples: Annotated[int, Integer(at_least=1)]
    source: Annotated[str, Text(allowed=("draws", "estimator"))]
    confidence_level: Annotated[float, Number(above=0, below=1)]
    jointly: bool
    warnings: tuple[str, ...] = ()

    @property
    def draws_share(self) -> np.ndarray:
        """`[C]` in [0, 1], the draws' share of the variance; the rest is the inputs'.

        More draws for each input narrow the population's intervals by this share at
        most.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(self.draws_variance / self.variance, 0, 1)

    @property
    def correlation(self) -> np.ndarray:
        """`[C]` in [0, 1], how alike the draws at one input are.

        The variance of the inputs' own probabilities p, divided by that of zeros and
        ones: 0 if all p are alike, 1 if every input is always or never misclassified.
        `inputs_needed` takes it.
        """
        between = self.variance - self.draws_variance
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(between / (self.probability * (1 - self.probability)), 0, 1)

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """The result as JSON, written to `path` if one is given; NaN becomes null."""
        return written(to_json(self), path)


def written(text: str, path: str | os.PathLike | None) -> str:
    if path is not None:
        checked_path("path", path).write_text(text)
    return text


def check_summary(
    by: Any, class_names: Any, confidence_level: Any, jointly: Any
) -> None:
    check_choice("by", by, CATEGORIES)
    checked_number("confidence_level", confidence_level, at_least=0.5, below=1)
    checked_flag("jointly", jointly)
    if class_names is not None:
        names = checked_names("class_names", class_names)
        if by == "all" and len(names) != 1:
            raise ValueError(f'class_names must be one name for by="all"; got {names}')


def put_together(
    local: LocalAnswers,
    categories: np.ndarray,
    class_names: Sequence[str] | None,
    *,
    by: str,
    num_samples: int,
    source: str,
    confidence_level: float,
    jointly: bool,
    warnings: tuple[str, ...] = (),
) -> GlobalRobustness:
    names = names_of(np.unique(categories), class_names)
    members = [np.flatnonzero(categories == number) for number in names]
    together = sum(len(some) > 0 for some in members) if jointly else 1
    tail = (1 - confidence_level) / 2 / together
    draws = num_samples if source == "draws" else None
    found = [_category(taken(local, some), draws, tail) for some in members]
    return GlobalRobustness(
        names=tuple(names.values()),
        by=by,
        num_samples=num_samples,
        source=source,
        confidence_level=float(confidence_level),
        jointly=bool(jointly),
        warnings=warnings,
        **{name: np.array([one[name] for one in found]) for name in found[0]},
    )


def _category(local: LocalAnswers, draws: int | None, tail: float) -> dict[str, Any]:
    number, none = len(local.probability), np.full(2, np.nan)
    known = number > 0
    return {
        "inputs": number,
        "unanswered": np.count_nonzero(~local.answered),
        "probability": local.probability.mean() if known else np.nan,
        "population_interval": mean_interval(
            local.low, local.high, tail, draws, local.groups
        )
        if known
        else none,
        "inputs_interval": _inputs_interval(local, draws, tail) if known else none,
        "variance": local.probability.var(ddof=1) if number > 1 else np.nan,
        "draws_variance": local.variance.mean() if known else np.nan,
    }


def _inputs_interval(
    local: LocalAnswers, draws_each: int | None, tail: float
) -> tuple[float, float]:
    if draws_each is None:
        return local.low.mean(), local.high.mean()
    draws = len(local.probability) * draws_each
    hits = np.rint(local.probability.sum() * draws_each)
    low, high = map(float, clopper_pearson(hits, draws, 1 - 2 * tail))
    # Tails are the binomial's at most (Hoeffding 1956), but within one hit of the mean.
    low = tail / draws if hits == 1 else low
    high = 1 - tail / draws if hits == draws - 1 else high
    return low, high
