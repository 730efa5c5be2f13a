"""What may be required of results, and plans, made before a network is assessed."""

import dataclasses
import datetime
import hashlib
import math
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    checked_names,
    checked_number,
    checked_path,
    checked_text,
)
from jaxrob._assessment.assessment import MEASURE, Assessment
from jaxrob._assessment.slices import Slice
from jaxrob._codec import As, Integer, Number, Text, read, refuse
from jaxrob._files import content_of, damage_of, short
from jaxrob.alterations._alteration import check_levels_range
from jaxrob.domains._results import DomainResults
from jaxrob.metrics import ConfidenceInterval, accuracy
from jaxrob.metrics._counts import Counts
from jaxrob.reporting._words import is_open_by_levels, joint_interval
from jaxrob.roma import RomaResult

#: What a quantity is a value of.
OF_ALTERATION, OF_SET, OF_ROMA = "an alteration", "all alterations", "RoMA"
OF_DOMAIN = "the operating domain"


class Quantity(NamedTuple):
    """A quantity that may be required."""

    # `OF_ALTERATION`, `OF_SET` (one value of all alterations), `OF_ROMA`, `OF_DOMAIN`
    of: str
    meaning: str  # what it is, for readers who do not know its name
    # Gets it from a result; None where that takes more than one
    get: Callable[[Any], float | ConfidenceInterval] | None = None
    low: float = 0.0  # its lowest possible value
    high: float = 1.0  # its highest
    of_tested: bool = True  # whether it is a value of the tested images alone
    # Whether it depends on what the curve does between its levels
    over_levels: bool = False
    # Of a lower end: the highest value that so many results at once leave plausible
    most: Callable[[Any, int], float] | None = None


def _mean_plr(result: RomaResult) -> float | ConfidenceInterval:
    if (result.status == "undecided").any():
        return result.mean_plr_interval
    return result.mean_plr


def _robustness(result: Assessment) -> float | ConfidenceInterval:
    if math.isnan(result.robustness):
        return math.nan
    if result.sampling is None or is_open_by_levels(result.sampling):
        return float(result.robustness)
    return result.dataset_interval


def _lowest_accuracy(result: Assessment) -> float:
    counts = result.curve.counts
    if result.sampling is not None or not isinstance(counts, Counts):
        return math.nan
    # An accuracy of nothing counts as 1, which must not pass a gate.
    is_known = counts.decided.sum(-1).all()
    return float(accuracy(counts).min()) if is_known else math.nan


def _worst_class(result: Assessment) -> float:
    robustness, counts = result.robustness_per_class, result.curve.counts
    if robustness is None or not isinstance(counts, Counts):
        return math.nan
    # NaN of a class that has inputs makes the lowest unknown.
    return float(np.min(robustness[counts.inputs[0] > 0]))


def sliced_by(result: Assessment) -> list[str]:
    table = getattr(result.curve, "table", None)
    return [] if table is None or result.sampling or result.scores else [*table.columns]


def slices_of(result: Assessment) -> dict[str, Slice]:
    return {
        f"{name} {one.value}": one
        for name in sliced_by(result)
        for one in result.by(name).slices
    }


def _worst_slice(result: Assessment, end: int = 0) -> float:
    ends = [one.joint_interval[end] for one in slices_of(result).values()]
    return float(np.min(ends)) if ends else math.nan


