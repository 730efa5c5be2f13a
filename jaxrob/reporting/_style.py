"""The look of figures, for matplotlib and SVG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words

ACCEPTED, THRESHOLD = "#2a9d5c", "#c0392b"
#: Margin between the range and the frame, as a share of either, so that the frame does
#: not hide a line at an end.
MARGIN = 0.015
#: The most levels with a mark each; more marks would hide the line.
MOST_MARKS = 64


class LineStyle(NamedTuple):
    """How one of several lines looks: `dashes` in SVG, `linestyle` in matplotlib."""

    colour: str
    dashes: str
    linestyle: Any
    marker: str


LINES = (
    LineStyle("#1f4e79", "", "-", "o"),
    LineStyle("#d1700b", "8 3", "--", "s"),
    LineStyle("#7b3fa0", "2.5 2.5", ":", "^"),
    LineStyle("#2a7d4f", "10 3 2 3", "-.", "D"),
    LineStyle("#b3266b", "5 2", (0, (5, 1)), "v"),
    LineStyle("#444", "1.5 4", (0, (1, 2)), "P"),
)


def axis_label(quantity: str, unit: str) -> str:
    return f"{quantity} [{unit}]" if unit else quantity


def value_label(one: Assessment) -> str:
    measure = in_words(one.measure)
    return f"{measure} (own answers)" if one.is_stability else measure


def common_threshold(assessments: Sequence[Assessment]) -> float | None:
    first, *others = {one.threshold for one in assessments}
    return None if others else first
