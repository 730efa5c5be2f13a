"""Assessments as a text table."""

import math
import operator
from collections.abc import Sequence

import numpy as np

from jaxrob._arguments.checks import checked_sequence
from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.document import Sampling
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._corruptions import corruptions
from jaxrob.reporting._corruptions import lines as corruption_lines
from jaxrob.reporting._excursions import excursions
from jaxrob.reporting._few import (
    confidence_text,
    ending_text,
    full_evaluations,
    request_text,
    sampling_of,
)
from jaxrob.reporting._level import level_of
from jaxrob.reporting._rounded import ROUNDED
from jaxrob.reporting._warned import by_cause


def table(assessments: Sequence[Assessment]) -> str:
    """Formats assessments for a terminal or a log, a row for each.

    The columns are the alteration and its range, the measure at the identity and at its
    worst, the level where it is worst, the robustness ("undecided" if nothing is
    decided at an accepted level), its error bound because of few levels ("-" if the
    strategy has none) and its confidence interval because of few images, the levels
    evaluated and the seconds. With alpha there is also the lowest share of inputs
    decided at an accepted level, and a value of the decided inputs alone is followed by
    their share ("0.984 of 66%").

    Lines below the table state the measure and its threshold (a last column, if they
    differ), the savings of a strategy that chose the levels, and how wide a dip or peak
    must be to be seen in every assessment. A line marks stability, where the labels are
    the network's own answers. For corruptions by severity, the mean error over the
    fifteen of the benchmarks, and mCE of 1,000 classes, have a line each. A warning for
    each cause follows, the gravest first, with the alterations concerned.

    From few images (`Assessment.sampling`) further columns show the interval of the
    robustness on all images of the data set, the altered images classified, their share
    of all at these levels, and how it ended; lines below say what was asked.

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
    # Without line breaks or control characters in the names of users and files.
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
    if any(map(_looks_certain, assessments)):
        below.append(ROUNDED)
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


def _looks_certain(assessment: Assessment) -> bool:
    """Whether an error is shown as 0, or an interval as a single number."""
    low, high = (f"{end:.1%}" for end in assessment.confidence_interval)
    bound = assessment.error_bound
    return low == high != "nan%" or (bound is not None and f"{bound:.1%}" == "0.0%")


def robustness_text(assessment: Assessment, form: str) -> str:
    """Formats the robustness, or says why it is not known."""
    robustness = assessment.robustness
    return "undecided" if math.isnan(robustness) else format(robustness, form)


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
    """Formats the measure at a level, with the share of images that it covers."""
    value = f"{assessment.values[index]:.4f}"
    if assessment.is_of_decided:
        value += f" of {assessment.decided_ratio[index]:.1%}"
    return value


def _of_few(assessment: Assessment) -> tuple[str, ...]:
    """Returns the further columns of an assessment from few images."""
    sampling = assessment.sampling
    if sampling is None:
        return "-", f"{assessment.evaluations:,}", "100.0%", "all"
    low, high = assessment.dataset_interval
    return (
        f"{low:.2%} - {high:.2%}",
        f"{sampling.evaluations:,}",
        f"{sampling.evaluations / full_evaluations(assessment):.1%}",
        sampling.status,
    )


def _words_of_few(few: Sequence[Assessment]) -> list[str]:
    """Explains the columns of few images, and the cost of all images."""
    if not few:
        return []
    samplings = [sampling_of(one) for one in few]
    sure = dict.fromkeys(confidence_text(one) for one in samplings)
    asked = dict.fromkeys(request_text(one) for one in samplings)
    spent, whole = sum(one.evaluations for one in few), sum(map(full_evaluations, few))
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
    """States the savings of chosen levels over even grids of equal error bound."""
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
    """Counts the levels of an even grid with the same error bound."""
    # Each crossing leaves one step of a grid open.
    above = assessment.values >= assessment.threshold
    crossings = int((above[1:] != above[:-1]).sum())
    if not crossings or not assessment.error_bound:
        return 0
    return math.ceil(crossings / assessment.error_bound - 1e-6) + 1


def _endings(samplings: Sequence[Sampling]) -> dict[str, str]:
    return {one.status: ending_text(one) for one in samplings}


def _condition(assessment: Assessment) -> str:
    alpha = assessment.curve.alpha
    if assessment.scores is not None:
        return f"{in_words(assessment.measure)} scored by {assessment.scores.settings}"
    unknown = "" if alpha is None else f", unknown by alpha = {alpha:g}"
    return f"{in_words(assessment.measure)} >= {assessment.threshold:g}{unknown}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Formats a row: two text columns, then numbers aligned to the right."""
    left = [cell.ljust(width) for cell, width in zip(cells[:2], widths)]
    right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:])]
    return "  ".join(left + right).rstrip()