_GOOD = "the share of the range over which the network is good enough, on"
_DISTINCT = (
    "the probability that a random perturbation of an image leads to no distinct "
    "misclassification"
)
_TOGETHER = (
    "the share of the combinations of the alterations' levels at which the network is "
    "good enough, on"
)
_FAILURE = "the probability that an image is misclassified at a level of the profile"
#: The quantities that may be required, by name.
QUANTITIES = {
    "robustness": Quantity(
        OF_ALTERATION,
        f"{_GOOD} the images of the data set",
        _robustness,
        over_levels=True,
    ),
    "robustness.low": Quantity(
        OF_ALTERATION,
        "the lower end of the interval of the robustness, "
        f"{_GOOD} all images of the kind tested",
        lambda one: float(one.confidence_interval.low),
        of_tested=False,
        over_levels=True,
        # NaN, where no joint interval is known, shows nothing.
        most=lambda one, number: joint_interval(one, number)[1],
    ),
    "accuracy": Quantity(
        OF_ALTERATION,
        "the lowest share of right answers at any level that was looked at; between "
        "the levels it may be lower",
        _lowest_accuracy,
    ),
    "worst_class": Quantity(
        OF_ALTERATION,
        "the robustness of the class for which it is lowest",
        _worst_class,
        over_levels=True,
    ),
    "worst_slice.robustness.low": Quantity(
        OF_ALTERATION,
        "the lowest end of the joint intervals of the robustness of the images with "
        "each value of a column of metadata",
        _worst_slice,
        of_tested=False,
        over_levels=True,
        most=lambda one, number: _worst_slice(one, 1),
    ),
    "decided_ratio": Quantity(
        OF_ALTERATION,
        'the share of images that get an answer other than "unknown", at that accepted '
        "level where it is smallest",
        lambda one: math.nan if one.sampling else one.lowest_decided_ratio,
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
        # Of a network that is always wrong: the mean of 1 / AlexNet's errors is 1.293.
        high=1.3,
    ),
    "plr": Quantity(OF_ROMA, f"{_DISTINCT}, on average over the images", _mean_plr),
    "plr.low": Quantity(
        OF_ROMA,
        f"{_DISTINCT}: the lower ends of the intervals, on average",
        lambda one: one.mean_low,
        most=lambda one, number: float(one.mean_plr),
    ),
    "accepted_volume": Quantity(
        OF_DOMAIN,
        f"{_TOGETHER} the images of the data set",
        lambda one: one.volume.dataset_interval,
    ),
    "accepted_volume.low": Quantity(
        OF_DOMAIN,
        f"the lower end of the interval of {_TOGETHER} all images of the kind tested",
        lambda one: one.volume.confidence_interval or math.nan,
        of_tested=False,
    ),
    "box.volume": Quantity(
        OF_DOMAIN,
        "the share of the combinations that lie in the operating box",
        lambda one: one.box.volume if one.box else math.nan,
    ),
    "failure_probability": Quantity(
        OF_DOMAIN,
        f"{_FAILURE}, on the images of the data set",
        lambda one: one.failure.dataset_interval if one.failure else math.nan,
    ),
    "failure_probability.high": Quantity(
        OF_DOMAIN,
        f"the upper end of the interval of {_FAILURE}, on all images of the kind",
        lambda one: one.failure.confidence_interval if one.failure else math.nan,
        of_tested=False,
    ),
}
# A script may have quantities of its own, which are shares.
_OTHER = Quantity(OF_ALTERATION, "")


def kind_of(result: Any) -> str:
    """What a result's quantities are values of."""
    if isinstance(result, DomainResults):
        return OF_DOMAIN
    return OF_ROMA if isinstance(result, RomaResult) else OF_ALTERATION


def about_quantity(name: str) -> Quantity:
    return QUANTITIES.get(name, _OTHER)


def doubt_of(one: Any, quantity: str) -> str:
    """Why a value that depends on the curve between its levels is open, or ""."""
    if not isinstance(one, Assessment) or not about_quantity(quantity).over_levels:
        return ""
    found = slices_of(one) if quantity.startswith("worst_slice.") else {}
    every = [one, *(each.assessment for each in found.values())]
    signs = {sign for each in every for sign in each.diagnostics.signs}
    return "the levels may mislead" * (not signs.isdisjoint(("jitter", "margin")))


def names_of(*kinds: str) -> tuple[str, ...]:
    return tuple(name for name, one in QUANTITIES.items() if one.of in kinds)


