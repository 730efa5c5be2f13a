"""Results as rows of plain values, for frames, CSV, LaTeX and loggers."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import check_choice
from jaxrob._arguments.naming import wrong_type
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison
from jaxrob._score_curve import ScoreCurve
from jaxrob.reporting._results import Results, sizes
from jaxrob.roma import RomaResult

Result = Assessment | RomaResult | Comparison | Results
_WANTED = (
    "a jaxrob.Assessment, jaxrob.roma.RomaResult, jaxrob.Comparison or "
    "jaxrob.reporting.Results, or a sequence of these"
)

_ANSWERS = ("right", "wrong", "unknown")


class ResultRow(NamedTuple):
    """An assessment. None stands for what is not known, or not there.

    Attributes:
      network: the network's name.
      alteration: the alteration's name.
      unit: the unit of its levels.
      lower: the lowest plausible level.
      upper: the highest.
      identity: the level at which nothing is altered.
      measure: the quality measure.
      threshold: the lowest accepted value of the measure.
      alpha: the confidence above which the network may answer "unknown".
      robustness: in [0, 1].
      status: "known", or "undecided" where the robustness is not. From few
        images how these ended, see `jaxrob.Assessment.sampling`.
      error_bound: the largest error because of few levels.
      interval_low: the lower end of the interval because of few images.
      interval_high: its upper end.
      confidence_level: its coverage.
      dataset_low: the lowest robustness on all images of the data set.
      dataset_high: the highest.
      decided_ratio: the lowest share of decided inputs at an accepted level.
      levels: the number of levels evaluated.
      images: the number of images that count.
      evaluations: the number of altered images classified.
      seconds: the time that the answers took.
      strategy: what chose the levels.
      rule: how the integral was taken.
      labels: "given", or "own answers" for the network's own, of stability.
      warnings: the number of warnings.
      dataset: the data set's name.
      network_digest: a digest of the network.
      dataset_digest: a digest of images and labels.
    """

    network: str | None
    alteration: str
    unit: str
    lower: float
    upper: float
    identity: float
    measure: str
    threshold: float
    alpha: float | None
    robustness: float | None
    status: str
    error_bound: float | None
    interval_low: float
    interval_high: float
    confidence_level: float
    dataset_low: float
    dataset_high: float
    decided_ratio: float | None
    levels: int
    images: int
    evaluations: int
    seconds: float
    strategy: str
    rule: str
    labels: str | None
    warnings: int
    dataset: str | None
    network_digest: str | None
    dataset_digest: str | None


class LevelRow(NamedTuple):
    """A level of an assessment. None stands for what is not known, or not there.

    Attributes:
      network: the network's name.
      alteration: the alteration's name.
      unit: the unit of the level.
      level: the level.
      measure: the quality measure.
      value: its value there.
      value_low: the lower end of its interval at this level alone.
      value_high: the upper end.
      confidence_level: the interval's coverage.
      threshold: the lowest accepted value.
      accepted: whether the value is at least the threshold.
      accuracy: the share of right answers among the decided ones; None of a score.
      decided_ratio: the share of inputs decided; None of a score.
      effectiveness: the share of right answers among all inputs; None of a score.
      right: the number of right answers; None of a score.
      wrong: the number of wrong ones; None of a score.
      unknown: the number of answers "unknown"; None of a score.
      inputs: the number of images looked at.
    """

    network: str | None
    alteration: str
    unit: str
    level: float
    measure: str
    value: float | None
    value_low: float
    value_high: float
    confidence_level: float
    threshold: float
    accepted: bool
    accuracy: float | None
    decided_ratio: float | None
    effectiveness: float | None
    right: int | None
    wrong: int | None
    unknown: int | None
    inputs: int


class RomaRow(NamedTuple):
    """A result of RoMA. None stands for what is not known, or not there.

    Attributes:
      network: the network's name.
      perturbation: what the perturbed images are drawn from.
      epsilon: its radius.
      delta: the least confidence of a distinct answer.
      estimator: how it was estimated.
      mean_plr: the mean of plr over the inputs.
      mean_plr_low: the lower end of its interval.
      mean_plr_high: the upper end.
      mean_low: the mean of the lower ends of the inputs' intervals.
      confidence_level: the coverage of the intervals.
      inputs: the number of inputs.
      answered: the number of inputs with an answer.
      num_samples: plain draws for each input.
      evaluations: the number of forward passes.
      labels: whether the categories are labels, "given", or "predicted" classes.
      warnings: the number of warnings.
    """

    network: str | None
    perturbation: str
    epsilon: float | None
    delta: float
    estimator: str
    mean_plr: float | None
    mean_plr_low: float | None
    mean_plr_high: float | None
    mean_low: float | None
    confidence_level: float
    inputs: int
    answered: int
    num_samples: int
    evaluations: int
    labels: str
    warnings: int


class ComparisonRow(NamedTuple):
    """A comparison, the first network less the second; see `jaxrob.Comparison`.

    It does not hold the names of the networks or the alteration.
    """

    difference: float | None
    interval_low: float
    interval_high: float
    p_value: float | None
    mean_difference: float | None
    mean_low: float
    mean_high: float
    mean_p_value: float | None
    confidence_level: float
    shared_levels: int


#: The kinds of rows by name.
ROWS: dict[str, type[Any]] = {
    "results": ResultRow,
    "levels": LevelRow,
    "roma": RomaRow,
    "comparisons": ComparisonRow,
}


def rows_of(results: Any, rows: str) -> list[Any]:
    """Returns the rows of a kind."""
    check_choice("rows", rows, ROWS)
    kind, make = _MAKE[rows]
    pairs = _single(results)
    wanted = [
        row
        for network, one in pairs
        if isinstance(one, kind)
        for row in make(network, one)
    ]
    if not wanted:
        raise ValueError(
            f"results must hold one with rows of {rows!r}; got "
            f"{', '.join(sorted({type(one).__name__ for _, one in pairs})) or 'none'}"
        )
    return wanted


def known(number: Any) -> float | None:
    """Returns a number of Python's, None for NaN or None."""
    return None if number is None or math.isnan(number) else float(number)


