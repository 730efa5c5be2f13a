"""When few images are enough."""

from typing import NamedTuple

from jaxrob._arguments.checks import (
    checked_flag,
    checked_integer,
    checked_number,
    checked_share,
)

# Upper bounds of the error, for "the same answer as all images" and for a requirement.
_ERROR_OF_SAME, _ERROR_OF_REQUIRED = 0.001, 0.01
# A search has about this many independent looks.
_LOOKS = 10


class StoppingRule(NamedTuple):
    """When few images are enough.

    Attributes:
      half_width: half the width of the wanted interval; None with a budget or a
        requirement alone.
      budget: the largest number of altered images to classify, or None.
      curtail: whether levels are decided only when the unseen images cannot change
        them.
      required: the required robustness: the search ends once it is certainly reached or
        certainly missed.
      error_asked: the probability of a wrong answer; None for the usual one.
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
        """The probability of a wrong answer, per alteration."""
        if self.curtail:
            return 0.0
        if self.error_asked is not None:
            return self.error_asked
        error = 1 - self.confidence_level
        if self.required is not None:
            return min(error, _ERROR_OF_REQUIRED)
        return min(error, _ERROR_OF_SAME) if self.half_width == 0 else error

    @property
    def error_per_look(self) -> float:
        """The error that one look may spend."""
        # Where a verdict ends the search, every look may give a wrong verdict: the
        # looks share the error.
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
    """Returns the stopping rule, or None if all images are to be classified."""
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