_MOST_BYTES = 1 << 20  # Plans are written by hand.
AT_LEAST, AT_MOST = ">=", "<="
_FORM = re.compile(
    r"\s*(?:(?P<of>.*\S)\s*:)?\s*(?P<quantity>[^<>=:]*[^<>=:\s])\s*"
    r"(?P<sign>>=|<=)\s*"
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*",
    re.DOTALL,
)


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

    Args:
      text: a quantity, ">=" or "<=" and a number in the quantity's range, 0.7 for 70 %.
        An alteration's name and a colon before it make it a requirement of that
        alteration alone: "gaussian blur: robustness>=0.9". Spaces do not matter.
      quantities: the quantities allowed. Others than the library's are shares in
        [0, 1] of everything found.

    Raises:
      ValueError: if the text is not of this form, or names another quantity, or the
        number is out of its range.
    """
    return checked_requirement("text", text, quantities)


def checked_requirement(name: str, text: str, quantities: Sequence[str]) -> Requirement:
    checked_text(name, text, may_be_empty=True)
    quantities = checked_names("quantities", quantities)
    found = _FORM.fullmatch(text)
    if not found:
        raise ValueError(
            f'{name}: a requirement is written "{quantities[0]}>=0.9", or "gaussian '
            f'blur: {quantities[0]}>=0.9" for one alteration; got {text!r}'
        )
    of, quantity, sign, number = found.groups()
    one = Requirement(quantity, float(number), sign, of and of.strip())
    if one.quantity not in quantities:
        raise ValueError(
            f"{name}: the quantity must be one of {tuple(quantities)}; got "
            f"{one.quantity!r} in {text!r}"
        )
    try:
        return checked_bound(one)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; in {text!r}") from error


def checked_bound(one: Requirement) -> Requirement:
    checked_text("a requirement's quantity", one.quantity)
    check_choice("a requirement's sign", one.sign, (AT_LEAST, AT_MOST))
    about = about_quantity(one.quantity)
    bound = checked_number("the number", one.bound)
    if not about.low <= bound <= about.high:
        percent = f" ({bound:g} % is written {bound / 100:g})" * (abs(bound) > 1)
        raise ValueError(
            f"the number must lie in [{about.low:g}, {about.high:g}]; got {bound:g}"
            f"{percent}"
        )
    quantity, _, end = one.quantity.rpartition(".")
    if end == {AT_MOST: "low", AT_LEAST: "high"}[one.sign]:
        which = "a lower end" if end == "low" else "an upper end"
        raise ValueError(
            f"{one.quantity} is {which}, and that it is {one.sign} a number says "
            f"nothing; require {quantity}"
        )
    if one.alteration is not None:
        checked_text("a requirement's alteration", one.alteration)
        if about.of != OF_ALTERATION:
            raise ValueError(
                f"{one.quantity} is a value of {about.of}, not of {one.alteration!r} "
                "alone"
            )
    return one._replace(bound=bound)


def requirement_text(one: Requirement) -> str:
    """Returns a requirement as text, from which `requirement` makes the same."""
    of = "" if one.alteration is None else f"{one.alteration}: "
    return f"{of}{one.quantity}{one.sign}{float(one.bound)!r}"


def _day(text: str, place: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{place} must be one such as 2026-03-02; got {short(text)}"
        ) from None


#: A requirement, written in documents as on the command line.
Required = Annotated[
    Requirement,
    As(
        str,
        requirement_text,
        lambda text, place: checked_requirement(place, text, tuple(QUANTITIES)),
    ),
]


@dataclasses.dataclass(frozen=True)
class PlannedAlteration:
    """An alteration that a plan names, with its range.

    Attributes:
      name: the alteration's name, such as "gaussian_blur", or a file of Python and a
        function in it, such as "rain.py:rain".
      lower: the lowest plausible level, in the unit that the settings choose.
      upper: the highest.
      settings: its other settings by name, such as `{"fill": "edge"}`: texts, numbers
        and booleans.
      reason: why the range is plausible, in the planner's words; None if not given.
      requirements: what this alteration must meet, beside what each must.
    """

    name: Annotated[str, Text()]
    lower: float
    upper: float
    settings: dict[str, str | float | bool] = dataclasses.field(default_factory=dict)
    reason: Annotated[str | None, Text()] = None
    requirements: tuple[Required, ...] = ()

    def _check_together(self) -> None:
        check_levels_range("lower", self.lower, "upper", self.upper)
        for one in self.requirements:
            refuse(one.alteration, f"requirements are of {self.name!r} already")
            of = about_quantity(one.quantity).of
            refuse(of != OF_ALTERATION, f"requirements: {one.quantity} is of {of}")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is assessed and what is good enough, as a plan's file states it.

    No file can prove that it was written before the results. The digest only
    distinguishes it from any other plan.

    Attributes:
      name: the plan's name.
      date: the day that it states.
      digest: SHA-256 of the file's bytes, 64 hexadecimal digits.
      alterations: what may happen to the images, at least one.
      threshold: the lowest value of the measure that is accepted, in [0, 1].
      measure: the quality measure's name, see `jaxrob.assess`.
      requirements: what each assessment must meet, or the one that is named, or all
        together.
      half_width: as of `jaxrob.strategies.FewImages`; None if not given.
      budget: the most altered images that are classified; None if not given.
      curtail: whether a level ends only when the images left cannot change its side.
    """

    name: Annotated[str, Text()]
    date: Annotated[datetime.date, As(str, datetime.date.isoformat, _day)]
    digest: Annotated[str, Text("64 hexadecimal digits", "[0-9a-f]{64}")]
    alterations: tuple[PlannedAlteration, ...]
    threshold: Annotated[float, Number(at_least=0, at_most=1)]
    measure: Annotated[str, MEASURE] = "accuracy"
    requirements: tuple[Required, ...] = ()
    half_width: Annotated[float | None, Number(at_least=0, below=0.5)] = None
    budget: Annotated[int | None, Integer(at_least=1)] = None
    curtail: bool = False

    def _check_together(self) -> None:
        refuse(not self.alterations, "alterations must be at least one")

    @property
    def wants_few(self) -> bool:
        """Whether the plan asks for few images."""
        return self.curtail or not (self.half_width is None and self.budget is None)


