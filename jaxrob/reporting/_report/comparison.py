"""Compares results with earlier ones, and networks with each other."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison as Found
from jaxrob._assessment.compare import compare
from jaxrob.reporting._adjusted import Adjusted, adjusted, p_value_text
from jaxrob.reporting._results import Results


class Difference(NamedTuple):
    """The difference in robustness to one alteration, as text.

    Attributes:
      alteration: the alteration's name.
      now: the robustness; empty if nothing can be compared.
      before: the other robustness.
      difference: `now` minus `before`.
      interval: its interval.
      p_value: its p-value, plain and adjusted for all comparisons of the report.
      mean: the difference of the measure's mean over the range.
      mean_interval: its interval.
      mean_p_value: its p-values.
      words: the conclusion, or why nothing can be compared.
      side: 1 if it is significantly more robust, -1 if less, 0 if neither.
      mean_side: the same of the mean over the range, if `side` is 0.
      is_worse: whether it is significantly worse.
    """

    alteration: str
    now: str
    before: str
    difference: str
    interval: str
    p_value: str
    mean: str
    mean_interval: str
    mean_p_value: str
    words: str
    side: int
    mean_side: int
    is_worse: bool


class Comparison(NamedTuple):
    """Two networks' names, and a row for each alteration."""

    first: str
    second: str
    rows: tuple[Difference, ...]


class Pair(NamedTuple):
    """Results to compare, and their names in the report."""

    new: Results
    old: Results
    first: str
    second: str


class _Row(NamedTuple):
    """Two assessments of one alteration, or why nothing can be compared."""

    name: str
    new: Assessment | None = None
    old: Assessment | None = None
    found: Found | None = None
    why: str = ""


def comparisons(pairs: Sequence[Pair]) -> tuple[Comparison, ...]:
    """Compares all pairs of results of one report, alteration by alteration."""
    rows = [_rows(pair) for pair in pairs]
    known = [row.found for some in rows for row in some if row.found is not None]
    together = iter(adjusted(known))
    return tuple(
        Comparison(
            pair.first,
            pair.second,
            tuple(
                _not_compared(row)
                if row.found is None
                else _difference(row, next(together), pair.first)
                for row in some
            ),
        )
        for pair, some in zip(pairs, rows)
    )


def compared(comparisons: Sequence[Comparison]) -> int:
    """Counts the differences with an interval."""
    return sum(bool(row.interval) for one in comparisons for row in one.rows)


def _rows(pair: Pair) -> list[_Row]:
    before = {one.alteration: one for one in pair.old.assessments}
    rows = [
        _row(one, before.pop(one.alteration))
        if one.alteration in before
        else _Row(one.alteration, why=f"not among those of {pair.second}")
        for one in pair.new.assessments
    ]
    return rows + [
        _Row(name, why=f"not among those of {pair.first}") for name in before
    ]


def _row(new: Assessment, old: Assessment) -> _Row:
    # `compare` reads these entries; an assessment made by hand may lack them.
    is_known = all("alteration" in one.provenance for one in (new, old))
    is_known &= all("dataset" in one.provenance for one in (new, old))
    if not is_known:
        why = "no comparison: where they come from is not known"
        return _Row(new.alteration, why=why)
    try:
        return _Row(new.alteration, new, old, compare(new, old, new.confidence_level))
    except ValueError as error:
        return _Row(new.alteration, why=f"no comparison: {error}")


def _difference(row: _Row, one: Adjusted, name: str) -> Difference:
    assert row.new is not None and row.old is not None
    found = one.found
    return Difference(
        row.name,
        f"{100 * row.new.robustness:.1f} %",
        f"{100 * row.old.robustness:.1f} %",
        f"{100 * found.difference:+.1f} points",
        _points(found.confidence_interval),
        p_value_text(found.p_value, one.p_value),
        f"{100 * found.mean_difference:+.1f} points",
        _points(found.mean_interval),
        p_value_text(found.mean_p_value, one.mean_p_value),
        _words(one, name),
        one.side,
        0 if one.side else one.mean_side,
        one.is_worse,
    )


def _words(one: Adjusted, name: str) -> str:
    """States a comparison's conclusion, given all others of the report."""
    if one.side:
        how = "more" if one.side > 0 else "less"
        return f"{name} is {how} robust, beyond what chance explains"
    if one.mean_side:
        how = "better" if one.mean_side > 0 else "worse"
        return (
            f"{name} is {how} on average over the range, beyond what chance explains, "
            "though the robustness does not show it"
        )
    if min(one.found.p_value, one.found.mean_p_value) <= 1 - one.found.confidence_level:
        return (
            "no difference beyond what chance explains among so many comparisons; "
            "alone it might be one"
        )
    return "no difference that these images can show"


def _points(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}"


def _not_compared(row: _Row) -> Difference:
    return Difference(
        row.name, "", "", "", "", "", "", "", "", readable(row.why), 0, 0, False
    )
