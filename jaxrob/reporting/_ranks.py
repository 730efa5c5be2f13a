"""Ranks of several networks on the same images, with simultaneous confidence."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_type, checked_names, checked_sequence
from jaxrob._arguments.texts import warn
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import answers_of, check_pair, question_of
from jaxrob._assessment.paired import (
    Answers,
    Question,
    freedom,
    observed_means,
    resampled_means,
    shared_levels,
)
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.metrics._measures import in_words
from jaxrob.metrics._testing import num_rank_resamples, rank_intervals, surely_better
from jaxrob.reporting._plot import ACCEPTED, LINES, checked_axes, literal, new_figure
from jaxrob.reporting._words import short


@dataclasses.dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of P networks, from the best to the worst mean over the range.

    Attributes:
      alteration: the alteration's name; None of the mean over all alterations.
      measure: the measure ranked by.
      networks: the networks' names.
      values: float64 `[P]`, the measure's mean over the range, descending.
      low: integers `[P]`, the best rank that each could have; 1 is the best of all.
      high: integers `[P]`, the worst rank that each could have.
      num_images: the number of images.
      num_levels: the number of levels that all networks share, of all alterations.
      confidence_level: the simultaneous coverage aimed at.
    """

    alteration: str | None
    measure: str
    networks: tuple[str, ...]
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    num_images: int
    num_levels: int
    confidence_level: float

    @property
    def could_be_first(self) -> tuple[str, ...]:
        """The networks that none is significantly better than."""
        return tuple(name for name, low in zip(self.networks, self.low) if low == 1)


def ranks(
    networks: Mapping[str, Sequence[Assessment]], confidence_level: float = 0.95
) -> tuple[Ranks, ...]:
    """Ranks networks that were assessed on the same images, by alteration and over all.

    Networks are ranked by the measure's mean over the range, joined by straight lines
    between the levels that all networks share, as in `jaxrob.compare`. Their robustness
    would tie all networks that are good enough everywhere.

    The intervals of the ranks hold for all networks at once, with the probability
    `confidence_level` (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for
    Ranks"), but not for all alterations at once. The lower end of a rank is one more
    than the number of networks that are significantly better, the higher end leaves out
    those significantly worse. The differences are bootstrapped over images, drawn for
    all networks together, with an image added for each network that it alone gets right
    (see `jaxrob.compare`). Another training may give other ranks.

    Args:
      networks: the assessments of each network by its name, at least two networks, with
        the same alterations, ranges, thresholds and measure.
      confidence_level: the coverage aimed at, in (0, 1).

    Returns:
      The `Ranks` for each alteration, in the first network's order. If there are
      several, the last is over all: of the mean over the alterations, which all count
      the same.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if two networks differ in what `jaxrob.compare` requires, right
        answers are a network's own, the networks have no level in common, there are
        only a handful of images, or nothing is decided at a level.
    """
    confidence_level = checked_confidence_level(confidence_level)
    by_name = _checked(networks)
    names = tuple(by_name)
    tasks = [_task(names, some) for some in zip(*by_name.values())]
    number = num_rank_resamples(confidence_level)
    pairs = len(names) * (len(names) - 1) / 2
    questions = [task.question for task in tasks]
    drawn = (one.labels if one.groups is None else {*one.groups} for one in questions)
    num_images = min(map(len, drawn))
    # Of fewer images no exact test of all pairs could find anything.
    fewest = 1 + math.ceil(math.log2(pairs / (1 - confidence_level)))
    if num_images < fewest:
        raise ValueError(
            f"networks must be assessed on at least {fewest} images to rank "
            f"{len(names)} of them at {100 * confidence_level:g} %; got {num_images}"
        )
    drawn = [resampled_means(task.question, task.answers, number) for task in tasks]
    found = [
        _ranked(names, confidence_level, task.alteration, [task], task.values, some)
        for task, some in zip(tasks, drawn)
    ]
    if len({(task.measure, *task.images) for task in tasks}) > 1:
        warn(
            "the alterations differ in the measure, in the images or in their groups, "
            "so there is no rank over all"
        )
    elif len(tasks) > 1:
        values = np.mean([task.values for task in tasks], axis=0)
        drawn = np.mean(drawn, axis=0)
        found.append(_ranked(names, confidence_level, None, tasks, values, drawn))
    return tuple(found)


