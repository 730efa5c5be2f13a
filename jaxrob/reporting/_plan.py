"""What was planned before a network was assessed."""

import dataclasses
import datetime
import hashlib
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from jaxrob import metrics
from jaxrob._runtime.checks import (
    check_choice,
    check_levels_range,
    check_type,
    checked_flag,
    checked_integer,
    checked_number,
    checked_path,
    checked_text,
)
from jaxrob._runtime.files import content_of
from jaxrob._runtime.naming import named
from jaxrob._runtime.strict_json import short
from jaxrob.reporting._gate import QUANTITIES, Requirement, checked_requirement

# Plans are written by hand.
_MOST_BYTES = 1 << 20
_PARTS = (
    *("name", "date", "threshold", "measure", "precision", "budget", "curtail"),
    *("requirements", "alterations"),
)
_OF_ALTERATION = ("name", "lower", "upper", "settings", "reason")


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
      reason: why the range is plausible, in the planner's words; None if not said.
    """

    name: str
    lower: float
    upper: float
    settings: dict[str, str | float | bool] = dataclasses.field(default_factory=dict)
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is assessed and what is good enough, as a plan's file says it.

    No file can prove that it was written before the results. The digest only tells it
    from any other plan.

    Attributes:
      name: what the plan is called.
      date: the day that it states.
      digest: SHA-256 of the file's bytes, 64 hexadecimal digits.
      alterations: what may happen to the images, at least one.
      threshold: the lowest value of the measure that is accepted, in [0, 1].
      measure: the quality measure, a name in `jaxrob.metrics.measures`.
      requirements: what each assessment has to reach.
      precision: how exactly the robustness on the data set is wanted, from as few
        images as that needs, see `jaxrob.assess`; None if not said.
      budget: the most altered images that are classified; None if not said.
      curtail: whether a level ends only where the images left cannot change its side.
    """

    name: str
    date: datetime.date
    digest: str
    alterations: tuple[PlannedAlteration, ...]
    threshold: float
    measure: str = "accuracy"
    requirements: tuple[Requirement, ...] = ()
    precision: float | None = None
    budget: int | None = None
    curtail: bool = False

    @property
    def wants_few(self) -> bool:
        """Whether it says how few images are wanted."""
        return self.curtail or not (self.precision is None and self.budget is None)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan, a TOML file.

    Example::

        name = "cameras of the warehouse"
        date = 2026-03-02
        threshold = 0.8
        measure = "accuracy"               # may be left out
        precision = 0.01                   # these three too: all images
        budget = 1_000_000
        curtail = false
        requirements = ["robustness.low>=0.5"]

        [[alterations]]
        name = "rotation"
        lower = -15.0
        upper = 15.0
        settings = { fill = "edge" }       # may be left out
        reason = "the mount gives way by up to 12 degrees"

    Args:
      path: the file.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is no TOML, a part is missing, unknown, of a wrong type or
        outside its range. The message names the file and the part.
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
        return plan_of(document, hashlib.sha256(content).hexdigest())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def plan_of(document: Any, digest: str) -> Plan:
    """A plan from what its file says, checked.

    Args:
      document: its parts by name; the date is a `datetime.date`.
      digest: of the file.

    Raises:
      TypeError: if a part is of a wrong type.
      ValueError: if a part is missing, unknown or outside its range.
    """
    _check_names("the plan", document, _PARTS, ("name", "date", "threshold"))
    date = document["date"]
    if type(date) is not datetime.date:
        raise TypeError(
            "date must be a day, written without quotes such as 2026-03-02; got "
            f"{named(date)}"
        )
    measure = document.get("measure", "accuracy")
    check_choice("measure", measure, tuple(metrics.measures))
    requirements = _listed("requirements", document.get("requirements", []))
    alterations = _listed("alterations", document.get("alterations", []))
    if not alterations:
        raise ValueError("the plan has no [[alterations]]; it must have at least one")
    return Plan(
        name=checked_text("name", document["name"]),
        date=date,
        digest=digest,
        alterations=tuple(
            _alteration(f"alterations[{number}]", one)
            for number, one in enumerate(alterations)
        ),
        threshold=checked_number(
            "threshold", document["threshold"], at_least=0, at_most=1
        ),
        measure=measure,
        requirements=tuple(
            checked_requirement(f"requirements[{number}]", one, QUANTITIES)
            for number, one in enumerate(requirements)
        ),
        **_few(document),
    )


def _few(document: Mapping[str, Any]) -> dict[str, Any]:
    """How few images the plan wants, if it says that."""
    found: dict[str, Any] = {}
    # Null in the index of a folder; TOML has none.
    if (precision := document.get("precision")) is not None:
        found["precision"] = checked_number(
            "precision", precision, at_least=0, below=0.5
        )
    if (budget := document.get("budget")) is not None:
        found["budget"] = checked_integer("budget", budget, at_least=1)
    found["curtail"] = checked_flag("curtail", document.get("curtail", False))
    return found


def _alteration(place: str, found: Any) -> PlannedAlteration:
    _check_names(place, found, _OF_ALTERATION, ("name", "lower", "upper"))
    name = checked_text(f"{place}: name", found["name"])
    place = f"{place}, {short(name)}"
    lower = checked_number(f"{place}: lower", found["lower"])
    upper = checked_number(f"{place}: upper", found["upper"])
    check_levels_range(f"{place}: lower", lower, "upper", upper)
    settings = found.get("settings", {})
    check_type(f"{place}: settings", settings, dict, "a table")
    for key, value in settings.items():
        if not isinstance(value, str | bool):
            checked_number(f"{place}: settings: {short(key)}", value)
    reason = found.get("reason")
    if reason is not None:
        checked_text(f"{place}: reason", reason)
    return PlannedAlteration(name, lower, upper, settings, reason)


def _check_names(
    place: str, found: Any, known: tuple[str, ...], needed: tuple[str, ...]
) -> None:
    """Refuses what lacks a part, or has one that nothing reads: a slip of the pen."""
    check_type(place, found, Mapping, "a table")
    if unknown := [name for name in found if name not in known]:
        raise ValueError(f"{place} has {short(unknown[0])}; it may have {known}")
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{place} lacks {missing[0]!r}; it must have {needed}")


def _listed(name: str, found: Any) -> list[Any]:
    check_type(name, found, list, "a list")
    return found
