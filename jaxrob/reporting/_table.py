"""Assessments as a text table."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxrob._arguments.checks import checked_sequence
from jaxrob._arguments.texts import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._columns import OF_CORRUPTIONS, Row, rows_of
from jaxrob.reporting._words import (
    ROUNDED,
    by_cause,
    confidence_text,
    corruption_means,
    corruptions,
    ending_text,
    excursions,
    full_evaluations,
    level_of,
    listed_levels,
    request_text,
)


def table(assessments: Sequence[Assessment]) -> str:
    """Formats assessments for a terminal or a log, a row for each.

    The columns are the alteration and its range, the measure at the identity and at its
    worst, the level where it is worst, the robustness ("undecided" if nothing is
    decided at an accepted level), its error bound because of few levels ("-" if the
    strategy has none) and its confidence interval because of few images, the levels
    evaluated and the seconds. With alpha there is also the lowest share of inputs
    decided at an accepted level, and a value of the decided inputs alone is followed by
    their share ("0.984 of 66%"). From few images further columns show the interval on
    all images of the data set, the altered images classified, their share of all at
    these levels, and how it ended.

    Lines below state what is accepted, what was asked of few images, the levels that
    were saved, how wide a dip or peak must be to be seen, stability, the benchmarks'
    mean errors of corruptions by severity, and each cause of warnings, the gravest
    first.

    Args:
      assessments: the assessments, at least one.

    Returns:
      The table as text, without a newline at its end.

    Raises:
      TypeError: if it is a single assessment.
      ValueError: if there is no assessment.
    """
    wanted = "jaxrob.Assessment, such as [assessment]"
    assessments = checked_sequence("assessments", assessments, Assessment, wanted)
    conditions = set(map(_condition, assessments))
    few = [one for one in assessments if one.sampling is not None]
    columns = dict(_COLUMNS)
    if any(one.curve.alpha is not None for one in assessments):
        columns |= _OF_ALPHA
    if len(conditions) > 1:
        columns |= _OF_SEVERAL
    if few:
        columns |= _OF_FEW
    every = rows_of(assessments, "results", OF_CORRUPTIONS)
    heads = [
        f"{level_of(assessments)} interval" if head == "interval" else head
        for head in columns
    ]
    rows = [
        # Without line breaks or control characters in the names of users and files.
        [readable(show(row, one)) for show in columns.values()]
        for row, one in zip(every, assessments)
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    lines = [_line(row, widths) for row in (heads, *rows)]
    lines.insert(1, "  ".join("-" * width for width in widths))
    below = []
    if len(conditions) == 1:
        of = "range" if assessments[0].listed is None else "levels listed"
        below.append(f"robustness: share of the {of} with {conditions.pop()}")
    below += _words_of_few(few) + _words_of_saved(assessments)
    if unseen := excursions(assessments):
        below.append(f"between levels: {unseen}")
    if any(map(_looks_certain, assessments)):
        below.append(ROUNDED)
    stable = [one.alteration for one in assessments if one.is_stability]
    if stable:
        of = "" if len(stable) == len(assessments) else f" of {', '.join(stable)}"
        below.append(
            f"stability{of}: right is what the network itself answers unaltered"
        )
    if (found := corruptions(assessments)) is not None:
        below += [f"{name}: {text}" for name, text in corruption_means(found)]
    below += [f"{one.of}: {one.text}" for one in by_cause(assessments)]
    return "\n".join([*lines, *map(readable, below)])


def _looks_certain(assessment: Assessment) -> bool:
    low, high = (f"{end:.1%}" for end in assessment.confidence_interval)
    bound = assessment.error_bound
    return low == high != "nan%" or (bound is not None and f"{bound:.1%}" == "0.0%")


def robustness_text(assessment: Assessment, form: str) -> str:
    robustness = assessment.robustness
    return "undecided" if math.isnan(robustness) else format(robustness, form)


def _value(row: Row, one: Assessment, name: str, level: float) -> str:
    if row[name] is None:
        return "-" if level not in one.levels else "nan"
    value = f"{row[name]:.4f}"
    if one.is_of_decided:
        (at,) = np.flatnonzero(one.levels == level)[:1]
        value += f" of {one.decided_ratio[at]:.1%}"
    return value


def _share(share: float | None, before: str = "") -> str:
    return "-" if share is None else f"{before}{share:.1%}"


def _of_all(row: Row, one: Assessment) -> str:
    whole = row["evaluations"] if one.sampling is None else full_evaluations(one)
    return _share(row["evaluations"] / whole)


# The columns of the printed table: texts of a row and its assessment.
_Columns = dict[str, Callable[[Row, Assessment], str]]
_COLUMNS: _Columns = {
    "alteration": lambda row, one: row["alteration"],
    "range": lambda row, one: (
        f"[{row['lower']:.4g}, {row['upper']:.4g}] {row['unit']}".rstrip()
    ),
    "unaltered": lambda row, one: _value(row, one, "unaltered", one.identity),
    "worst": lambda row, one: _value(row, one, "lowest", row["lowest_at"]),
    "at": lambda row, one: (
        (listed_levels(one) or {}).get(at := row["lowest_at"]) or f"{at:.4g}"
    ),
    "robustness": lambda row, one: robustness_text(one, ".2%"),
    "error bound": lambda row, one: _share(row["error_bound"], "± "),
    "interval": lambda row, one: "{:.1%} - {:.1%}".format(*one.confidence_interval),
    "levels": lambda row, one: str(row["levels"]),
    "seconds": lambda row, one: f"{row['seconds']:.1f}",
}
_OF_ALPHA: _Columns = {"decided": lambda row, one: _share(row["decided_ratio"])}
_OF_SEVERAL: _Columns = {"accepted": lambda row, one: _condition(one)}
_OF_FEW: _Columns = {
    "on this data set": lambda row, one: (
        "-" if one.sampling is None else "{:.2%} - {:.2%}".format(*one.dataset_interval)
    ),
    "images": lambda row, one: f"{row['evaluations']:,}",
    "of all": _of_all,
    "ended": lambda row, one: "all" if one.sampling is None else one.sampling.status,
}


def _words_of_few(few: Sequence[Assessment]) -> list[str]:
    if not few:
        return []
    samplings = [one.sampling for one in few if one.sampling is not None]
    sure = dict.fromkeys(map(confidence_text, samplings))
    asked = dict.fromkeys(map(request_text, samplings))
    ended = {one.status: ending_text(one) for one in samplings}
    spent, whole = sum(one.evaluations for one in few), sum(map(full_evaluations, few))
    return [
        f"on this data set: where the robustness of all its images is, "
        f"{' or '.join(sure)} (asked: {'; '.join(asked)})",
        f"{level_of(few)} interval: where it is on all images of this kind; other "
        "values are of the images looked at",
        f"images: {spent:,} altered ones were classified; all at these levels would "
        f"have been {whole:,}",
        *(f"{status}: {words}" for status, words in ended.items()),
    ]


def _words_of_saved(assessments: Sequence[Assessment]) -> list[str]:
    """States the savings of chosen levels over even grids of equal error bound."""
    points = grids = spent = whole = 0
    for one in assessments:
        if one.error_bound is None or one.sampling is not None:
            continue
        chosen, images = one.diagnostics.points, one.evaluations
        # Each crossing leaves one step of a grid open.
        crossings = int(np.diff(one.values >= one.threshold).sum())
        grid = chosen
        if crossings and one.error_bound:
            grid = max(grid, math.ceil(crossings / one.error_bound - 1e-6) + 1)
        points, spent = points + chosen, spent + images
        grids, whole = grids + grid, whole + images // chosen * grid
    if grids <= points:
        return []
    return [
        f"levels: {points:,} were chosen, {spent:,} altered images; even grids "
        f"that leave as little open have {grids:,} levels, {whole:,} images: "
        f"{whole / spent:.1f} times as many"
    ]


def _condition(assessment: Assessment) -> str:
    alpha = assessment.curve.alpha
    if assessment.scores is not None:
        return f"{in_words(assessment.measure)} scored by {assessment.scores.settings}"
    unknown = "" if alpha is None else f", unknown by alpha = {alpha:g}"
    return f"{in_words(assessment.measure)} >= {assessment.threshold:g}{unknown}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:2], widths)]
    right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:])]
    return "  ".join(left + right).rstrip()