def robustness_status(one: Assessment) -> str:
    """Returns "known", or why the robustness is not; from few images how they ended."""
    if one.undecided.any():
        return "undecided"
    return "known" if one.sampling is None else one.sampling.status


def _single(results: Any) -> list[tuple[str | None, Any]]:
    """Returns each result with the name of its network."""
    if isinstance(results, Results):
        each = [*results.assessments, *filter(None, [results.roma])]
        return [(results.network or _network(one), one) for one in each]
    if isinstance(results, Assessment | RomaResult | Comparison):
        return [(_network(results), results)]
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise wrong_type("results", _WANTED, results)
    for one in results:
        if not isinstance(one, Result):
            raise wrong_type("results", _WANTED, one)
    return [pair for one in results for pair in _single(one)]


def _network(one: Assessment | RomaResult | Comparison) -> str | None:
    if not isinstance(one, Assessment):
        return None
    return (one.provenance.get("network") or {}).get("name")


def _result_rows(network: str | None, one: Assessment) -> list[ResultRow]:
    dataset = one.provenance.get("dataset") or {}
    row = ResultRow(
        network=network,
        alteration=one.alteration,
        unit=one.unit,
        lower=float(one.lower),
        upper=float(one.upper),
        identity=float(one.identity),
        measure=one.measure,
        threshold=float(one.threshold),
        alpha=known(one.curve.alpha),
        robustness=known(one.robustness),
        status=robustness_status(one),
        error_bound=known(one.error_bound),
        interval_low=float(one.confidence_interval.low),
        interval_high=float(one.confidence_interval.high),
        confidence_level=float(one.confidence_level),
        dataset_low=float(one.dataset_interval.low),
        dataset_high=float(one.dataset_interval.high),
        decided_ratio=known(one.lowest_decided_ratio),
        levels=int(one.diagnostics.points),
        images=sizes(one)[1],
        evaluations=int(one.evaluations),
        seconds=float(one.seconds),
        strategy=one.strategy,
        rule=one.rule,
        labels=dataset.get("labels"),
        warnings=len(one.warnings) + len(one.diagnostics.signs),
        dataset=dataset.get("name"),
        network_digest=one.provenance.get("classifier"),
        dataset_digest=dataset.get("fingerprint"),
    )
    return [row]


def _level_rows(network: str | None, one: Assessment) -> list[LevelRow]:
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    answers = _answers(one)
    inputs = one.counts.inputs.sum(-1)
    return [
        LevelRow(
            network=network,
            alteration=one.alteration,
            unit=one.unit,
            level=float(level),
            measure=one.measure,
            value=known(value),
            value_low=float(low[place]),
            value_high=float(high[place]),
            confidence_level=float(one.confidence_level),
            threshold=float(one.threshold),
            accepted=bool(value >= one.threshold),
            inputs=int(inputs[place]),
            **answers[place],
        )
        for place, (level, value) in enumerate(zip(one.levels, one.values))
    ]


def _answers(one: Assessment) -> list[dict[str, Any]]:
    """Returns shares and numbers of answers at each level, None of a score, by name."""
    shares = ("accuracy", "decided_ratio", "effectiveness")
    if isinstance(one.curve, ScoreCurve):
        return [dict.fromkeys((*shares, *_ANSWERS))] * len(one.levels)
    counts = one.curve.counts
    total = counts.summed()
    columns = [map(known, metrics.measures[name](counts)) for name in shares]
    numbers = (total.correct, total.decided - total.correct, total.unknown)
    columns += [np.ravel(part).tolist() for part in numbers]
    return [dict(zip((*shares, *_ANSWERS), row)) for row in zip(*columns)]


def _roma_rows(network: str | None, one: RomaResult) -> list[RomaRow]:
    low, high = one.mean_plr_interval
    row = RomaRow(
        network=network,
        perturbation=one.perturbation,
        epsilon=known(one.epsilon),
        delta=float(one.delta),
        estimator=one.estimator,
        mean_plr=known(one.mean_plr),
        mean_plr_low=known(low),
        mean_plr_high=known(high),
        mean_low=known(one.mean_low),
        confidence_level=float(one.confidence_level),
        inputs=len(one.status),
        answered=int(one.answered.sum()),
        num_samples=int(one.num_samples),
        evaluations=int(one.evaluations.sum()),
        labels="predicted" if one.labels is None else "given",
        warnings=len(one.warnings),
    )
    return [row]


def _comparison_rows(network: None, one: Comparison) -> list[ComparisonRow]:
    del network
    row = ComparisonRow(
        difference=known(one.difference),
        interval_low=float(one.confidence_interval.low),
        interval_high=float(one.confidence_interval.high),
        p_value=known(one.p_value),
        mean_difference=known(one.mean_difference),
        mean_low=float(one.mean_interval.low),
        mean_high=float(one.mean_interval.high),
        mean_p_value=known(one.mean_p_value),
        confidence_level=float(one.confidence_level),
        shared_levels=len(one.levels),
    )
    return [row]


# Of each kind of rows the results that have such, and what makes them.
_MAKE: dict[str, tuple[type[Any], Callable[[Any, Any], list[Any]]]] = {
    "results": (Assessment, _result_rows),
    "levels": (Assessment, _level_rows),
    "roma": (RomaResult, _roma_rows),
    "comparisons": (Comparison, _comparison_rows),
}
