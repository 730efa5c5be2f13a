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
    corruptions,
    ending_text,
    excursions,
    full_evaluations,
    level_of,
    request_text,
    sampling_of,
)
from jaxrob.reporting._words import lines as corruption_lines


def table(assessments: Sequence[Assessment]) -> str:
    """Formats assessments for a terminal or a log, a row for each.

    The columns are the alteration and its range, the measure at the identity and at its
    worst, the level where it is worst, the robustness ("undecided" if nothing is
    decided at an accepted level), its error bound because of few levels ("-" if the
    strategy has none) and its confidence interval because of few images, the levels
    evaluated and the seconds. With alpha there is also the lowest share of inputs
    decided at an accepted level, and a value of the decided inputs alone is followed by
    their share ("0.984 of 66%"). From few images further columns show the interval of
    the robustness on all images of the data set, the altered images classified, their
    share of all at these levels, and how it ended.

    Lines below the table state the measure and its threshold (a last column, if they
    differ), what was asked of few images, the savings of a strategy that chose the
    levels, how wide a dip or peak must be to be seen in every assessment, stability
    (where the labels are the network's own answers), for corruptions by severity the
    benchmarks' mean errors, and a warning for each cause, the gravest first.

    Args:
      assessments: the assessments, at least one.

    Returns:
      The table as text, without a newline at its end.

    Raises:
      TypeError: if it is a single assessment.
      ValueError: if there is no assessment.
    """
    if isinstance(assessments, Assessment):
        raise TypeError(
            "assessments must be a sequence; got an Assessment: give [assessment]"
        )
    wanted = "jaxrob.Assessment"
    assessments = checked_sequence("assessments", assessments, Assessment, wanted)
    conditions = set(map(_condition, assessments))
    few = [one for one in assessments if one.sampling is not None]
    columns = _COLUMNS | {f"{level_of(assessments)} interval": _interval} | _OF_COST
    if any(assessment.curve.alpha is not None for assessment in assessments):
        columns["decided"] = _decided
    if len(conditions) > 1:
        columns["accepted"] = lambda row, one: _condition(one)
    if few:
        columns |= _OF_FEW
    rows = [
        # Without line breaks or control characters in the names of users and files.
        tuple(readable(show(row, one)) for show in columns.values())
        for row, one in zip(
            rows_of(assessments, "results", OF_CORRUPTIONS), assessments
        )
    ]
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    lines = [_line(row, widths) for row in (tuple(columns), *rows)]
    lines.insert(1, "  ".join("-" * width for width in widths))
    below = []
    if len(conditions) == 1:
        below.append(f"robustness: share of the range with {conditions.pop()}")
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
    if (means := corruptions(assessments)) is not None:
        below += corruption_lines(means)
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


def _interval(row: Row, one: Assessment) -> str:
    low, high = one.confidence_interval
    return f"{low:.1%} - {high:.1%}"


def _decided(row: Row, one: Assessment) -> str:
    share = row["decided_ratio"]
    return "-" if share is None else f"{share:.1%}"


def _on_data(row: Row, one: Assessment) -> str:
    low, high = one.dataset_interval
    return "-" if one.sampling is None else f"{low:.2%} - {high:.2%}"


def _of_all(row: Row, one: Assessment) -> str:
    whole = row["evaluations"] if one.sampling is None else full_evaluations(one)
    return f"{row['evaluations'] / whole:.1%}"


# The columns of the printed table: texts of a row and its assessment.
_COLUMNS: dict[str, Callable[[Row, Assessment], str]] = {
    "alteration": lambda row, one: row["alteration"],
    "range": lambda row, one: (
        f"[{row['lower']:.4g}, {row['upper']:.4g}] {row['unit']}".rstrip()
    ),
    "unaltered": lambda row, one: _value(row, one, "unaltered", one.identity),
    "worst": lambda row, one: _value(row, one, "lowest", row["lowest_at"]),
    "at": lambda row, one: f"{row['lowest_at']:.4g}",
    "robustness": lambda row, one: robustness_text(one, ".2%"),
    "error bound": lambda row, one: (
        "-" if row["error_bound"] is None else f"± {row['error_bound']:.1%}"
    ),
}
_OF_COST: dict[str, Callable[[Row, Assessment], str]] = {
    "levels": lambda row, one: str(row["levels"]),
    "seconds": lambda row, one: f"{row['seconds']:.1f}",
}
_OF_FEW: dict[str, Callable[[Row, Assessment], str]] = {
    "on this data set": _on_data,
    "images": lambda row, one: f"{row['evaluations']:,}",
    "of all": _of_all,
    "ended": lambda row, one: "all" if one.sampling is None else one.sampling.status,
}


def _words_of_few(few: Sequence[Assessment]) -> list[str]:
    if not few:
        return []
    samplings = [sampling_of(one) for one in few]
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
