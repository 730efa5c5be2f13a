"""Assessments as one text table."""

import math
import operator
from collections.abc import Sequence

import numpy as np

from jaxrob._arguments.checks import checked_sequence
from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.sampling import Sampling
from jaxrob.reporting._corruptions import corruptions
from jaxrob.reporting._corruptions import lines as corruption_lines
from jaxrob.reporting._excursions import excursions
from jaxrob.reporting._few import (
    asked_for,
    ended,
    how_sure,
    of_all_images,
    sampling_of,
)
from jaxrob.reporting._level import level_of
from jaxrob.reporting._warned import by_cause


def table(assessments: Sequence[Assessment]) -> str:
    """Assessments side by side, for a terminal or a log: a row for each.

    Columns: the alteration and its range, the measure at the identity and at its
    worst, the level where it is worst, the robustness ("timeout" where numerical
    integration failed, "undecided" where nothing is decided at an accepted level), by
    how much it may be off because of few levels ("-" where no strategy knows) and its
    confidence interval because of few images, the levels evaluated and the
    seconds; with alpha also the lowest share of inputs decided at an accepted level,
    and beside a value that is of the decided inputs alone their share ("0.984 of 66%").
    The measure and its threshold are below the table, or in a last column where they
    differ, and so are what a strategy saved that chose the levels, and how wide a dip
    or peak must be to be seen in every one. Where the
    right answers are the network's own, a line says that it is stability. Of
    corruptions by severity the mean error over the fifteen of the benchmarks, and mCE
    of 1,000 classes, have a line each. A warning for each cause follows, the gravest
    first, with what it is of.

    From few images (`Assessment.sampling`) there are also where the robustness on all
    images of the data set is, the altered images classified, their share of all at
    these levels, and how it ended; lines below say what was asked.

    Example::

        results = jaxrob.assess(classifier, dataset, [blur, noise], key=key)
        print(jaxrob.reporting.table(results))

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
    accepted = [_condition(assessment) for assessment in assessments]
    rows = [_row(assessment) for assessment in assessments]
    header = ("alteration", "range", "unaltered", "worst", "at", "robustness")
    header += ("error bound", f"{level_of(assessments)} interval", "levels", "seconds")
    if any(assessment.curve.alpha is not None for assessment in assessments):
        header += ("decided",)
        rows = [
            (*row, f"{one.lowest_decided_ratio:.1%}".replace("nan%", "-"))
            for row, one in zip(rows, assessments)
        ]
    mixed = len(set(accepted)) > 1
    if mixed:
        header += ("accepted",)
        rows = [(*row, condition) for row, condition in zip(rows, accepted)]
    few = [one for one in assessments if one.sampling is not None]
    if few:
        header += ("on this data set", "images", "of all", "ended")
        rows = [(*row, *_of_few(one)) for row, one in zip(rows, assessments)]
    # Names of users and files begin no line of their own, and steer no terminal.
    rows = [tuple(map(readable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = [_line(row, widths) for row in (header, *rows)]
    lines.insert(1, "  ".join("-" * width for width in widths))
    below = []
    if not mixed:
        below.append(f"robustness: share of the range with {accepted[0]}")
    below += _words_of_few(few) + _words_of_saved(assessments)
    if unseen := excursions(assessments):
        below.append(f"between levels: {unseen}")
    stable = [one.alteration for one in assessments if one.is_stability]
    if stable:
        of = "" if len(stable) == len(assessments) else f" of {', '.join(stable)}"
        below.append(
            f"stability{of}: right is what the network itself answers unaltered"
        )
    if (found := corruptions(assessments)) is not None:
        below += corruption_lines(found)
    below += [f"{one.of}: {one.text}" for one in by_cause(assessments)]
    return "\n".join([*lines, *map(readable, below)])


def robustness_text(assessment: Assessment, form: str) -> str:
    """The robustness in a number format, or why it is not known."""
    if not math.isnan(assessment.robustness):
        return format(assessment.robustness, form)
    return "undecided" if assessment.undecided.any() else "timeout"


def _row(assessment: Assessment) -> tuple[str, ...]:
    at_identity = np.flatnonzero(assessment.levels == assessment.identity)
    worst = int(assessment.values.argmin())
    low, high = assessment.confidence_interval
    return (
        assessment.alteration,
        f"[{assessment.lower:.4g}, {assessment.upper:.4g}] {assessment.unit}".rstrip(),
        _value(assessment, int(at_identity[0])) if len(at_identity) else "-",
        _value(assessment, worst),
        f"{assessment.levels[worst]:.4g}",
        robustness_text(assessment, ".2%"),
        "-" if assessment.error_bound is None else f"± {assessment.error_bound:.1%}",
        f"{low:.1%} - {high:.1%}",
        str(assessment.diagnostics.points),
        f"{assessment.seconds:.1f}",
    )


def _value(assessment: Assessment, index: int) -> str:
    """The measure at a level, and of which share of the images it is."""
    value = f"{assessment.values[index]:.4f}"
    if assessment.is_of_decided:
        value += f" of {assessment.decided_ratio[index]:.1%}"
    return value


def _of_few(assessment: Assessment) -> tuple[str, ...]:
    """Where the robustness of all images is, how many were looked at, and why."""
    sampling = assessment.sampling
    if sampling is None:
        return "-", f"{assessment.evaluations:,}", "100.0%", "all"
    low, high = assessment.dataset_interval
    return (
        f"{low:.2%} - {high:.2%}",
        f"{sampling.evaluations:,}",
        f"{sampling.evaluations / of_all_images(assessment):.1%}",
        sampling.status,
    )


def _words_of_few(few: Sequence[Assessment]) -> list[str]:
    """What the columns of few images are, and what all would have cost."""
    if not few:
        return []
    samplings = [sampling_of(one) for one in few]
    sure = dict.fromkeys(how_sure(one) for one in samplings)
    asked = dict.fromkeys(asked_for(one) for one in samplings)
    spent, whole = sum(one.evaluations for one in few), sum(map(of_all_images, few))
    return [
        f"on this data set: where the robustness of all its images is, "
        f"{' or '.join(sure)} (asked: {'; '.join(asked)})",
        f"{level_of(few)} interval: where it is on all images of this kind; other "
        "values are of the images looked at",
        f"images: {spent:,} altered ones were classified; all at these levels would "
        f"have been {whole:,}",
        *(f"{status}: {words}" for status, words in _endings(samplings).items()),
    ]


def _words_of_saved(assessments: Sequence[Assessment]) -> list[str]:
    """What choosing levels saved, beside even grids that leave as little open."""
    chosen = [
        one
        for one in assessments
        if one.error_bound is not None and one.sampling is None
    ]
    points = [one.diagnostics.points for one in chosen]
    grids = [max(pair) for pair in zip(points, map(_even_grid, chosen))]
    if sum(grids) <= sum(points):
        return []
    images = [one.evaluations // one.diagnostics.points for one in chosen]
    spent, whole = (sum(map(operator.mul, some, images)) for some in (points, grids))
    return [
        f"levels: {sum(points):,} were chosen, {spent:,} altered images; even grids "
        f"that leave as little open have {sum(grids):,} levels, {whole:,} images: "
        f"{whole / spent:.1f} times as many"
    ]


def _even_grid(assessment: Assessment) -> int:
    """The levels of an even grid with the same error bound: a step a crossing."""
    above = assessment.values >= assessment.threshold
    crossings = int((above[1:] != above[:-1]).sum())
    if not crossings or not assessment.error_bound:
        return 0
    return math.ceil(crossings / assessment.error_bound - 1e-6) + 1


def _endings(samplings: Sequence[Sampling]) -> dict[str, str]:
    return {one.status: ended(one) for one in samplings}


def _condition(assessment: Assessment) -> str:
    alpha = assessment.curve.alpha
    if assessment.scores is not None:
        return f"{assessment.measure} scored by {assessment.scores.settings}"
    unknown = "" if alpha is None else f", unknown by alpha = {alpha:g}"
    return f"{assessment.measure} >= {assessment.threshold:g}{unknown}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Two columns of text, then numbers aligned to the right."""
    left = [cell.ljust(width) for cell, width in zip(cells[:2], widths)]
    right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:])]
    return "  ".join(left + right).rstrip()
