"""Checks of the paper's findings, a line each, with 95 % intervals over inputs."""

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from common import intervals
from scipy import stats

from jaxrob import roma
from roma_2022 import results
from roma_2022.results import PAPER, Timed, Values, readings, short

# The largest p-value of a finding, as in the paper.
_SIGNIFICANT = 0.001
_TOGETHER = 0.05


class Case(NamedTuple):
    """Results of the same inputs, by estimator, at one epsilon and epoch."""

    level: float  # the epsilon or the epoch, whichever is varied
    found: Mapping[str, Timed]


def over(
    number: str, claim: str, cases: Sequence[Case], rises: bool = True
) -> list[str]:
    """Tests whether the probability of a distinct misclassification rises, or falls."""
    # Beyond the interval from first to last, and no step beyond its own the other way.
    # The steps' intervals have a simultaneous coverage of 95 % (Bonferroni).
    lines = []
    sign = 1 if rises else -1
    read = [readings(case.found) for case in cases]
    for name in read[0]:
        values = [one[name][1] for one in read]
        change = _change(values[0], values[-1])
        level = 1 - 0.05 / (len(values) - 1)
        steps = [_change(*two, level) for two in itertools.pairwise(values)]
        as_claimed = sum(min(sign * low, sign * high) > 0 for low, high in steps)
        opposite = sum(max(sign * low, sign * high) < 0 for low, high in steps)
        ends = sorted(sign * np.array(change))
        verdict = "does not hold" if opposite else _verdict((ends[0], ends[1]))
        first, last = _mean(values[0]), _mean(values[-1])
        lines.append(
            f"{number}  {claim}, by {name}: Adv {short(first)} at "
            f"{cases[0].level:g}, {short(last)} at {cases[-1].level:g}, difference "
            f"{_interval(last - first, change)}; of {len(steps)} steps {as_claimed} "
            f"are shown to {'rise' if rises else 'fall'}, {opposite} to do the "
            f"opposite; {verdict}"
        )
    return lines


def answers(cases: Sequence[Case]) -> list[str]:
    """Counts the queries of experiment 1 that "roma" answers, by epsilon."""
    if "roma" not in cases[0].found:
        return []
    answered = np.array([case.found["roma"].result.answered for case in cases])
    share = answered.mean(axis=0)
    text = _interval(share.mean(), intervals.over_inputs(np.mean, share), "{:.2%}")
    lines = [
        f"1  roma answers {text} of the queries (paper: "
        f"{results.PAPER_ANSWERED['experiment 1']:g} %)"
    ]
    if len(cases) < 3:
        return lines
    middle = answered[1:-1].mean(axis=0)
    for end in (0, -1):
        differences = middle - answered[end]
        interval = intervals.over_inputs(np.mean, differences)
        text = _interval(differences.mean(), interval, "{:+.2%}")
        lines.append(
            "1  it answers more often at middling epsilon than at "
            f"{cases[end].level:g}: {text}; {_verdict(interval)}"
        )
    return lines


def as_drawn(result: roma.RomaResult) -> list[str]:
    """Counts the inputs that "roma" answers, and those that are normal as drawn."""
    lines = []
    for what, selected, paper in (
        ("answered", result.answered, "experiment 3"),
        ("normal as drawn, so most are not", result.status == "normal", "as drawn"),
    ):
        count = int(selected.sum())
        found = stats.binomtest(count, len(selected)).proportion_ci(method="wilson")
        ends = float(found.low), float(found.high)
        line = f"3  roma: {_interval(selected.mean(), ends, '{:.2%}')} {what} (paper: "
        line += f"{results.PAPER_ANSWERED[paper]:g} %)"
        if paper == "as drawn":
            line += f"; {_verdict((0.5 - ends[1], 0.5 - ends[0]))}"
        lines.append(line)
    return lines


