"""All results of one network, as stored in a folder."""

import dataclasses
import hashlib
import re
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_names,
    checked_number,
    checked_sequence,
    checked_text,
)
from jaxrob._arguments.naming import named
from jaxrob._assessment.assessment import Assessment
from jaxrob._codec import Layout, Number, Row, Text, document
from jaxrob._curve import Curve
from jaxrob._files.strict_json import short
from jaxrob._identity.digest import contiguous
from jaxrob._score_curve import ScoreCurve
from jaxrob.adversarial import Attack
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting._requirements import Plan, Requirement
from jaxrob.roma import RomaResult


class File(NamedTuple):
    """A file that a run was given.

    Attributes:
      role: "network", "pictures", "labels" or "plan".
      name: its path as it was given.
      digest: the SHA-256 of its bytes; None of a folder.
    """

    role: str
    name: str
    digest: Annotated[str | None, Text("64 hexadecimal digits", "[0-9a-f]{64}")]


class Run(NamedTuple):
    """A run of the command.

    Attributes:
      command: the command line as it was typed, quoted for a shell.
      started: the date and time at which it began, in UTC, as ISO 8601 writes them.
      machine: the operating system, its version and the kind of processor.
      tester: who ran it; None if nobody said.
      organisation: for whom; None if nobody said.
      files: the files that it was given.
      warnings: the warnings that it printed.
    """

    command: str
    started: str
    machine: str
    tester: str | None = None
    organisation: str | None = None
    files: tuple[File, ...] = ()
    warnings: tuple[str, ...] = ()


@document("jaxrob runs 1")
class Runs(NamedTuple):
    runs: tuple[Run, ...]


#: The most pictures of one alteration.
MOST_PICTURES = 16
#: The roles in which a picture may be shown.
SHOWN_AS = ("unaltered", "lower end", "upper end", "first failure", "lowest score")
#: Numbers of channels that a picture may have.
CHANNELS = (1, 3, 4)
_Digest = Text("32 hexadecimal digits", "[0-9a-f]{32}")


class Picture(NamedTuple):
    """An image at a level, as a report shows it.

    Attributes:
      image: uint8 `[H, W, C]` with 1, 3 or 4 channels; None if it was not kept.
      digest: a digest of its shape and bytes, 32 hexadecimal digits: its name in the
        file of pictures.
      level: the level of the alteration.
      index: the image's place in the data set, from 0.
      label: its right class; None if not known.
      predicted: the class that the network answers at this level, the number of classes
        for "unknown"; None if not known.
      shown_as: "unaltered", "lower end" or "upper end" of the range, or "first
        failure": the level nearest to the identity at which the answer is wrong. Of a
        score, "lowest score": the level nearest to the identity at which the image's
        score is lowest.
      file: the name of the file that the image was read from, below the folder that was
        read; None if not known.
    """

    image: Annotated[np.ndarray | None, Layout(make=lambda axes: None)]
    digest: Annotated[str, _Digest]
    level: float
    index: Annotated[int, Layout("image")]  # pyright: ignore[reportIncompatibleMethodOverride]
    label: int | None
    predicted: int | None
    shown_as: Annotated[str, Text(allowed=SHOWN_AS)]
    file: str | None = None


_Interval = Annotated[
    ConfidenceInterval,
    Row(Number(at_least=-1, at_most=1, may_be_nan=True), ascends=True),
]


class Difference(NamedTuple):
    """How much more robust a network is to an alteration than an earlier one.

    Attributes:
      alteration: the alteration's name.
      value: the difference in robustness, in [-1, 1]; NaN if not known.
      interval: its interval.
      joint_interval: its interval of a simultaneous coverage of all differences, by
        Bonferroni's inequality.
      reason: why it is not known, or "".
    """

    alteration: Annotated[str, Text()]
    value: Annotated[float, Number(at_least=-1, at_most=1, may_be_nan=True)]
    interval: _Interval
    joint_interval: _Interval
    reason: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """All results of one network, from which alone a report is made.

    Attributes:
      network: the network's name; None if it has none.
      class_names: the names of the K classes; None if they are not given. Those of
        scores alone, which have no classes, are not used.
      assessments: one for each alteration.
      reasons: for each assessment why its range is plausible, or None. An empty tuple
        means None for all.
      pictures: for each assessment the pictures that a report shows, at most 16. An
        empty tuple means no pictures.
      roma: probabilistic local robustness, or None.
      attack: adversarial examples, or None. Read from a folder, its `images` are empty,
        of the shape `[0, 0, 0, 0]`.
      requirements: the requirements.
      regressions: regressions against an earlier result, a sentence each.
      plan: the plan that was followed, or None.
      differences: differences in robustness to an earlier result, for requirements of
        "difference".
      runs: the runs of the command that the results came from.

    Raises:
      TypeError: if a field has a wrong type.
      ValueError: if the fields contradict each other: different numbers of classes or
        entries, pictures of other levels or images, assessments of different networks.
    """

    network: str | None
    class_names: tuple[str, ...] | None
    assessments: tuple[Assessment, ...]
    reasons: tuple[str | None, ...] = ()
    pictures: tuple[tuple[Picture, ...], ...] = ()
    roma: RomaResult | None = None
    attack: Attack | None = None
    requirements: tuple[Requirement, ...] = ()
    regressions: tuple[str, ...] = ()
    plan: Plan | None = None
    differences: tuple[Difference, ...] = ()
    runs: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        """Checks the fields, and fills in defaults for every assessment."""
        if self.network is not None:
            checked_text("network", self.network)
        for name, kind in (("roma", RomaResult), ("attack", Attack), ("plan", Plan)):
            wanted = f"a {kind.__module__.rpartition('.')[0]}.{kind.__name__} or None"
            check_type(name, getattr(self, name), kind | None, wanted)
        for name, kind, wanted, min_length in (
            ("assessments", Assessment, "jaxrob.Assessment", 0),
            ("requirements", Requirement, "Requirement", 0),
            ("regressions", str, "texts", 0),
            ("differences", Difference, "Difference", 0),
            ("runs", Run, "jaxrob.reporting.Run", 0),
        ):
            given = checked_sequence(
                name, getattr(self, name), kind, wanted, min_length=min_length
            )
            object.__setattr__(self, name, given)
        for name, missing, kind, wanted in (
            ("reasons", None, str | None, "texts or None"),
            ("pictures", (), tuple | list, "tuples of Picture"),
        ):
            given = checked_sequence(
                name, getattr(self, name), kind, wanted, min_length=0
            ) or (missing,) * len(self.assessments)
            if len(given) != len(self.assessments):
                raise ValueError(
                    f"{name} must have an entry for each of {len(self.assessments)} "
                    f"assessments; got {len(given)}"
                )
            object.__setattr__(self, name, given)
        object.__setattr__(self, "pictures", tuple(map(tuple, self.pictures)))
        # An empty reason becomes None.
        reasons = tuple(one or None for one in self.reasons)
        object.__setattr__(self, "reasons", reasons)
        if self.class_names is not None:
            names = checked_names("class_names", self.class_names)
            object.__setattr__(self, "class_names", names)
        _check_together(self)


