"""The result of assessing a classifier."""

import dataclasses
import functools
import importlib
import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import check_choice, checked_flag, checked_number
from jaxrob._arguments.texts import readable
from jaxrob._assessment.criterion import Scores
from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob._classifiers.network import SCORE_NAME
from jaxrob._codec import (
    WRITTEN,
    Array,
    Document,
    Integer,
    Layout,
    Number,
    Row,
    Text,
    document,
    read,
    refuse,
    to_json,
)
from jaxrob._curve import AnyCurve, Curve
from jaxrob._files import parsed
from jaxrob.alterations._alteration import check_levels_range
from jaxrob.metrics import ConfidenceInterval, Interval, measures
from jaxrob.metrics._measures import MEAN, TOP_K, any_measure, measure_named
from jaxrob.strategies._strategy import STATUSES

_UNIT = Number(at_least=0, at_most=1)
# The room that plots and exports, looked up by name in the call, because it builds on
# this module.
_REPORTING = "jaxrob.reporting"


#: The name of a measure, as `measure_named` takes it.
MEASURE = Text("the name of a measure", "|".join([*measures, TOP_K, MEAN + SCORE_NAME]))


class DataSet(NamedTuple):
    fingerprint: str
    labels: str = ""


class Network(NamedTuple):
    """The network in the provenance, which reports print."""

    name: str | None = None
    class_names: tuple[str, ...] | None = None


class ScoreFacts(NamedTuple):
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


_Interval = Annotated[ConfidenceInterval, Row(_UNIT, ascends=True)]


class ListedLevels(NamedTuple):
    """Levels that alone exist: what they count, and their names, if they have any."""

    weights: Annotated[np.ndarray, Array("L", at_least=0)]
    names: tuple[str, ...] = ()


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