class _Task(NamedTuple):
    alteration: str
    measure: str
    images: tuple[object, bytes, bytes]  # What tells them from others.
    question: Question
    answers: list[Answers]
    values: np.ndarray


def _checked(
    networks: Mapping[str, Sequence[Assessment]],
) -> dict[str, list[Assessment]]:
    """Returns the assessments of each network, in the first network's order."""
    check_type("networks", networks, Mapping, "a mapping from names to assessments")
    names = checked_names("networks", tuple(networks))
    if len(names) < 2:
        raise ValueError(
            f"networks must be at least two, because one has no rank; got {len(names)}"
        )
    found: dict[str, list[Assessment]] = {}
    for name in names:
        some = checked_sequence(
            f"networks[{name!r}]", networks[name], Assessment, "jaxrob.Assessment"
        )
        own = {one.alteration: one for one in some}
        titles = [one.alteration for one in found.get(names[0], some)]
        if len(own) < len(some):
            every = [one.alteration for one in some]
            twice = next(title for title in own if every.count(title) > 1)
            raise ValueError(f"networks[{name!r}] has two assessments of {twice}")
        if own.keys() != {*titles}:
            differ = ", ".join(sorted(own.keys() ^ {*titles}))
            raise ValueError(
                "networks must be assessed under the same alterations; "
                f"{names[0]!r} and {name!r} differ in {differ}"
            )
        found[name] = [own[title] for title in titles]
    return found


def _task(names: Sequence[str], some: Sequence[Assessment]) -> _Task:
    first = some[0]
    for name, one in zip(names, some):
        if one.is_stability:
            raise ValueError(
                f"{name!r}, {one.alteration}: its right answers are a network's own, "
                "which rank nothing; assess all networks with true labels"
            )
        both = f"{names[0]!r} (first) and {name!r} (second)"
        try:
            check_pair(first, one)
        except ValueError as error:
            who = repr(name) if one is first else both
            raise ValueError(f"{who}, {one.alteration}: {error}") from error
    answers = _at_shared(names, first.alteration, [answers_of(one) for one in some])
    if any(one.is_of_decided for one in some):
        warn(
            f"{first.alteration}: answers that are unknown do not count, so a network "
            "may be first because it decides only what is easy. Rank by "
            'measure="effectiveness" to count them as wrong.'
        )
    question = question_of(first)
    groups = b"" if question.groups is None else question.groups.tobytes()
    fingerprint = first.provenance["dataset"]["fingerprint"]
    images = fingerprint, question.labels.tobytes(), groups
    values = observed_means(question, answers)
    if np.isnan(values).any():
        raise ValueError(
            f"{names[int(np.isnan(values).argmax())]!r}, {first.alteration}: the "
            f"{first.measure} is undefined at a level, so its mean has no rank"
        )
    return _Task(first.alteration, first.measure, images, question, answers, values)


def _at_shared(
    names: Sequence[str], alteration: str, answers: Sequence[Answers]
) -> list[Answers]:
    levels = answers[0].levels
    for name, one in zip(names, answers):
        levels = shared_levels(levels, one.levels).levels
        if not len(levels):
            raise ValueError(
                f"{name!r}, {alteration}: it has no level in common with those before; "
                "assess all with strategy=jaxrob.strategies.Uniform(41), for instance"
            )
    fewest = min(len(one.levels) for one in answers)
    if len(levels) < fewest / 2:
        warn(
            f"{alteration}: the networks share only {len(levels)} levels, of {fewest} "
            "or more. The ranks are by these alone. Assess all with the same levels."
        )
    return [
        Answers(levels, one.answers[shared_levels(levels, one.levels).places[1]])
        for one in answers
    ]


