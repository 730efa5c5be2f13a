"""Results beside an earlier one, and networks beside each other."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import compare
from jaxrob._runtime.readable import readable
from jaxrob.reporting._results import Results


class Difference(NamedTuple):
    """How the robustness to one alteration differs, as text.

    Attributes:
      alteration: the alteration's name.
      now: the robustness; empty where nothing can be compared.
      before: that of the other.
      difference: the first minus the second.
      interval: its 95 % interval.
      words: what that means, or why nothing can be compared.
      is_worse: whether it is worse beyond what chance explains.
    """

    alteration: str
    now: str
    before: str
    difference: str
    interval: str
    words: str
    is_worse: bool


class Comparison(NamedTuple):
    """A network beside another: their names, and a row for each alteration."""

    first: str
    second: str
    rows: tuple[Difference, ...]


def comparison(new: Results, old: Results, first: str, second: str) -> Comparison:
    """Each alteration's robustness of two results."""
    before = {one.alteration: one for one in old.assessments}
    rows = [
        _difference(one, before.pop(one.alteration))
        if one.alteration in before
        else _not(one.alteration, f"not among those of {second}")
        for one in new.assessments
    ]
    rows += [_not(name, f"not among those of {first}") for name in before]
    return Comparison(first, second, tuple(rows))


def compared(comparisons: Sequence[Comparison]) -> int:
    """How many differences have an interval."""
    return sum(bool(row.interval) for one in comparisons for row in one.rows)


def _difference(new: Assessment, old: Assessment) -> Difference:
    # `compare` reads this of both; one that is made by hand may lack it.
    told = all("alteration" in one.provenance for one in (new, old))
    told &= all("dataset" in one.provenance for one in (new, old))
    if not told:
        return _not(new.alteration, "no comparison: where they come from is not known")
    try:
        found = compare(new, old)
    except ValueError as error:
        return _not(new.alteration, f"no comparison: {error}")
    low, high = found.confidence_interval
    words, is_worse = "no difference that these images can show", False
    if high < 0:
        words, is_worse = "less robust, beyond what chance explains", True
    elif low > 0:
        words = "more robust, beyond what chance explains"
    return Difference(
        new.alteration,
        f"{100 * new.robustness:.1f} %",
        f"{100 * old.robustness:.1f} %",
        f"{100 * found.difference:+.1f} points",
        f"{100 * low:+.1f} to {100 * high:+.1f}",
        words,
        is_worse,
    )


def _not(name: str, why: str) -> Difference:
    return Difference(name, "", "", "", "", readable(why), False)