@document("jaxrob assessment 1")
@dataclasses.dataclass(frozen=True, eq=False)
class Assessment(Document):
    """How robust a classifier is to one alteration, and what that is computed from.

    Attributes:
      alteration: the alteration's name.
      unit: the unit of its levels.
      lower: the lowest plausible level.
      upper: the highest.
      identity: the level at which nothing is altered.
      threshold: the lowest value of the measure that is accepted.
      measure: the quality measure: a name in `jaxrob.metrics.measures`,
        "top5_accuracy", with any number, or "mean IoU" of a score of this name.
      rule: how the integral is taken, see `jaxrob.metrics.heaviside_robustness`;
        "trapezoid" of scores.
      strategy: the strategy that chose the levels, as text.
      error_bound: the largest error of the robustness, or None if the strategy knows
        none; see `jaxrob.strategies.ASAP`.
      scores: the levels' scores, if tolerance, penalization or a distribution of the
        levels was asked for, or None.
      curve: the answers (or counts) behind it, levels ascending.
      provenance: versions, devices, key, the alteration with its parameters ("settings"
        holds `fill` and `clip` by name, and the `size` of which a benchmark's
        corruption takes the parameters; "words" what a level and they mean), and
        fingerprints of classifier and data. One from a folder of results that followed
        a plan has the plan's digest, as "plan".
      diagnostics: how it was sampled, and signs that the numbers deceive.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      seconds: the time the answers took, compilation included; of several alterations
        in one queue, the share of each round's time that its share of levels is.
      sampling: how few images were looked at, and what they leave open; None if all
        were. `curve` then counts the images seen, not as many at every level.
      confidence_level: the coverage of the intervals, in (0, 1).
      listed: the levels' `weights` in the robustness, float64 `[L]`, and `names`, if
        only these exist (`jaxrob.alterations.recorded`); None for a range.
    """

    alteration: str
    unit: str
    lower: float
    upper: float
    identity: float
    threshold: Annotated[float, _UNIT]
    measure: Annotated[str, MEASURE]
    rule: str
    strategy: str
    error_bound: Annotated[float | None, _UNIT]
    diagnostics: Diagnostics
    warnings: tuple[str, ...] = dataclasses.field(repr=False)
    scores: Scores | None = dataclasses.field(repr=False)
    curve: Annotated[AnyCurve, Layout(is_flat=True)] = dataclasses.field(repr=False)
    provenance: dict[str, Any] = dataclasses.field(repr=False)
    seconds: Annotated[float, Number(at_least=0)]
    sampling: Sampling | None = None
    confidence_level: Annotated[float, Number(above=0, below=1)] = 0.95
    listed: Annotated[ListedLevels | None, Layout(may_lack=True)] = None

    def __repr__(self) -> str:
        """The question, the answer with its two errors, and how many warnings."""
        unit = f" {self.unit}" if self.unit else ""
        known = "unknown" if math.isnan(self.robustness) else f"{self.robustness:.4g}"
        low, high = self.confidence_interval
        bound = "" if self.error_bound is None else f" ± {self.error_bound:.2g}"
        alpha = "" if self.curve.alpha is None else f", alpha {self.curve.alpha:g}"
        number = len(self.warnings) + len(self.diagnostics.signs)
        images = int(self.counts.inputs.sum(-1).max())
        seen = f"{images:,} images"
        if self.sampling is not None:
            seen = f"at most {images:,} of {self.sampling.num_images:,} images"
        what = "stability" if self.is_stability else "robustness"
        parts = (
            readable(f"{self.alteration} over [{self.lower:g}, {self.upper:g}]{unit}"),
            f"{self.measure} >= {self.threshold:g}{alpha}",
            f"{what} {known}{bound}",
            f"{100 * self.confidence_level:.8g} % interval [{low:.4g}, {high:.4g}]",
            f"{seen} at {self.diagnostics.points:,} levels",
            f"{number or 'no'} warning{'s' * (number != 1)}",
        )
        return f"Assessment({'; '.join(parts)})"

    def _check_together(self) -> None:
        """Refuses limits that depend on other fields, in a document."""
        name, given = "provenance", self.provenance
        read(Provenance, given, name, is_partial=True, ignores_unknown=True)
        check_levels_range("lower", self.lower, "upper", self.upper)
        checked_number(
            "identity", self.identity, at_least=self.lower, at_most=self.upper
        )
        rules = metrics.RULES if self.scores is None else ("trapezoid",)
        check_choice("rule", self.rule, rules)
        refuse(np.diff(self.levels) <= 0, "levels must ascend")

    @property
    def is_stability(self) -> bool:
        """Whether the right answers are the network's own on the unaltered images."""
        # Of one that is made by hand nothing need be known.
        return self.provenance.get("dataset", {}).get("labels") == "own answers"

    @property
    def levels(self) -> np.ndarray:
        """float64 `[L]`, ascending."""
        return self.curve.levels

    @functools.cached_property
    def counts(self) -> Any:
        """The `metrics.Counts` behind the measure, see `Curve.counts_for`.

        Of scores, all of them.
        """
        return self.curve.counts_for(self.measure)

    @functools.cached_property
    def values(self) -> Annotated[np.ndarray, Array("L", may_be_nan=True), WRITTEN]:
        """float64 `[L]`, the measure at each level."""
        return any_measure(self.measure)(self.counts)

    @functools.cached_property
    def robustness(self) -> Annotated[float, Number(may_be_nan=True), WRITTEN]:
        """In [0, 1], see `jaxrob.metrics.heaviside_robustness`.

        Of scores, see `jaxrob.metrics.tolerance_robustness` (2024 paper, Definition 8).
        NaN where a level is accepted at which nothing is decided: an accuracy counts as
        1 there (2024 paper, Definition 5), whatever the classifier is worth; and where
        the measure is not known, as F1 without a class. From few images it is the best
        guess in `dataset_interval`.
        """
        if self.undecided.any() or np.isnan(self.values).any():
            return math.nan
        if concluded := self.sampling or self.scores:
            return concluded.robustness
        return self._robustness_of(self.values)

    @property
    def is_of_decided(self) -> bool:
        """Whether the measure passes over "unknown" answers; False without alpha."""
        if self.curve.alpha is None:
            return False
        return not measure_named(self.measure).counts_unknown

    @functools.cached_property
    def decided_ratio(self) -> np.ndarray:
        """float64 `[L]`, the share of inputs decided; 1 everywhere without alpha."""
        counts: Any = self.curve.counts
        if not self.curve.num_classes:
            return np.ones(len(self.levels))
        return metrics.decided_ratio(counts)

    @property
    def lowest_decided_ratio(
        self,
    ) -> Annotated[float, Number(may_be_nan=True), WRITTEN]:
        """The lowest decided ratio at an accepted level; NaN if none is accepted."""
        decided = self.decided_ratio[self.values >= self.threshold]
        return float(decided.min(initial=1.0)) if len(decided) else math.nan

    @functools.cached_property
    def undecided(self) -> np.ndarray:
        """Bool `[L]`, where a level is accepted though no input that counts is decided.

        Of the measures, the accuracy alone has a value there.
        """
        inputs = any_measure(self.measure).num_inputs(self.counts)
        return (inputs == 0) & (self.values >= self.threshold)

    @functools.cached_property
    def confidence_interval(
        self,
    ) -> Annotated[ConfidenceInterval, Row(_UNIT, ascends=True), WRITTEN]:
        """The interval that the finite test set leaves for the robustness.

        See `jaxrob.metrics.confidence_interval`. It always holds `robustness`: where
        the rule is coarser than the interval, the interval is widened.
        """
        if concluded := self.sampling or self.scores:
            return concluded.population_interval
        return self.interval_at(self.confidence_level)

    def interval_at(self, confidence_level: float) -> ConfidenceInterval:
        """As `confidence_interval` from all images, of another confidence level."""
        if self.listed is None:
            low, high = metrics.confidence_interval(
                self.levels,
                self.counts,
                self.measure,
                self.threshold,
                confidence_level,
                bounds=(self.lower, self.upper),
            )
        else:
            # A level may seem to be on one wrong side: half of Bonferroni's error.
            number = max(2, np.count_nonzero(self.listed.weights))
            error = (1 - confidence_level) * 2 / number
            ends = metrics.bands(self.counts, self.measure, 1 - error)
            low, high = map(self._robustness_of, ends)
        return ConfidenceInterval(
            float(np.fmin(low, self.robustness)), float(np.fmax(high, self.robustness))
        )

    @functools.cached_property
    def dataset_interval(self) -> ConfidenceInterval:
        """Where the robustness on all images of this data set is.

        From all images, `robustness` and the error bound of the levels around it, the
        whole range where the strategy knows none. From few images, the interval whose
        half width was asked for: what levels and images leave open together, as often
        as the confidence level says.
        """
        if self.sampling is not None and not math.isnan(self.robustness):
            return self.sampling.dataset_interval
        bound = 1.0 if self.error_bound is None else self.error_bound
        # Python's own take 0 and 1 where the robustness is NaN.
        low, high = self.robustness - bound, self.robustness + bound
        return ConfidenceInterval(max(0.0, low), min(1.0, high))

    @property
    def evaluations(self) -> Annotated[int, Integer(0, 2**53), WRITTEN]:
        """How many altered images were classified."""
        if self.sampling is not None:
            return self.sampling.evaluations
        return self.diagnostics.points * int(self.curve.counts.at(0).inputs.sum())

    @functools.cached_property
    def values_per_class(self) -> np.ndarray:
        """float64 `[L, K]`, the measure for each class; NaN where it has no inputs."""
        return any_measure(self.measure).per_class(self.counts)

    @functools.cached_property
    def robustness_per_class(
        self,
    ) -> Annotated[np.ndarray | None, Array("K", may_be_nan=True), WRITTEN]:
        """float64 `[K]`, the robustness for each class; NaN where it has no inputs.

        The accuracy on the inputs of one class is its recall. An adaptive strategy
        chose the levels for the measure over all classes, and its error bound holds for
        that alone: for exact values of each class take `strategies.Uniform`. None with
        a score, from few images, and with a tolerance (`values_per_class` then goes
        into `jaxrob.metrics.tolerance_robustness`).
        """
        if self.sampling or self.scores or not self.curve.num_classes:
            return None
        return np.array(
            [
                np.nan if np.isnan(values).any() else self._robustness_of(values)
                for values in self.values_per_class.T
            ]
        )

    def _robustness_of(self, values: np.ndarray) -> float:
        if self.listed is not None:
            weights = self.listed.weights
            return math.fsum(weights[values >= self.threshold]) / math.fsum(weights)
        return metrics.heaviside_robustness(
            self.levels, values, self.threshold, self.rule
        )

    def by(self, column: str, bins: Any = None) -> Any:
        """The robustness of the images with each value of a column of metadata.

        Example::

            dataset = jaxrob.Dataset(images, labels, metadata={"scanner": scanners})
            result = jaxrob.assess(classifier, dataset, alteration)
            slices = result.by("scanner")
            print(slices.worst.value, slices.worst.joint_interval)

        Args:
          column: a name in the data set's `metadata`, but not that of its groups.
          bins: ascending edges, for a column of numbers: each slice has one edge up to,
            but not including, the next; the last includes both.

        Returns:
          `jaxrob.Slices`, the least robust first.

        Raises:
          ValueError: if there is no such column, a number lies outside the bins, the
            column has more than 1,000 values, the result keeps no answers, or it is
            from few images or with a tolerance.
        """
        slices = importlib.import_module("jaxrob._assessment.slices")
        return slices.by_column(self, column, bins)

    def of_groups(self) -> "Assessment":
        """The assessment in which each group of images counts once, whatever its size.

        The measure is the mean over groups of the accuracy, or the mean score, within
        each, of what is decided; its images are groups. The levels were chosen for all
        images: `error_bound` says what that leaves open.

        Raises:
          ValueError: if the data set has no groups, the measure is another one, the
            result keeps no answers, or it is from few images or with a tolerance.
        """
        return importlib.import_module("jaxrob._assessment.slices").of_groups(self)

    @property
    def accepted(self) -> tuple[Interval, ...]:
        """The intervals of levels where the measure is at least the threshold.

        Of recorded pictures each is one level.
        """
        if self.listed is not None:
            counted = (self.values >= self.threshold) & (self.listed.weights > 0)
            levels = self.levels[counted].tolist()
            return tuple(Interval(level, level) for level in levels)
        return metrics.accepted_intervals(self.levels, self.values, self.threshold)

    @property
    def first_failing_level(self) -> np.ndarray:
        """float64 `[N]`, see `Curve.first_failing_level`; needs its answers."""
        return self._answers("first_failing_level").first_failing_level(self.identity)

    @property
    def first_unknown_level(self) -> np.ndarray:
        """float64 `[N]`, see `Curve.first_unknown_level`; needs its answers."""
        return self._answers("first_unknown_level").first_unknown_level(self.identity)

    def _answers(self, needed_by: str) -> Curve:
        if isinstance(self.curve, Curve):
            return self.curve
        raise ValueError(
            f"{needed_by} needs the answer on each image; this curve keeps only counts "
            "(reduced), or scores: see its first_level_below"
        )

    def to_json(self, answers: bool = True) -> str:
        """The assessment as strict JSON text, without NaN.

        The single answers, about ten bytes for each image and level before compression,
        are arrays in base64 of zlib; all else is plain JSON.

        Args:
          answers: whether the single answers are kept. Without them `from_json` gives
            an assessment with a `ReducedCurve`, which loses the first failing levels.
        """
        one = self
        if not checked_flag("answers", answers) and isinstance(self.curve, Curve):
            one = dataclasses.replace(self, curve=self.curve.reduced(self.measure))
        return to_json(one)

    def to_dict(self) -> dict[str, Any]:
        """The assessment as plain Python values, which strict JSON can hold.

        It is what `to_json` writes without single answers and scores: lists for arrays,
        None for NaN, "inf" for infinity. Where `robustness` is None, an accepted level
        has no decided input.
        """
        found = parsed(self.to_json(answers=False))
        if found.pop("scored", None) is not None:
            del found["digest"]  # It is of the scores too.
        return found

    def to_frame(self) -> Any:
        """A frame of pandas with a row for each level, see `reporting.to_frame`.

        Raises:
          ImportError: if pandas is missing.
        """
        return importlib.import_module(_REPORTING).to_frame(self, rows="levels")

    def to_csv(self) -> str:
        """CSV with a row for each level, see `jaxrob.reporting.to_csv`."""
        return importlib.import_module(_REPORTING).to_csv(self, rows="levels")

    def plot(self, axes: Any = None) -> Any:
        """The measure over the level, see `jaxrob.reporting.plot`."""
        return importlib.import_module(_REPORTING).plot(self, axes)