def by_category(found: Mapping[str, Timed], class_names: tuple[str, ...]) -> list[str]:
    lines = []
    for by, kind in results.CATEGORIES.items():
        compared = results.by_category(found, class_names, by)
        for reading, (one, values) in readings(found).items():
            name, table = f"{reading}, {kind}", compared[reading]
            lines += _variability(name, table)
            if {"cat", "truck"} <= set(table.names):
                inputs = results.category(one.result, by)
                lines += _cats_and_trucks(name, table, values, inputs)
                lines += _order(name, table)
    return lines


def _variability(name: str, compared: roma.Categorial) -> list[str]:
    pairs = np.triu_indices(len(compared.names), 1)
    means = compared.adversarial
    if np.isnan(means).all():
        return []
    lines = []
    welch = (
        f"mean Adv from {short(np.nanmin(means))} "
        f"({compared.names[np.nanargmin(means)]}) to {short(np.nanmax(means))} "
        f"({compared.names[np.nanargmax(means)]}), Welch"
    )
    hits = "inputs with a hit among their plain draws, binomial"
    tests = (welch, compared.welch[pairs]), (hits, compared.binomial[pairs])
    for what, p_values in tests:
        if np.isnan(p_values).all():
            continue
        differ, least = int((p_values < _TOGETHER).sum()), np.nanmin(p_values)
        lines.append(
            f"3  robustness differs between categories, by {name}: {what}: Holm's p "
            f"below {_TOGETHER:g} for {differ} of {len(p_values)} pairs, the least "
            f"{least:.2g}; {'holds' if differ else 'undecided'}"
        )
    return lines


def _cats_and_trucks(
    name: str, compared: roma.Categorial, values: Values, categories: np.ndarray
) -> list[str]:
    """Tests the paper's pair: four times as probable for cats."""
    cat, truck = (compared.names.index(one) for one in ("cat", "truck"))
    if min(compared.answered[[cat, truck]]) < 2:
        return []
    worse, better = compared.adversarial[[cat, truck]]
    ratio = worse / better if better > 0 else math.nan
    there = np.unique(categories)
    interval = _of_ratio(values, categories == there[cat], categories == there[truck])
    p = compared.welch[cat, truck], compared.binomial[cat, truck]
    spread = max(compared.std[cat], compared.std[truck])
    apart = abs(worse - better) / spread if spread > 0 else math.nan
    return [
        f"3  cats are less robust than trucks, by {name}: Adv {short(worse)} / "
        f"{short(better)} = {_interval(ratio, interval, '{:.3g}')} (paper: 4.7); "
        + _verdict((interval[0] - 1, interval[1] - 1)),
        f"3  tests tell the two apart, by {name}: Holm's p {p[0]:.2g} (Welch), "
        f"{p[1]:.2g} (binomial) (paper: below {_SIGNIFICANT:g}, not Holm's); "
        + ("holds" if max(p) < _SIGNIFICANT else "undecided"),
        f"3  the spread within the two is very small, by {name}: their means differ by "
        f"{apart:.2g} of the larger standard deviation (paper: 0.26); "
        + _verdict((apart - 1, apart - 1)),
    ]


def _of_ratio(
    values: Values, first: np.ndarray, second: np.ndarray
) -> tuple[float, float]:
    groups = (values._replace(known=values.known & one) for one in (first, second))
    arrays = (array for group in groups for array in _summands(group))
    return intervals.over_inputs(_of_means(operator.truediv), *arrays)


def _order(name: str, compared: roma.Categorial) -> list[str]:
    if set(compared.names) != set(PAPER) or not np.ptp(compared.plr) > 0:
        return []
    paper = [PAPER[category][0] for category in compared.names]
    found = stats.spearmanr(compared.plr, paper)
    low, high = _of_correlation(found.statistic, len(paper))
    return [
        f"3  the categories come in the paper's order, by {name}: rank correlation "
        f"{_interval(found.statistic, (low, high), '{:+.2f}')}; {_verdict((low, high))}"
    ]


