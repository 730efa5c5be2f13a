"""Global robustness: the inputs' probabilities put together, category by category."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_names,
    checked_number,
    checked_path,
)
from jaxrob._codec import (
    WRITTEN,
    Array,
    Integer,
    Number,
    Text,
    document,
    from_json,
    to_json,
)
from jaxrob.roma._bounded_mean import mean_interval
from jaxrob.roma._count import clopper_pearson
from jaxrob.roma._local_answers import LocalAnswers
from jaxrob.roma._skewed_mean import (
    FEWEST_VALUES,
    LARGEST_SKEWNESS,
    LEAST_INDEX,
    skewed_interval,
    tail_index,
)

#: How inputs may be put into categories.
CATEGORIES = ("predicted", "label", "all")


_MISSING = {
    "unanswered": "an input has no local answer",
    "few": "there are too few inputs, or too few hits, to know the variance",
    "constant": "all local probabilities are alike, or known exactly",
    "unknown": "nothing tells how far the draws are off",
    "skewed": "the mean rests on too few of the inputs",
    "heavy": (
        "the greatest local probabilities fall off so slowly that inputs not seen may "
        "be worth more than all those seen; population_interval holds nevertheless"
    ),
}


_Counts = Annotated[np.ndarray, Array("C", "int64", at_least=0)]
_Numbers = Annotated[np.ndarray, Array("C", may_be_nan=True)]
_Intervals = Annotated[
    np.ndarray, Array("C, 2", at_least=-1e-5, at_most=1 + 1e-5, may_be_nan=True)
]
_Statuses = Annotated[
    np.ndarray, Array("C", "U10", allowed=("given", "empty", *_MISSING))
]


@document("jaxrob global robustness 1")
@dataclasses.dataclass(frozen=True)
class GlobalRobustness:
    """How probable a distinct misclassification is anywhere in each of C categories.

    An input is drawn from the category's population, and then perturbed. The
    probability that the perturbed image is distinctly misclassified is the mean of the
    local probabilities over the population (Levy, Yerushalmi and Katz 2023, "gRoMA").

    Two quantities are estimated by one number. That of the *population* is what the
    next inputs will meet: its intervals hold for the finite sample of inputs and the
    finite number of draws together. That of the *inputs* at hand is the mean over these
    inputs alone, where only the draws leave anything open.

    Attributes:
      names: the categories' names.
      by: what they are: "predicted" for the class predicted at the unperturbed input,
        "label", or "all" for one category of all inputs.
      inputs: int `[C]`, inputs in each.
      unanswered: int `[C]`, inputs without a local answer. They are not left out: they
        count with their plain draws' share of hits in `probability`, and with all that
        they may be in the intervals.
      probability: `[C]`, the mean over the inputs. NaN where there is no input, or
        nothing is known of one.
      population_interval: `[C, 2]`, assumes nothing but that the inputs are a random
        sample from the population. It is never wider than Hoeffding's.
      population_asymptotic: `[C, 2]`, Hall's (1992), approximate and narrower. NaN
        where it would not hold, see `status`. At 95 %, one that is given misses in
        about 5 % of all cases, given or not; of categories for which it seldom is,
        those samples that are given one are the luckiest.
      inputs_interval: `[C, 2]`, of the mean over the inputs at hand. By plain draws it
        assumes nothing; of another estimator it is the mean of the ends of the inputs'
        own intervals, whatever the confidence.
      inputs_asymptotic: `[C, 2]`, approximate and narrower, from the variance by the
        draws of each input. NaN where that is too small or skewed to go by, see
        `inputs_status`.
      status: `[C]` strings: "given", or why there is no `population_asymptotic`:
        "empty" (no input), "unanswered" (an input has no local answer), "few" (fewer
        than 20 inputs), "constant" (all local probabilities are alike, 0 for instance),
        "skewed" (few inputs make up most of the mean: their number is below 15 times
        their squared skewness), "heavy" (below 60 times that, and the greatest
        probabilities fall off so slowly, by Hill's estimate as a power below 2, that
        inputs not seen may be worth more than all those seen).
      inputs_status: `[C]` strings: likewise of `inputs_asymptotic`: "given", "empty",
        "unanswered", "unknown" (nothing tells the draws' variance, as of one draw or of
        an estimator without intervals), "constant" (it is 0), "few" (too few hits to
        know it) or "skewed".
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
    population_asymptotic: _Intervals
    inputs_interval: _Intervals
    inputs_asymptotic: _Intervals
    status: _Statuses
    inputs_status: _Statuses
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

    @property
    def caveats(self) -> Annotated[tuple[str, ...], WRITTEN]:
        """Why asymptotic intervals are missing, a sentence for each reason."""
        found = []
        for kind, statuses in (
            ("population_asymptotic", self.status),
            ("inputs_asymptotic", self.inputs_status),
        ):
            for status, words in _MISSING.items():
                names = [n for n, one in zip(self.names, statuses) if one == status]
                if names:
                    found.append(f"no {kind} of {', '.join(names)} ({status}): {words}")
        return tuple(found)

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """The result and its caveats as JSON, written to `path` if one is given.

        NaN becomes null.
        """
        return written(to_json(self), path)

    @staticmethod
    def from_json(text: str | bytes) -> "GlobalRobustness":
        """A result from the text that `to_json` gave.

        Nothing is executed. The caveats are derived again from the statuses.

        Raises:
          TypeError: if it is no text.
          ValueError: as `RomaResult.from_json`.
        """
        return from_json(text, GlobalRobustness)


def written(text: str, path: str | os.PathLike | None) -> str:
    """The text, written to `path` if one is given."""
    if path is not None:
        checked_path("path", path).write_text(text)
    return text