def planned_requirements(plan: Plan, names: Sequence[str]) -> tuple[Requirement, ...]:
    own = [
        requirement._replace(alteration=name.strip())
        for one, name in zip(plan.alterations, names)
        for requirement in one.requirements
    ]
    return (*plan.requirements, *own)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan, a TOML file.

    Example::

        name = "cameras of the warehouse"
        date = 2026-03-02
        threshold = 0.8
        measure = "accuracy"               # may be left out
        half_width = 0.01                   # these three too: all images
        budget = 1_000_000
        curtail = false
        requirements = ["robustness.low>=0.5", "mce<=0.7"]

        [[alterations]]
        name = "rotation"
        lower = -15.0
        upper = 15.0
        settings = { fill = "edge" }       # may be left out
        reason = "the mount gives way by up to 12 degrees"
        requirements = ["worst_class>=0.3"]   # of this one; may be left out

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is not TOML, or an entry is missing, unknown, of a wrong type or
        outside its range. The message names the file and the entry.
    """
    path = checked_path("path", path)
    content = content_of(path, _MOST_BYTES)
    with damage_of(path):
        parts = tomllib.loads(content.decode())
        refuse("digest" in parts, "the plan's digest is that of its file")
        parts["digest"] = hashlib.sha256(content).hexdigest()
        if "date" in parts:
            # Without quotes TOML has days, and times, which are another type.
            parts["date"] = str(parts["date"])
        return read(Plan, parts, name="the plan", is_partial=True)
