"""The result of an assessment of probabilistic local robustness."""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from jaxrob._arguments.checks import check_choice
from jaxrob._arguments.texts import readable
from jaxrob._codec import (
    WRITTEN,
    Array,
    Document,
    Integer,
    Layout,
    Number,
    Text,
    document,
    to_json,
)
from jaxrob.metrics import ConfidenceInterval
from jaxrob.roma._categorial import (
    Categorial,
    InputsMean,
    LocalAnswers,
    compare_categories,
    mean_of_all,
    plr_of_all,
)
from jaxrob.roma._estimate import MOST_MODES, UNDECIDED, half_width
from jaxrob.roma._estimators import ESTIMATORS, MOST_DRAWN, STATUSES
from jaxrob.roma._global_result import (
    GlobalRobustness,
    check_summary,
    put_together,
    written,
)

_ROUNDING = 1e-5
_Log = Annotated[
    np.ndarray, Array("N", at_most=_ROUNDING, may_be_nan=True, may_be_infinite=True)
]
_Numbers = Annotated[
    np.ndarray | None, Array("N", may_be_nan=True, may_be_infinite=True)
]
_Classes = Array("N", "int32", at_least=0)
_Passes = Array("N", "int64", at_least=0, at_most=2**53)


@document("jaxrob roma 1")
@dataclasses.dataclass(frozen=True)
class RomaResult(Document):
    """How robust each of N inputs is to random perturbations.

    Attributes:
      estimator: one of `ESTIMATORS`.
      perturbation: what the perturbed images are drawn from.
      epsilon: its radius; None where it has none.
      delta: the least confidence of a distinct answer.
      num_samples: plain draws for each input.
      excluded: `[N]` int32, the class predicted at the unperturbed input; any other
        counts as misclassified.
      labels: `[N]` int32, or None.
      status: `[N]` strings: which method gave the answer, or why there is none. Of
        "roma": "normal", "transformed", "failed", "constant", "unresolved". Of the
        others: "counted", "importance", "splitting"; "bounded" (so improbable that only
        `log_high` is known); without an answer "untrusted" (weights are too uneven, or
        independent evidence contradicts: an interval holds both where two estimates
        exclude each other), "incomplete" (splitting got stuck on a plateau: `log_high`
        is a bound), "undecided" (within the budget plain draws alone tell, and have
        hardly a hit: their interval). Of any: "unseen" (not looked at, because the
        means were known to the half width).
      log_adversarial_probability: float64 `[N]`, log of the probability that a
        perturbed input is distinctly misclassified. NaN without an answer; an estimate
        of the bound `log_high` where "bounded".
      log_low: float64 `[N]`, the lower end of its interval; NaN where the
        estimator knows none, -inf where "bounded", or "incomplete" without a plain hit.
      log_high: float64 `[N]`, the upper end.
      hits: int `[N]`, distinct misclassifications among the plain draws; -1: "unseen".
      evaluations: int64 `[N]`, forward passes spent, a gradient counted as three.
      modes: of "importance", "splitting" and "auto": float64 `[N, 10]`, each mode's
        share of the probability, the greatest first; 0 beyond those found.
      effective_sample_size: of the same: float64 `[N]`, independent hits that would say
        as much (Kong 1992); 0 where there is no such number.
      needed: of the same: int64 `[N]`, the budget that searches for or splits an
        "undecided" input, or what "splitting" takes where a search disagreed, roughly,
        by a normal fit to its draws; 0 for the others, and where all have one margin.
      statistic: of "roma" alone, Anderson and Darling's.
      boxcox_lambda: of "roma" alone, the transform's, NaN where not transformed.
      mean: of "roma" alone, that of the normal distribution fitted.
      std: of "roma" alone, its standard deviation.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      budget: the most forward passes for each input; None for no limit.
      half_width: that of the categories' means which ended the run; None if all inputs
        were to be looked at.
      place: with a half width, int32 `[N]`, the place of each input among those looked
        at, -1 where "unseen"; else None.
      confidence_level: the coverage of the intervals.
      groups: int32 `[N]`, equal where inputs belong together, see `jaxrob.Dataset`; or
        None. Intervals over the population then are of groups.
    """

    estimator: Annotated[str, Text(allowed=tuple(ESTIMATORS))]
    perturbation: Annotated[str, Text()]
    epsilon: Annotated[float | None, Number(at_least=0)]
    delta: Annotated[float, Number(above=0, below=1)]
    num_samples: Annotated[int, Integer(at_least=1)]
    excluded: Annotated[np.ndarray, _Classes]
    labels: Annotated[np.ndarray | None, _Classes]
    status: Annotated[np.ndarray, Array("N", "U16", allowed=tuple(STATUSES))]
    log_adversarial_probability: _Log
    log_low: _Log
    log_high: _Log
    hits: Annotated[np.ndarray, Array("N", "int64", at_least=-1)]
    evaluations: Annotated[np.ndarray, _Passes]
    modes: Annotated[
        np.ndarray | None, Array(f"N, {MOST_MODES}", at_least=0, at_most=1 + _ROUNDING)
    ] = None
    effective_sample_size: Annotated[
        np.ndarray | None, Array("N", at_least=0, may_be_nan=True)
    ] = None
    needed: Annotated[np.ndarray | None, _Passes] = None
    statistic: _Numbers = None
    boxcox_lambda: _Numbers = None
    mean: _Numbers = None
    std: _Numbers = None
    warnings: tuple[str, ...] = ()
    budget: Annotated[int | None, Integer(at_least=1)] = None
    half_width: Annotated[float | None, Number(above=0, below=0.5)] = None
    place: Annotated[np.ndarray | None, Array("N", "int32", at_least=-1)] = None
    confidence_level: Annotated[float, Number(above=0, below=1)] = 0.95
    groups: Annotated[
        np.ndarray | None, Array("N", "int32", at_least=0), Layout(may_lack=True)
    ] = None

    def __repr__(self) -> str:
        """The question, the mean with its interval, and how many have an answer."""
        low, high = self.mean_plr_interval
        mean = "unknown" if np.isnan(self.mean_plr) else f"{self.mean_plr:.4g}"
        number = len(self.warnings)
        parts = (
            readable(question(self)),
            f"mean plr {mean} in [{low:.4g}, {high:.4g}]",
            f"{self.answered.sum():,} of {len(self.status):,} inputs answered",
            f"{self.estimator}, {self.num_samples:,} plain draws each",
            f"{number or 'no'} warning{'s' * (number != 1)}",
        )
        return f"RomaResult({'; '.join(parts)})"

    @property
    def plr(self) -> np.ndarray:
        """`[N]` probabilistic local robustness (Definition 3); NaN where unanswered."""
        # Not -0, where every draw fails.
        return 0.0 - np.expm1(self.log_adversarial_probability)

    @property
    def answered(self) -> np.ndarray:
        """`[N]` whether there is an answer."""
        return ~np.isnan(self.log_adversarial_probability)

    @property
    def seen(self) -> np.ndarray:
        """`[N]` whether the input was looked at."""
        return self._places >= 0

    @property
    def mean_plr(self) -> float:
        """The mean of plr, as `Categorial.plr_all` has it, over all inputs.

        Inputs that were not looked at count as those of their category that were.
        """
        return self._mean().mean

    @property
    def mean_plr_interval(self) -> ConfidenceInterval:
        """The interval of what `mean_plr` would be, were all inputs looked at.

        An input that a budget left undecided may lie anywhere in its own interval. It
        holds together with those of `Categorial.inputs_interval`.
        """
        low, high = self.confidence_interval.T
        return ConfidenceInterval(self._mean(low).low, self._mean(high).high)

    @property
    def mean_low(self) -> float:
        """The mean of the lower ends of the inputs' intervals of plr.

        With inputs that were not looked at, what that over all inputs is at least, with
        the result's confidence. NaN if an input that was looked at has no interval.
        """
        low = self.confidence_interval[:, 0]
        return self._mean_of(low).low

    @property
    def confidence_interval(self) -> np.ndarray:
        """`[N, 2]` the interval of plr; NaN where the estimator knows none."""
        return 0.0 - np.expm1(np.stack([self.log_high, self.log_low], axis=1))

    @property
    def caveats(self) -> Annotated[tuple[str, ...], WRITTEN]:
        """What the answers may miss without notice, a sentence for each method."""
        found = []
        for words in filter(None, dict.fromkeys(STATUSES.values())):
            mine = [one for one in np.unique(self.status) if STATUSES.get(one) == words]
            if not mine:
                continue
            if UNDECIDED in mine and self.needed is not None:
                at, draws = self.status == UNDECIDED, self.num_samples
                alone = draws, min(self.budget or math.inf, MOST_DRAWN * draws)
                needed, passes = self.needed[at], self.evaluations[at]
                case = np.where(needed == 0, 0, 1 + np.isin(passes, alone))
                for one in np.unique(case):
                    cost = needed[case == one].max()
                    words += f". {(case == one).sum()} {_CASES[one].format(cost)}"
            number = np.isin(self.status, mine).sum()
            found.append(f"{', '.join(mine)} ({number} of {len(self.status)}): {words}")
        return tuple(found)

    def categorial(self, class_names: tuple[str, ...] | None = None) -> Categorial:
        """Robustness by category and the comparison of categories (experiment 3).

        The category is the label, or, without labels, the class predicted at the
        unperturbed input.

        Args:
          class_names: names of the categories.
        """
        return compare_categories(
            self.plr,
            self.hits,
            self.num_samples,
            self._categories,
            class_names,
            self.place,
            self.confidence_level,
            self.groups,
        )

    def global_robustness(
        self,
        by: str = "predicted",
        *,
        source: str = "draws",
        class_names: Sequence[str] | None = None,
        confidence_level: float | None = None,
        jointly: bool = True,
    ) -> GlobalRobustness:
        """How probable a distinct misclassification is anywhere in each category.

        How probable it is that an input of the category, drawn from the population that
        these are a random sample of, and then perturbed, is distinctly misclassified:
        the global robustness of Levy, Yerushalmi and Katz (2023), "gRoMA".

        Example::

            local = jaxrob.roma.assess(
                classifier, images, estimator="count", num_samples=100, key=key
            )
            found = local.global_robustness(class_names=names)
            print(found.probability)  # one for each category
            print(found.population_interval)  # 95 % for all of them together

        `population_interval` holds for the finite sample of inputs and the finite
        number of draws at once, for any number of inputs: shares of hits are in [0, 1]
        and right on average, and inputs are independent. It is by betting (Waudby-Smith
        and Ramdas 2024) and by binomial tails, and never reaches beyond Hoeffding's.
        With one draw each it is Clopper and Pearson's. Without a single hit it ends at
        about 4 / N, however many draws there are. `inputs_needed` tells how many inputs
        it takes. Of inputs in groups, N is their number by the largest group's size.

        Args:
          by: "predicted", "label" or "all".
          source: "draws" takes the plain draws' shares of hits. "estimator" takes each
            answer as anything in its interval, or in [0, 1] where it has none:
            intervals then hold if those do, on average, which experiments alone show.
            They are better where misclassifications are rare, and for the lower end.
          class_names: names of the categories. All of them are listed, those without
            an input with NaN; by default those that occur, by their numbers.
          confidence_level: at least 0.5; by default that of this result.
          jointly: whether it is that of all categories together (Bonferroni).

        Raises:
          TypeError: if an argument has a wrong type.
          ValueError: if an argument is out of range, there are no labels to go by, or
            inputs that were not looked at.
        """
        if confidence_level is None:
            confidence_level = self.confidence_level
        check_summary(by, class_names, confidence_level, jointly)
        check_choice("source", source, ("draws", "estimator"))
        if by == "label" and self.labels is None:
            raise ValueError('by="label" needs labels; got labels=None')
        if not self.seen.all():
            raise ValueError(
                "global_robustness needs all inputs looked at, because its intervals "
                "hold for a number of inputs fixed beforehand; this run ended after "
                f"{self.seen.sum()} of {len(self.seen)}, by half_width="
                f"{self.half_width:g}. Assess without a half width"
            )
        if by == "all" and class_names is None:
            class_names = ("all",)
        categories = {
            "predicted": self.excluded,
            "label": self._categories,
            "all": np.zeros(len(self.excluded), int),
        }
        local = self._by_draws() if source == "draws" else self._by_estimator()
        return put_together(
            local._replace(groups=self.groups),
            categories[by],
            class_names,
            by=by,
            num_samples=self.num_samples,
            source=source,
            confidence_level=confidence_level,
            jointly=jointly,
            warnings=self.warnings,
        )

    def _by_draws(self) -> LocalAnswers:
        share, number = self.hits / self.num_samples, self.num_samples
        # Without bias: the share's own variance makes share (1 - share) smaller.
        spread = share * (1 - share) / (number - 1) if number > 1 else share * np.nan
        return LocalAnswers(share, share, share, np.ones(len(share), bool), spread)

    def _by_estimator(self) -> LocalAnswers:
        """Each answer is anything in its interval."""
        low, high = np.exp(self.log_low), np.exp(self.log_high)
        error = (high.clip(max=1) - low) / (2 * half_width(self.confidence_level))
        p = np.exp(self.log_adversarial_probability)
        return LocalAnswers(
            np.where(self.answered, p, self.hits / self.num_samples),
            np.where(np.isnan(low), 0.0, low),
            np.where(np.isnan(high), 1.0, high.clip(max=1)),
            self.answered,
            np.where(self.answered, error**2, np.nan),
        )

    @property
    def _categories(self) -> np.ndarray:
        return self.excluded if self.labels is None else self.labels

    @property
    def _places(self) -> np.ndarray:
        return np.arange(len(self.status)) if self.place is None else self.place

    def _mean(self, if_undecided: np.ndarray | None = None) -> InputsMean:
        """Of plr over all inputs, by plain draws where there is no answer."""
        plr = plr_of_all(self.plr, self.hits, self.num_samples)
        if if_undecided is not None:
            plr = np.where(self.status == UNDECIDED, if_undecided, plr)
        return self._mean_of(plr)

    def _mean_of(self, values: np.ndarray) -> InputsMean:
        error = 1 - self.confidence_level
        return mean_of_all(values, self._places, self._categories, error)

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """The result as JSON, also to `path`; NaN is null, infinities "inf", "-inf"."""
        return written(to_json(self), path)


# What undecided inputs look like, and what more would cost.
_CASES = (
    "with the same margin at every draw, as of one-hot outputs: only more plain draws "
    "tell (num_samples=)",
    "searched without agreement, as where few pixels decide or parts are thin: "
    'estimator="splitting" takes about {:,} passes, or a few times that',
    "not searched, as with few pixels or without gradients: that takes a budget of "
    "about {:,}, or a few times that",
)


def question(result: RomaResult) -> str:
    ball = "" if result.epsilon is None else f", epsilon {result.epsilon:g}"
    return f"{result.perturbation}{ball}, delta {result.delta:g}"