def picture_digest(image: np.ndarray) -> str:
    """Returns a digest of a uint8 picture `[H, W, C]`, 32 hexadecimal digits."""
    found = hashlib.sha256(repr(tuple(map(int, image.shape))).encode())
    found.update(contiguous(image))
    return found.hexdigest()[:32]


def check_digest(name: str, digest: Any) -> None:
    check_type(name, digest, str, "a text")
    if not re.fullmatch("[0-9a-f]{32}", digest):
        raise ValueError(f"{name} must be 32 hexadecimal digits; got {short(digest)}")


def with_plan(results: Results) -> tuple[Assessment, ...]:
    """Returns the assessments with the plan's digest, if any, in their provenance."""
    if results.plan is None:
        return results.assessments
    return tuple(
        dataclasses.replace(
            one, provenance=one.provenance | {"plan": results.plan.digest}
        )
        for one in results.assessments
    )


def check_picture(name: str, image: Any) -> None:
    fits = isinstance(image, np.ndarray) and image.dtype == np.uint8
    if not fits or image.ndim != 3 or image.shape[2] not in CHANNELS or not image.size:
        raise ValueError(
            f"{name} must be uint8 [H, W, C] with 1, 3 or 4 channels; got "
            f"{named(image)}"
        )


def sizes(assessment: Assessment) -> tuple[int, int]:
    """Returns the number of classes, 0 of a score, and of the images that count."""
    curve = assessment.curve
    if assessment.sampling is not None:
        return curve.num_classes, assessment.sampling.num_images
    if isinstance(curve, Curve):
        return curve.num_classes, len(curve.labels)
    if isinstance(curve, ScoreCurve):
        return 0, curve.num_images
    return curve.num_classes, int(curve.counts.at(0).inputs.sum())


def _check_together(results: Results) -> None:
    first, names = None, results.class_names
    for assessment, pictures in zip(results.assessments, results.pictures):
        place = short(assessment.alteration)
        num_classes, num_images = sizes(assessment)
        if names is not None and num_classes and len(names) != num_classes:
            raise ValueError(
                f"class_names must have a name for each of the {num_classes} classes "
                f"of {place}; got {len(names)}"
            )
        network = assessment.provenance.get("classifier")
        first = first or network
        if network and network != first:
            raise ValueError(
                f"assessments must be of one network; {place} is of the network of "
                f"digest {short(network)}, another of {short(first)}"
            )
        if len(pictures) > MOST_PICTURES:
            raise ValueError(
                f"pictures of {place} must be at most {MOST_PICTURES}; got "
                f"{len(pictures)}"
            )
        for number, picture in enumerate(pictures):
            where = f"pictures of {place}, number {number}"
            check_type(where, picture, Picture, "a Picture")
            _check_picture(where, picture, assessment, num_classes, num_images)


def _check_picture(
    where: str,
    picture: Picture,
    assessment: Assessment,
    num_classes: int,
    num_images: int,
) -> None:
    check_digest(f"{where}: digest", picture.digest)
    if picture.image is not None:
        check_picture(f"{where}: image", picture.image)
        if picture_digest(picture.image) != picture.digest:
            raise ValueError(f"{where}: the image is not that of its digest")
    lower, upper = assessment.lower, assessment.upper
    checked_number(f"{where}: level", picture.level, at_least=lower, at_most=upper)
    checked_integer(
        f"{where}: index", picture.index, at_least=0, at_most=num_images - 1
    )
    for name, most in (("label", num_classes - 1), ("predicted", num_classes)):
        value = getattr(picture, name)
        if value is not None:
            checked_integer(f"{where}: {name}", value, at_least=0, at_most=most)
    check_choice(f"{where}: shown_as", picture.shown_as, SHOWN_AS)
    check_type(f"{where}: file", picture.file, str | None, "a text or None")
    of_view = {"unaltered": assessment.identity, "lower end": lower, "upper end": upper}
    wanted = of_view.get(picture.shown_as, picture.level)
    if picture.level != wanted:
        raise ValueError(
            f"{where}: level must be {wanted:g}, as it is shown as "
            f"{picture.shown_as!r}; got {picture.level:g}"
        )
