"""The number of a report's intervals, and their simultaneous coverage."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.counted import counted
from jaxrob.reporting._level import level_of, percent_of
from jaxrob.reporting._results import Results


class Multiplicity(NamedTuple):
    """A report's statements on many intervals.

    Attributes:
      number: the number of intervals of robustness in the report.
      words: sentences.
      has_joint: whether the tables have intervals with simultaneous coverage.
    """

    number: int
    words: tuple[str, ...]
    has_joint: bool


def multiplicity(results: Sequence[Results], comparisons: int) -> Multiplicity:
    """Describes the simultaneous coverage of the report's intervals."""
    ones = [each for one in results for each in one.assessments]
    romas = [one.roma for one in results if one.roma is not None]
    number, level = len(ones), level_of(ones or romas)
    # The lowest of several confidence levels.
    error = 1 - min((one.confidence_level for one in ones or romas), default=0.95)
    words = [
        f"The report states {counted(number, 'interval')} of a robustness, one for "
        f"each network and alteration. Each has {level} on its own."
    ]
    if number > 1:
        words.append(
            f"Of {number} such intervals {error * number:.3g} miss on average, and the "
            "chance that at least one does is at most "
            f"{100 * min(1, error * number):.3g} %. Details therefore have a second "
            "interval, called adjusted: it is wider (a confidence of "
            f"{_complement(error / number)} % each, by Bonferroni's inequality), so "
            f"that all adjusted ones hold at once with {percent_of(1 - error)}."
        )
    of_classes = ""
    if not ones or any(one.curve.num_classes for one in ones):
        of_classes = (
            " Numbers of single classes have no interval, and the worst of many "
            "classes looks worse than it is by chance."
        )
    words.append(
        f"The bands in the figures are of {level} at each level alone; that a whole "
        f"curve lies within its band is less likely.{of_classes}"
    )
    if comparisons:
        words.append(
            f"{counted(comparisons, 'comparison')} of robustness, and of the mean over "
            f"the range: intervals of {level} each, not adjusted. P-values stand there "
            f"alone and adjusted for all {2 * comparisons} by Holm's method. What a "
            "comparison means is said by the adjusted ones: between networks that are "
            "alike, the chance that any of them is called different is at most "
            f"{percent_of(error)}."
        )
    if romas:
        inputs = sum(len(one.plr) for one in romas)
        words.append(
            f"RoMA states {counted(inputs, 'interval')} of single images, "
            f"{level_of(romas)} each, not adjusted; tests between its categories are "
            "adjusted by Holm's method."
        )
    words.append(
        f"Verdicts compare with the intervals of {level} each, as the requirements are "
        "written; whether they hold with the adjusted ones too is said beside them. "
        "That all lower ends reach what is required needs no adjustment: this is wrong "
        "only if the interval of one that falls short misses. That a certain one of "
        "several falls short does need it, because by chance the interval of one or "
        "the other lies too low. So a lower end is not met only where the adjusted "
        "interval lies too low as well; otherwise it is not shown."
    )
    return Multiplicity(number, tuple(words), number > 1)


def _complement(error: float) -> str:
    """Formats 100 % less an error, in as many digits as that takes."""
    return f"{100 - float(f'{100 * error:.3g}'):.10g}"
