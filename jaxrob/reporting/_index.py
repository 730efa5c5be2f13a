"""The index of a folder of results, as JSON and back."""

import datetime
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxrob._runtime.checks import check_type, checked_text
from jaxrob._runtime.strict_json import checked_parts, parsed_object, short, texts
from jaxrob.reporting._gate import QUANTITIES, Requirement, requirement
from jaxrob.reporting._plan import Plan, plan_of
from jaxrob.reporting._results import Picture, Results, check_digest

_FORMAT = "jaxrob results 1"
_PARTS = (
    *("network", "class_names", "plan", "requirements", "no_worse_than"),
    *("assessments", "roma", "attack"),
)
_OF_ASSESSMENT = ("file", "why", "pictures")
_OF_PICTURE = ("digest", "level", "image", "label", "predicted", "shown_as")
_OF_PLAN = (
    *("name", "date", "digest", "threshold", "measure", "precision", "budget"),
    *("curtail", "requirements", "alterations"),
)


class Entry(NamedTuple):
    """What the index says of one assessment.

    Attributes:
      file: the name of its file in the folder.
      why: why the range is plausible, or None.
      pictures: the pictures to show, without their images.
    """

    file: str
    why: str | None
    pictures: tuple[Picture, ...]


class Index(NamedTuple):
    """What the index says; the fields are those of `Results`, or names of files."""

    network: str | None
    class_names: tuple[str, ...] | None
    plan: Plan | None
    requirements: tuple[Requirement, ...]
    worse: tuple[str, ...]
    entries: tuple[Entry, ...]
    roma: str | None
    attack: str | None


def index_json(
    results: Results, files: Sequence[str], roma: str | None, attack: str | None
) -> str:
    """The index as JSON.

    Args:
      results: the results.
      files: the names of the assessments' files.
      roma: the name of RoMA's, or None.
      attack: the name of the attack's, or None.
    """
    document = {
        "format": _FORMAT,
        "network": results.network,
        "class_names": results.class_names,
        "plan": None if results.plan is None else _plan_document(results.plan),
        "requirements": [_text(one) for one in results.requirements],
        "no_worse_than": results.worse,
        "assessments": [
            {"file": file, "why": why, "pictures": [_picture_document(p) for p in some]}
            for file, why, some in zip(files, results.reasons, results.pictures)
        ],
        "roma": roma,
        "attack": attack,
    }
    return json.dumps(document, indent=1, allow_nan=False)


def read_index(text: str | bytes) -> Index:
    """The index from its JSON. What pictures say is checked with their assessments.

    Raises:
      TypeError: if a part is of a wrong type.
      ValueError: if it is no strict JSON, of another format, or a part is missing,
        unknown or outside its range.
    """
    found = parsed_object(text, _FORMAT, _PARTS)
    names, plan = found["class_names"], found["plan"]
    check_type("assessments", found["assessments"], list, "a list")
    entries = tuple(
        _entry(f"assessments[{number}]", one)
        for number, one in enumerate(found["assessments"])
    )
    files = [entry.file for entry in entries]
    if len(set(files)) < len(files):
        raise ValueError("assessments must be of different files")
    return Index(
        network=_text_or_none("network", found["network"]),
        class_names=None if names is None else texts("class_names", names),
        plan=None if plan is None else _plan(plan),
        requirements=_requirements("requirements", found["requirements"]),
        worse=texts("no_worse_than", found["no_worse_than"]),
        entries=entries,
        roma=_file_or_none("roma", found["roma"]),
        attack=_file_or_none("attack", found["attack"]),
    )


def _text(one: Requirement) -> str:
    return f"{one.quantity}>={float(one.least)!r}"


def _requirements(name: str, found: Any) -> tuple[Requirement, ...]:
    return tuple(requirement(one, QUANTITIES) for one in texts(name, found))


def _picture_document(picture: Picture) -> dict[str, Any]:
    def whole(number: int | None) -> int | None:
        return None if number is None else int(number)

    return {
        "digest": picture.digest,
        "level": float(picture.level),
        "image": int(picture.index),
        "label": whole(picture.label),
        "predicted": whole(picture.predicted),
        "shown_as": picture.shown_as,
    }


def _entry(place: str, value: Any) -> Entry:
    found = checked_parts(place, value, _OF_ASSESSMENT)
    check_type(f"{place}: pictures", found["pictures"], list, "a list")
    pictures = []
    for number, one in enumerate(found["pictures"]):
        at = f"{place}: pictures[{number}]"
        part = checked_parts(at, one, _OF_PICTURE)
        check_digest(f"{at}: digest", part["digest"])
        index = part.pop("image")
        pictures.append(Picture(image=None, index=index, **part))
    return Entry(
        _file(f"{place}: file", found["file"]),
        _text_or_none(f"{place}: why", found["why"]),
        tuple(pictures),
    )


def _plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "date": plan.date.isoformat(),
        "digest": plan.digest,
        "threshold": plan.threshold,
        "measure": plan.measure,
        "precision": plan.precision,
        "budget": plan.budget,
        "curtail": plan.curtail,
        "requirements": [_text(one) for one in plan.requirements],
        "alterations": [vars(one) for one in plan.alterations],
    }


def _plan(value: Any) -> Plan:
    found = dict(checked_parts("plan", value, _OF_PLAN))
    digest = checked_text("plan: digest", found.pop("digest"))
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(
            f"plan: digest must be 64 hexadecimal digits; got {short(digest)}"
        )
    date = checked_text("plan: date", found["date"])
    try:
        day = datetime.date.fromisoformat(date)
    except ValueError:
        day = None
    if day is None or day.isoformat() != date:
        raise ValueError(
            f"plan: date must be one such as 2026-03-02; got {short(date)}"
        )
    return plan_of(found | {"date": day}, digest)


def _text_or_none(name: str, value: Any) -> str | None:
    return None if value is None else checked_text(name, value)


def _file_or_none(name: str, value: Any) -> str | None:
    return None if value is None else _file(name, value)


def _file(name: str, value: Any) -> str:
    """The name of a file in the folder itself, nowhere else."""
    checked_text(name, value)
    if not re.fullmatch(r"\w[^/\\:\0]{0,250}\.json", value) or value == "results.json":
        raise ValueError(
            f"{name} must be the name of a file in the folder, such as rotation.json; "
            f"got {short(value)}"
        )
    return value
