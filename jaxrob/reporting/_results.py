"""All results of one network, as stored in a folder."""

import dataclasses
import hashlib
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_names,
    checked_number,
    checked_sequence,
    checked_text,
)
from jaxrob._arguments.naming import named
from jaxrob._assessment.assessment import Assessment
from jaxrob._codec import Layout, Number, Row, Text, document
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
    digest: Annotated[str, Text("32 hexadecimal digits", "[0-9a-f]{32}")]
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
        for name, kind, wanted in (
            ("assessments", Assessment, "jaxrob.Assessment"),
            ("requirements", Requirement, "Requirement"),
            ("regressions", str, "texts"),
            ("differences", Difference, "Difference"),
            ("runs", Run, "jaxrob.reporting.Run"),
            ("reasons", str | None, "texts or None"),
            ("pictures", tuple | list, "tuples of Picture"),
        ):
            entries = checked_sequence(
                name, getattr(self, name), kind, wanted, min_length=0
            )
            object.__setattr__(self, name, entries)
        number = len(self.assessments)
        for name in ("reasons", "pictures"):
            entries = getattr(self, name) or ((),) * number
            if len(entries) != number:
                raise ValueError(
                    f"{name} must have an entry for each of {number} assessments; got "
                    f"{len(entries)}"
                )
            object.__setattr__(self, name, entries)
        # An empty reason becomes None.
        reasons = tuple(reason or None for reason in self.reasons)
        object.__setattr__(self, "reasons", reasons)
        object.__setattr__(self, "pictures", tuple(map(tuple, self.pictures)))
        if self.class_names is not None:
            names = checked_names("class_names", self.class_names)
            object.__setattr__(self, "class_names", names)
        _check_together(self)


def picture_digest(image: np.ndarray) -> str:
    """Returns a digest of a uint8 picture `[H, W, C]`, 32 hexadecimal digits."""
    found = hashlib.sha256(repr(tuple(map(int, image.shape))).encode())
    found.update(contiguous(image))
    return found.hexdigest()[:32]


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
        number = assessment.sampling.num_images
    elif isinstance(curve, ScoreCurve):
        number = curve.num_images
    else:
        number = int(curve.counts.inputs[0].sum())
    return curve.num_classes, number


def _check_together(results: Results) -> None:
    names = results.class_names
    networks = {one.provenance.get("classifier") for one in results.assessments}
    if len(networks - {None}) > 1:
        raise ValueError(
            "assessments must be of one network; got those of the digests "
            f"{', '.join(sorted(map(short, networks - {None})))}"
        )
    for assessment, pictures in zip(results.assessments, results.pictures):
        place = short(assessment.alteration)
        num_classes, num_images = sizes(assessment)
        if names is not None and num_classes and len(names) != num_classes:
            raise ValueError(
                f"class_names must have a name for each of the {num_classes} classes "
                f"of {place}; got {len(names)}"
            )
        if len(pictures) > MOST_PICTURES:
            raise ValueError(
                f"pictures of {place} must be at most {MOST_PICTURES}; got "
                f"{len(pictures)}"
            )
        where = f"pictures of {place}"
        for picture in pictures:
            check_type(where, picture, Picture, "a Picture")
            if picture.image is not None:
                check_picture(f"{where}: image", picture.image)
            for name, least, most in (
                ("index", 0, num_images - 1),
                ("label", 0, num_classes - 1),
                ("predicted", 0, num_classes),
                ("level", assessment.lower, assessment.upper),
            ):
                value = getattr(picture, name)
                if value is not None:
                    checked_number(
                        f"{where}: {name}", value, at_least=least, at_most=most
                    )
