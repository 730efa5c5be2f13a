"""How figures look, whether matplotlib draws them or a page holds them as SVG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxrob._assessment.assessment import Assessment

ACCEPTED, THRESHOLD = "#2a9d5c", "#c0392b"
#: Space between the range and the frame, as a share of the range or of the frame: a
#: line at an end would hide behind the frame.
MARGIN = 0.015
#: A mark at each level shows that levels are samples. More marks would hide the line.
MOST_MARKS = 64


class LineStyle(NamedTuple):
    """How one of several lines is drawn; they differ in more than the colour.

    Attributes:
      colour: as in HTML.
      dashes: lengths of dashes and gaps in SVG; empty for a solid line.
      linestyle: the dashes for matplotlib.
      marker: the marks for matplotlib.
    """

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
    """A quantity with its unit in brackets, if it has one."""
    return f"{quantity} [{unit}]" if unit else quantity


def value_label(one: Assessment) -> str:
    """The measure, and whether the right answers are the network's own."""
    return f"{one.measure} (own answers)" if one.is_stability else one.measure


def common_threshold(assessments: Sequence[Assessment]) -> float | None:
    """The threshold of all, or None if they differ in it."""
    first, *others = {one.threshold for one in assessments}
    return None if others else first
