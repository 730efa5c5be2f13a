"""Plans, made before a network is assessed."""

import dataclasses
import datetime
import hashlib
import os
import tomllib
from collections.abc import Sequence
from typing import Annotated, Any

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.naming import named
from jaxrob._assessment.document import MEASURE
from jaxrob._codec import As, Integer, Number, Text, read, refuse
from jaxrob._files.regular import content_of
from jaxrob._files.strict_json import short
from jaxrob.alterations._alteration import check_levels_range
from jaxrob.reporting._requirement import (
    OF_ALTERATION,
    QUANTITIES,
    Requirement,
    about_quantity,
    checked_requirement,
    requirement_text,
)

# Plans are written by hand.
_MOST_BYTES = 1 << 20


def _day(text: str, place: str) -> datetime.date:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise ValueError(f"{place} must be one such as 2026-03-02; got {short(text)}")
    return day


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
            refuse(
                one.alteration is not None,
                f"requirements are of {self.name!r} already; got one of "
                f"{one.alteration!r}",
            )
            of = about_quantity(one.quantity).of
            refuse(
                of != OF_ALTERATION,
                f"requirements must be of an alteration; {one.quantity} is of {of}",
            )


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
      half_width: the half width wanted for the robustness on the data set, from as few
        images as that takes, see `jaxrob.assess`; None if not given.
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
        if not self.alterations:
            raise ValueError("alterations must be at least one")

    @property
    def wants_few(self) -> bool:
        """Whether the plan asks for few images."""
        return self.curtail or not (self.half_width is None and self.budget is None)


def planned_requirements(plan: Plan, names: Sequence[str]) -> tuple[Requirement, ...]:
    """Returns all requirements of a plan, with the names of the alterations made."""
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

    Args:
      path: the file.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is not TOML, or an entry is missing, unknown, of a wrong type or
        outside its range. The message names the file and the entry.
    """
    path = checked_path("path", path)
    try:
        content = content_of(path, _MOST_BYTES)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: expected a plan there, a TOML file"
        ) from error
    try:
        document = tomllib.loads(content.decode())
        return _plan_of(document, hashlib.sha256(content).hexdigest())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def _plan_of(document: dict[str, Any], digest: str) -> Plan:
    """Makes a plan from its file's parsed contents."""
    date = document.get("date")
    if date is not None and type(date) is not datetime.date:
        raise TypeError(
            "date must be a day, written without quotes such as 2026-03-02; got "
            f"{named(date)}"
        )
    if not document.get("alterations"):
        raise ValueError("the plan has no [[alterations]]; it must have at least one")
    if "digest" in document:
        raise ValueError("the plan must not have a digest, which is that of its file")
    parts = document | {"digest": digest}
    if date is not None:
        parts["date"] = date.isoformat()
    return read(Plan, parts, name="the plan", is_partial=True)
