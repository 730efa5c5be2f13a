"""What may be required of results, and how it is written."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.checks import (
    check_choice,
    checked_names,
    checked_number,
    checked_text,
)

#: What a quantity is a value of.
OF_ALTERATION, OF_SET, OF_ROMA = "an alteration", "all alterations", "RoMA"
AT_LEAST, AT_MOST = ">=", "<="


class Quantity(NamedTuple):
    """A quantity that may be required.

    Attributes:
      of: `OF_ALTERATION`, `OF_SET` (one value of all alterations) or `OF_ROMA`.
      meaning: what it is, for readers who do not know its name.
      low: its lowest possible value.
      high: its highest.
      of_tested: whether it is a value of the tested images alone.
    """

    of: str
    meaning: str
    low: float = 0.0
    high: float = 1.0
    of_tested: bool = True


_LOWER_END = (
    "the lower end of the interval of the robustness, the share of the range over "
    "which the network is good enough, on all images of the kind tested"
)
_DISTINCT = (
    "the probability that a random perturbation of an image leads to no distinct "
    "misclassification"
)
#: The quantities that may be required, by name.
QUANTITIES = {
    "robustness": Quantity(
        OF_ALTERATION,
        "the share of the range over which the network is good enough, on the images "
        "of the data set",
    ),
    "robustness.low": Quantity(OF_ALTERATION, _LOWER_END, of_tested=False),
    "accuracy": Quantity(
        OF_ALTERATION,
        "the lowest share of right answers at any level that was looked at; between "
        "the levels it may be lower",
    ),
    "worst_class": Quantity(
        OF_ALTERATION, "the robustness of the class for which it is lowest"
    ),
    "decided_ratio": Quantity(
        OF_ALTERATION,
        'the share of images that get an answer other than "unknown", at that accepted '
        "level where it is smallest",
    ),
    "difference": Quantity(
        OF_ALTERATION,
        "the robustness, less that of an earlier result on the same images. Its whole "
        "interval has to meet the requirement",
        low=-1.0,
        of_tested=False,
    ),
    "mce": Quantity(
        OF_SET,
        "the mean error over the common corruptions, each divided by AlexNet's: above "
        "1 is worse than AlexNet",
        high=math.inf,
    ),
    "plr": Quantity(OF_ROMA, f"{_DISTINCT}, on average over the images"),
    "plr.low": Quantity(
        OF_ROMA, f"{_DISTINCT}: the lower ends of the intervals, on average"
    ),
}
# A script may have quantities of its own, which are shares.
_OTHER = Quantity(OF_ALTERATION, "")

_FORM = re.compile(
    r"\s*(?:(?P<of>.*\S)\s*:)?\s*(?P<quantity>[^<>=:]*[^<>=:\s])\s*"
    r"(?P<sign>>=|<=)\s*(?P<number>\S+)\s*",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


class Requirement(NamedTuple):
    """What a quantity must be.

    Attributes:
      quantity: its name.
      bound: the least value that is good enough, or the greatest.
      sign: ">=" if the bound is the least, "<=" if it is the greatest.
      alteration: the name of the only alteration that it is for; None for each.
    """

    quantity: str
    bound: float
    sign: str = AT_LEAST
    alteration: str | None = None

    @property
    def needed(self) -> str:
        """The bound in words."""
        side = "at least" if self.sign == AT_LEAST else "at most"
        return f"{side} {self.bound:.12g}"

    @property
    def condition(self) -> str:
        """What must hold, without the alteration, for readers."""
        return f"{self.quantity} {self.sign} {self.bound:.12g}"

    @property
    def said(self) -> str:
        """The condition, with its alteration if it is for one."""
        of = "" if self.alteration is None else f"{self.alteration}: "
        return f"{of}{self.condition}"

    def is_of(self, alteration: str) -> bool:
        """Whether it is for an alteration, by its name."""
        return self.alteration in (None, alteration.strip())


def requirement(text: str, quantities: Sequence[str]) -> Requirement:
    """Parses a requirement such as "robustness>=0.9", for instance from a command line.

    Example::

        found = {result.alteration: result for result in results}
        least = reporting.requirement("robustness>=0.9", ["robustness"])
        for sentence in reporting.unmet([least], found):
            print(sentence)  # blur: robustness is 0.85, at least 0.9 is required

    Args:
      text: a quantity, ">=" or "<=" and a number in the quantity's range. An
        alteration's name and a colon before it make it a requirement of that
        alteration alone: "gaussian blur: robustness>=0.9". Spaces do not matter.
      quantities: the quantities allowed. Others than the library's are shares in
        [0, 1] of everything found.

    Raises:
      ValueError: if the text is not of this form, or names another quantity, or the
        number is out of its range.
    """
    return checked_requirement("text", text, quantities)


def checked_requirement(name: str, text: str, quantities: Sequence[str]) -> Requirement:
    """Parses a requirement like `requirement`, with the text's name for messages."""
    checked_text(name, text, may_be_empty=True)
    quantities = checked_names("quantities", quantities)
    found = _FORM.fullmatch(text)
    if not found:
        raise ValueError(
            f'{name}: a requirement is written "{quantities[0]}>=0.9", or "gaussian '
            f'blur: {quantities[0]}>=0.9" for one alteration; got {text!r}'
        )
    number = found["number"]
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{name}: {number!r} in {text!r} is not a number")
    alteration = None if found["of"] is None else found["of"].strip()
    one = Requirement(found["quantity"], float(number), found["sign"], alteration)
    if one.quantity not in quantities:
        raise ValueError(
            f"{name}: the quantity must be one of {tuple(quantities)}; got "
            f"{one.quantity!r} in {text!r}"
        )
    try:
        check_requirement(one)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; in {text!r}") from error
    return one


def check_requirement(one: Requirement) -> None:
    """Rejects requirements that cannot be."""
    checked_text("a requirement's quantity", one.quantity)
    check_choice("a requirement's sign", one.sign, (AT_LEAST, AT_MOST))
    about = about_quantity(one.quantity)
    most = None if math.isinf(about.high) else about.high
    checked_number("the number", one.bound, at_least=about.low, at_most=most)
    if one.sign == AT_MOST and one.quantity.endswith(".low"):
        raise ValueError(
            f"{one.quantity} is a lower end, and that it is at most a number says "
            f"nothing; require {one.quantity.removesuffix('.low')}"
        )
    if one.alteration is None:
        return
    checked_text("a requirement's alteration", one.alteration)
    if about.of != OF_ALTERATION:
        raise ValueError(
            f"{one.quantity} is a value of {about.of}, not of {one.alteration!r} alone"
        )


def about_quantity(name: str) -> Quantity:
    """Returns what is known of a quantity; one of a script is a share."""
    return QUANTITIES.get(name, _OTHER)


def requirement_text(one: Requirement) -> str:
    """Returns a requirement as text, from which `requirement` makes the same."""
    of = "" if one.alteration is None else f"{one.alteration}: "
    return f"{of}{one.quantity}{one.sign}{float(one.bound)!r}"


def names_of(*kinds: str) -> tuple[str, ...]:
    """Returns the names of the quantities that are values of one of these kinds."""
    return tuple(name for name, one in QUANTITIES.items() if one.of in kinds)