class _Category(NamedTuple):
    """The fields of one category, as `GlobalRobustness` calls them."""

    inputs: int
    unanswered: int
    probability: float
    population_interval: np.ndarray
    population_asymptotic: np.ndarray
    inputs_interval: np.ndarray
    inputs_asymptotic: np.ndarray
    status: str
    inputs_status: str
    variance: float
    draws_variance: float


def check_summary(
    by: Any, class_names: Any, confidence_level: Any, jointly: Any
) -> None:
    """Refuses what `put_together` does not take, before anything is computed."""
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
    confidence_level: float,
    jointly: bool,
    warnings: tuple[str, ...] = (),
) -> GlobalRobustness:
    """The local answers of N inputs, put together by category."""
    listed, names = _listed(categories, class_names)
    members = [np.flatnonzero(categories == number) for number in listed]
    together = sum(len(some) > 0 for some in members) if jointly else 1
    tail = (1 - confidence_level) / 2 / together
    found = [_category(_taken(local, some), tail) for some in members]
    columns = {
        field: np.array([getattr(one, field) for one in found])
        for field in _Category._fields
    }
    return GlobalRobustness(
        names=names,
        by=by,
        num_samples=num_samples,
        source="estimator" if local.draws is None else "draws",
        confidence_level=float(confidence_level),
        jointly=bool(jointly),
        warnings=warnings,
        **columns,
    )


def _listed(
    categories: np.ndarray, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The numbers and the names of the categories."""
    present = np.unique(categories)
    if class_names is None:
        return present, tuple(str(number) for number in present)
    if present.max() >= len(class_names):
        raise ValueError(
            f"class_names must name all categories up to {present.max()}; got "
            f"{len(class_names)} names"
        )
    return np.arange(len(class_names)), tuple(class_names)


def _taken(local: LocalAnswers, chosen: np.ndarray) -> LocalAnswers:
    arrays = local._asdict()
    draws = arrays.pop("draws")
    return LocalAnswers(**{k: v[chosen] for k, v in arrays.items()}, draws=draws)


def _category(local: LocalAnswers, tail: float) -> _Category:
    """One category's fields, from its inputs' answers."""
    number = len(local.probability)
    if not number:
        none = np.full(2, np.nan)
        return _Category(
            *(0, 0, np.nan, none, none, none, none),
            *("empty", "empty", np.nan, np.nan),
        )
    unanswered = int(np.count_nonzero(~local.answered))
    status, asymptotic = _population_asymptotic(local, tail)
    inputs_status, inputs_asymptotic = _inputs_asymptotic(local, tail)
    return _Category(
        inputs=number,
        unanswered=unanswered,
        probability=float(local.probability.mean()),
        population_interval=np.array(
            mean_interval(local.low, local.high, tail, local.draws)
        ),
        population_asymptotic=asymptotic,
        inputs_interval=_inputs_interval(local, tail),
        inputs_asymptotic=inputs_asymptotic,
        status=status,
        inputs_status=inputs_status,
        variance=float(local.probability.var(ddof=1)) if number > 1 else np.nan,
        draws_variance=float(local.variance.mean()),
    )


def _population_asymptotic(local: LocalAnswers, tail: float) -> tuple[str, np.ndarray]:
    """The status and Hall's interval of the population, NaN unless "given"."""
    values, number = local.probability, len(local.probability)
    none = np.full(2, np.nan)
    if not local.answered.all():
        return "unanswered", none
    if number < FEWEST_VALUES:
        return "few", none
    deviation = values.std(ddof=1)
    # Means of equal values may be an ulp off.
    if np.ptp(values) == 0 or deviation == 0:
        return "constant", none
    standardised = (values - values.mean()) / deviation
    skewness = (standardised**3).mean() / np.sqrt(number)
    if abs(skewness) > LARGEST_SKEWNESS:
        return "skewed", none
    if abs(skewness) > LARGEST_SKEWNESS / 2 and tail_index(values) < LEAST_INDEX:
        return "heavy", none
    quantile = scipy.stats.t.isf(tail, number - 1)
    error = deviation / np.sqrt(number)
    return "given", skewed_interval(values.mean(), error, skewness, quantile)


def _inputs_interval(local: LocalAnswers, tail: float) -> np.ndarray:
    """Of the mean over the inputs at hand."""
    if local.draws is None:
        return np.array([local.low.mean(), local.high.mean()])
    draws = len(local.probability) * local.draws
    hits = np.rint(local.probability.sum() * local.draws)
    low, high = map(float, clopper_pearson(hits, draws, 1 - 2 * tail))
    # With as many hits by expectation, tails are no heavier than the binomial one's
    # (Hoeffding 1956), but within one hit of the mean, where these are exact.
    low = tail / draws if hits == 1 else low
    high = 1 - tail / draws if hits == draws - 1 else high
    return np.array([low, high])


def _inputs_asymptotic(local: LocalAnswers, tail: float) -> tuple[str, np.ndarray]:
    """The status and Hall's interval of the inputs at hand, NaN unless "given"."""
    number, total = len(local.probability), local.variance.sum()
    none = np.full(2, np.nan)
    if not local.answered.all():
        return "unanswered", none
    if np.isnan(total):
        return "unknown", none
    if total == 0:
        return "constant", none
    # In hits: with fewer, their variance is not known.
    if local.draws is not None and total * local.draws**2 < LARGEST_SKEWNESS**-2:
        return "few", none
    skewness = local.third_moment.sum() / total**1.5
    if not abs(skewness) <= LARGEST_SKEWNESS:
        return "skewed", none
    quantile = scipy.special.ndtri(1 - tail)
    mean, error = local.probability.mean(), np.sqrt(total) / number
    return "given", skewed_interval(mean, error, skewness, quantile)
