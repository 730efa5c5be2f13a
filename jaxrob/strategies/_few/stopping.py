"""When few images are enough."""

from typing import NamedTuple

from jaxrob._arguments.checks import (
    checked_flag,
    checked_integer,
    checked_number,
    checked_share,
)

# The error of "the same answer as all images", and of a requirement, or less.
_ERROR_OF_SAME, _ERROR_OF_REQUIRED = 0.001, 0.01
# About so many looks of a search are independent of each other.
_LOOKS = 10


class StoppingRule(NamedTuple):
    """When few images are enough.

    Attributes:
      half_width: half the width of the interval that is wanted; None with a budget or a
        requirement alone.
      budget: the most altered images to be classified, or None.
      curtail: whether levels are decided only when the images left cannot change them.
      required: the least robustness: the search ends once it is certain whether that is
        reached.
      error_asked: the probability of a wrong answer, None for the usual one.
      confidence_level: of the intervals.
    """

    half_width: float | None
    budget: int | None = None
    curtail: bool = False
    required: float | None = None
    error_asked: float | None = None
    confidence_level: float = 0.95

    @property
    def error(self) -> float:
        """The probability of a wrong answer, for each alteration."""
        if self.curtail:
            return 0.0
        if self.error_asked is not None:
            return self.error_asked
        error = 1 - self.confidence_level
        if self.required is not None:
            return min(error, _ERROR_OF_REQUIRED)
        return min(error, _ERROR_OF_SAME) if self.half_width == 0 else error

    @property
    def error_of_a_look(self) -> float:
        """The part of the error that one look may take.

        Where a verdict ends the search, every look may give a wrong one: they share the
        error.
        """
        gives_verdicts = self.required is not None or self.error_asked is not None
        return self.error / _LOOKS if gives_verdicts else self.error

    @property
    def begins_wide(self) -> bool:
        """Whether the half width aimed at begins wide and shrinks."""
        return bool(self.budget or self.required is not None or self.error_asked)


def checked_stopping(
    half_width: float | None,
    budget: int | None,
    curtail: bool,
    required: float | None,
    confidence_level: float,
) -> StoppingRule | None:
    """What is asked for, None if all images are.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if one is outside its range.
    """
    if half_width is not None:
        half_width = checked_number("half_width", half_width, at_least=0, below=0.5)
    if budget is not None:
        budget = checked_integer("budget", budget, at_least=1)
    curtail = checked_flag("curtail", curtail)
    if required is not None:
        required = checked_share("required", required)
    if half_width is None and budget is None and required is None:
        if not curtail:
            return None
        half_width = 0.0
    return StoppingRule(
        half_width, budget, curtail, required, confidence_level=confidence_level
    )