def _ranked(
    names: tuple[str, ...],
    confidence_level: float,
    alteration: str | None,
    tasks: Sequence[_Task],
    values: np.ndarray,
    replicates: np.ndarray,
) -> Ranks:
    num_images = len(tasks[0].question.labels)
    replicates = replicates[:, ~np.isnan(replicates).any(axis=0)]
    if replicates.shape[1] < 2:
        raise ValueError(
            f"{alteration or 'over all'}: on {num_images} images the measure of nearly "
            "all replicates is undefined; assess more images"
        )
    degrees = min(freedom(one.question, one.answers) for one in tasks)
    better = surely_better(values, replicates, confidence_level, degrees)
    low, high = rank_intervals(better)
    # Of equal values, those with the better ranks come first.
    order = np.lexsort((np.arange(len(names)), high, low, -values))
    return Ranks(
        alteration,
        tasks[0].measure,
        tuple(names[at] for at in order),
        values[order],
        low[order],
        high[order],
        num_images,
        sum(len(one.answers[0].levels) for one in tasks),
        confidence_level,
    )


def rank_table(found: Ranks) -> str:
    """Formats ranks for a terminal or a log, a row for each network.

    A rank that is not certain is a range ("1-3"). Below stands who could be first.

    Raises:
      TypeError: if `found` are no ranks.
    """
    check_type("found", found, Ranks, "a jaxrob.reporting.Ranks")
    names = [short(name, 40) for name in found.networks]
    width = max(map(len, (*names, "network")))
    lines = [_title(found), f"  {'network'.ljust(width)}   mean  rank"]
    for name, value, low, high in zip(names, found.values, found.low, found.high):
        lines.append(f"  {name.ljust(width)}  {value:.3f}  {rank_text(low, high)}")
    first = ", ".join(short(name, 40) for name in found.could_be_first)
    lines.append(f"  could be first: {first}")
    return "\n".join(lines)


def plot_ranks(found: Ranks, axes: Any = None) -> Any:
    """Plots the interval of each network's rank, the best mean on top.

    A dot marks the rank of the observed mean; green are those that could be first.

    Args:
      found: the ranks.
      axes: matplotlib axes to draw on; by default those of a new figure.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
    """
    check_type("found", found, Ranks, "a jaxrob.reporting.Ranks")
    number = len(found.networks)
    axes = checked_axes(axes, (5, 1.2 + 0.28 * number))
    rows = np.arange(number)
    seen = 1 + (found.values[:, None] < found.values - 1e-12).sum(axis=1)
    for row, low, high, rank in zip(rows, found.low, found.high, seen):
        colour, style = (ACCEPTED, "-") if low == 1 else (LINES[0].colour, "--")
        axes.plot([low, high], [row, row], style, color=colour, linewidth=2)
        axes.plot([low, high], [row, row], "|", color=colour, markersize=9)
        axes.plot(rank, row, "o", color=colour, markersize=5)
    axes.set_yticks(rows, [literal(short(name, 40)) for name in found.networks])
    axes.invert_yaxis()
    axes.set_xlim(0.5, number + 0.5)
    axes.set_xticks(np.arange(1, number + 1, max(1, number // 10)))
    axes.set_xlabel(f"rank by the mean {in_words(found.measure)}; 1 is best")
    axes.grid(axis="x", color="0.9")
    axes.set_title(literal(short(found.alteration or "over all", 40)), fontsize=10)
    return axes


def rank_figure(found: Sequence[Ranks]) -> Any:
    """Plots several ranks, one below the other, see `plot_ranks`; at least one."""
    found = checked_sequence("found", found, Ranks, "jaxrob.reporting.Ranks")
    rows = 1.2 + 0.28 * len(found[0].networks)
    whole = new_figure(6, rows * len(found))
    for axes, one in zip(whole.subplots(len(found), squeeze=False)[:, 0], found):
        plot_ranks(one, axes)
    return whole


def _title(found: Ranks) -> str:
    title = short(found.alteration or "over all", 40)
    return (
        f"{title}: mean {in_words(found.measure)} of {found.num_images} images over "
        f"the range ({found.num_levels} levels), ranks jointly at "
        f"{100 * found.confidence_level:g} %"
    )


def rank_text(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}-{high}"