def _of_correlation(correlation: float, number: int) -> tuple[float, float]:
    """Returns Fisher's interval, with Bonett and Wright's (2000) error for ranks."""
    error = math.sqrt((1 + correlation**2 / 2) / (number - 3))
    middle = math.atanh(min(max(correlation, -0.999), 0.999))
    half = float(stats.norm.ppf(0.975)) * error
    return math.tanh(middle - half), math.tanh(middle + half)


def against_auto(found: Mapping[str, Timed]) -> list[str]:
    """Compares "roma" with "auto", by the size of "auto"'s estimate."""
    if not {"roma", "auto"} <= set(found):
        return []
    better = found["auto"].result
    theirs = results.at_inputs(found["roma"], found["auto"].inputs)
    # Those that both answer, "auto" by more than a bound.
    both = theirs.answered & better.answered & (better.status != "bounded")
    x, y = (
        one.log_adversarial_probability[both] * np.log10(np.e)
        for one in (better, theirs)
    )
    lines = []
    for low, high in ((-2, 0), (-4, -2), (-6, -4), (-math.inf, -6)):
        inside = (x >= low) & (x < high)
        if inside.any():
            ratio = 10 ** np.median((y - x)[inside])
            above = np.mean((y - x)[inside] > 0)
            where = f"1e{low:g} to 1e{high:g}" if low > -math.inf else "below 1e-6"
            off = np.mean(np.abs(y - x)[inside] > np.log10(3))
            lines.append(
                f"   roma / auto, {where}: median "
                f"{ratio:.3g}, above for {above:.0%}, off by a factor 3 for {off:.0%} "
                f"of {inside.sum()} inputs"
            )
    return lines


def costs(
    found: Mapping[str, Sequence[Timed]], seconds_a_pass: float, num_images: int
) -> list[str]:
    """Each estimator's cost, and the estimate for the whole test set; no journal's."""
    lines = []
    for name, every in found.items():
        ones = [one for one in every if not math.isnan(one.seconds)]
        if not ones:
            continue
        seconds = sum(one.seconds for one in ones)
        passes = sum(one.result.evaluations.sum() for one in ones)
        queries = sum(len(one.inputs) for one in ones)
        whole = seconds / queries * num_images
        lines.append(
            f"   {name}: {seconds:.0f} s for {queries:,} queries, "
            f"{seconds / queries:.3g} s and {passes / queries:,.0f} forward passes "
            f"each, which alone take {seconds_a_pass * passes / queries:.3g} s; all "
            f"{num_images:,} images would take {_hours(whole)} for one of the "
            f"{len(every)} epsilons and epochs, {_hours(whole * len(every))} for all"
        )
    return lines


def _change(
    first: Values, last: Values, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Returns the interval of the second mean less the first one."""
    both, level = (*_summands(last), *_summands(first)), confidence_level
    return intervals.over_inputs(_of_means(operator.sub), *both, confidence_level=level)


def _of_means(combine: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A statistic of two means, from the summands and numbers of each."""

    def statistic(*values: np.ndarray, axis: int) -> np.ndarray:
        x, x_known, y, y_known = (one.sum(axis=axis) for one in values)
        return combine(x / x_known, y / y_known)

    return statistic


def _summands(values: Values) -> tuple[np.ndarray, np.ndarray]:
    """Returns the summands of the mean of the known values, and of their number."""
    return np.where(values.known, values.adversarial, 0.0), values.known.astype(float)


def _mean(values: Values) -> float:
    known = values.adversarial[values.known]
    return float(known.mean()) if len(known) else math.nan


def _verdict(interval: tuple[float, float]) -> str:
    low, high = interval
    return "holds" if low > 0 else "does not hold" if high < 0 else "undecided"


def _interval(value: float, ends: tuple[float, float], form: str = "{:+.3g}") -> str:
    if np.isnan(ends).any():
        return f"{form.format(value)} (no interval)"
    low, high = (form.format(end) for end in ends)
    return f"{form.format(value)} [{low}, {high}]"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2g} h" if seconds >= 3600 else f"{seconds / 60:.2g} min"
