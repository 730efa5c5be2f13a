"""One network's results, and their differences to earlier ones."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_integer,
    checked_names,
    checked_number,
    checked_sequence,
    checked_text,
)
from jaxrob._arguments.messages import named
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison, compare
from jaxrob._codec import Layout, Number, Row, Text, document
from jaxrob._curve import ReducedCurve, ScoreCurve
from jaxrob._files import short
from jaxrob._identity.identity import contiguous
from jaxrob.adversarial import Attack
from jaxrob.domains._results import DomainResults
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._testing import holm
from jaxrob.reporting._requirements import Plan, Requirement, doubt_of
from jaxrob.roma import RomaResult


class File(NamedTuple):
    """A file that a run was given.

    Attributes:
      role: "network", "pictures", "labels", "plan", or a word of yours.
      name: its path as it was given.
      digest: the SHA-256 of its bytes; None of a folder.
    """

    role: str
    name: str
    digest: Annotated[str | None, Text("64 hexadecimal digits", "[0-9a-f]{64}")]


class Run(NamedTuple):
    """A run of the command, or of a program of yours.

    Attributes:
      command: the command line, quoted for a shell, with its seed.
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
_SHOWN_AS = ("unaltered", "lower end", "upper end", "first failure", "lowest score")
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
    shown_as: Annotated[str, Text(allowed=_SHOWN_AS)]
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
      reason: why it is not known, or not sure, or "".
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
      domain: what was found in an operating domain, or None.
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
    domain: DomainResults | None = None

    def __post_init__(self) -> None:
        if self.network is not None:
            checked_text("network", self.network)
        check_type("roma", self.roma, RomaResult | None, "a jaxrob.roma.RomaResult")
        check_type("attack", self.attack, Attack | None, "a jaxrob.adversarial.Attack")
        check_type("domain", self.domain, DomainResults | None, "results of a domain")
        check_type("plan", self.plan, Plan | None, "a jaxrob.reporting.Plan")
        for name, kind, wanted in (
            ("assessments", Assessment, "jaxrob.Assessment"),
            ("requirements", Requirement, "Requirement"),
            ("regressions", str, "texts"),
            ("differences", Difference, "Difference"),
            ("runs", Run, "jaxrob.reporting.Run"),
            ("reasons", str | None, "texts or None"),
            ("pictures", tuple | list, "tuples of Picture"),
        ):
            value = getattr(self, name)
            entries = checked_sequence(name, value, kind, wanted, min_length=0)
            object.__setattr__(self, name, entries)
        number = len(self.assessments)
        reasons = self.reasons or (None,) * number
        pictures = self.pictures or ((),) * number
        if not len(reasons) == len(pictures) == number:
            raise ValueError(
                f"reasons and pictures must have an entry for each of {number} "
                f"assessments; got {len(reasons)} and {len(pictures)}"
            )
        # An empty reason becomes None.
        object.__setattr__(self, "reasons", tuple(one or None for one in reasons))
        object.__setattr__(self, "pictures", tuple(map(tuple, pictures)))
        if self.class_names is not None:
            names = checked_names("class_names", self.class_names)
            object.__setattr__(self, "class_names", names)
        _check_together(self)

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The provenance of each assessment, and of the domain's result."""
        volumes = [self.domain.volume] if self.domain else []
        return [one.provenance for one in (*self.assessments, *volumes)]


def picture_digest(image: np.ndarray) -> str:
    """Returns a digest of a uint8 picture `[H, W, C]`, 32 hexadecimal digits."""
    found = hashlib.sha256(repr(tuple(map(int, image.shape))).encode())
    found.update(contiguous(image))
    return found.hexdigest()[:32]


def with_plan(results: Results) -> tuple[Assessment, ...]:
    """Returns the assessments with the plan's digest, if any, in their provenance."""
    if results.plan is None:
        return results.assessments
    plan = {"plan": results.plan.digest}
    return tuple(
        dataclasses.replace(one, provenance=one.provenance | plan)
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
    elif isinstance(curve, ReducedCurve):
        number = int(curve.counts.inputs[0].sum())
    else:
        # The counts of a whole curve take a pass over its answers.
        of_score = isinstance(curve, ScoreCurve)
        number = curve.num_images if of_score else len(curve.labels)
    return curve.num_classes, number


def _check_together(results: Results) -> None:
    names = results.class_names
    networks = {one.get("classifier") for one in results.sources}
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
                if picture_digest(picture.image) != picture.digest:
                    raise ValueError(f"{where}: digest must be that of the image")
            for name, least, most in (
                ("index", 0, num_images - 1),
                ("label", 0, num_classes - 1),
                ("predicted", 0, num_classes),
            ):
                if (value := getattr(picture, name)) is not None:
                    field = f"{where}: {name}"
                    checked_integer(field, value, at_least=least, at_most=most)
            low, high = assessment.lower, assessment.upper
            checked_number(f"{where}: level", picture.level, at_least=low, at_most=high)


def differences(
    new: Sequence[Assessment], old: Sequence[Assessment]
) -> tuple[Difference, ...]:
    """Compares assessments with the earlier ones of the same alterations.

    Each pair is compared by `jaxrob.compare`, at the new one's confidence level.

    Args:
      new: an assessment of each alteration.
      old: earlier ones, of the same images.

    Returns:
      A difference for each alteration that both have; of several earlier ones, to that
      of its range, measure and alpha. One that cannot be told, because thresholds or
      images differ, is NaN, with the reason.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: as `regressions`.
    """
    new, old = _distinct("new", new, 0), _distinct("old", old, 0)
    found = [(one, counterparts(one, old)) for one in new]
    pairs = [(one, *those) for one, those in found if len(those) == 1]
    return tuple(_difference(now, then, len(pairs)) for now, then in pairs)


def counterparts(one: Assessment, among: Sequence[Assessment]) -> list[Assessment]:
    """Those of its alteration: of its range, measure and alpha, if there are any."""
    alike = [each for each in among if each.alteration == one.alteration]
    return [each for each in alike if _subject(each) == _subject(one)] or alike


def _subject(one: Assessment) -> tuple[Any, ...]:
    return one.alteration, one.lower, one.upper, one.measure, one.curve.alpha


def regressions(
    new: Assessment | Sequence[Assessment], old: Assessment | Sequence[Assessment]
) -> list[str]:
    """Returns a sentence for each regression against earlier assessments.

    Assessments of one alteration are compared by `jaxrob.compare`, at the new one's
    confidence level. The new one is a regression if the interval of the difference in
    robustness lies below 0, or that of the difference in the measure's mean over the
    range, which distinguishes networks that are accepted everywhere. In addition the
    p-value, adjusted for all comparisons (Holm 1979), must be significant: between
    equally robust networks, the chance of any regression is at most one minus the
    confidence level.

    Args:
      new: an assessment, or one for each alteration.
      old: earlier assessments, of the same network or another, on the same images.

    Returns:
      A sentence for each earlier assessment that is better, has no counterpart, or
      cannot be compared, with the reason. Empty if there is no regression.

    Raises:
      TypeError: if `new` or `old` holds anything but assessments.
      ValueError: if two of them are of one alteration, range, measure and alpha.
    """
    new, pairs, comparisons, found = _distinct("new", new, 1), [], [], []
    for before in _distinct("old", old, 0):
        # Another range or measure than before: the comparison says which.
        now, *_ = counterparts(before, new) or [None]
        if now is None:
            found.append(f"{before.alteration}: it is not assessed any more")
            continue
        try:
            comparisons.append(compare(now, before, now.confidence_level))
            pairs.append((now, before))
        except ValueError as error:
            found.append(f"{before.alteration}: no comparison is possible, {error}")
    worse = [
        f"{now.alteration}: robustness is {now.robustness:.6g}, it was "
        f"{before.robustness:.6g} ({difference_text(each)})"
        for (now, before), each in zip(pairs, adjusted(comparisons))
        # NaN counts as worse, because it is not known to be as good.
        if each.is_worse or math.isnan(each.found.difference)
    ]
    return worse + found


def _difference(new: Assessment, old: Assessment, number: int) -> Difference:
    level = new.confidence_level
    unknown = ConfidenceInterval(math.nan, math.nan)
    reason = "a robustness is not known"
    try:
        found = compare(new, old, level)
        joint = found if number == 1 else compare(new, old, 1 - (1 - level) / number)
        if not math.isnan(found.difference):
            one, at_once = found.confidence_interval, joint.confidence_interval
            # Two bootstraps may differ in the last digits.
            low, high = min(one.low, at_once.low), max(one.high, at_once.high)
            at_once = ConfidenceInterval(low, high)
            doubt = doubt_of(new, "robustness") or doubt_of(old, "robustness")
            return Difference(new.alteration, found.difference, one, at_once, doubt)
    except ValueError as error:
        reason = str(error)
    return Difference(new.alteration, math.nan, unknown, unknown, reason)


def _distinct(
    name: str, given: Assessment | Sequence[Assessment], min_length: int
) -> Sequence[Assessment]:
    given = (given,) if isinstance(given, Assessment) else given
    ones = checked_sequence(
        name, given, Assessment, "jaxrob.Assessment", min_length=min_length
    )
    for one in ones:
        if [*map(_subject, ones)].count(_subject(one)) > 1:
            raise ValueError(
                f"{name} must have one assessment of each alteration, range, measure "
                f"and alpha; got two of {one.alteration!r}"
            )
    return ones


class Adjusted(NamedTuple):
    """A comparison with p-values adjusted by Holm's method, NaN where not known.

    The sides are 1 if the first is significantly more robust, -1 if less, 0 if neither.
    """

    found: Comparison
    p_value: float
    mean_p_value: float
    side: int
    mean_side: int

    @property
    def is_worse(self) -> bool:
        return min(self.side, self.mean_side) < 0


def adjusted(comparisons: Sequence[Comparison]) -> list[Adjusted]:
    """Adjusts the comparisons' p-values, two each, for one another."""
    # Between equally robust networks, the chance of any significant difference is then
    # at most one less the comparisons' confidence level, by default 5 %.
    pairs = np.array([(one.p_value, one.mean_p_value) for one in comparisons])
    values = holm(pairs.ravel()).reshape(-1, 2).tolist()
    return [
        Adjusted(
            one,
            p_value,
            mean_p_value,
            _side(one.confidence_interval, p_value, one.confidence_level),
            _side(one.mean_interval, mean_p_value, one.confidence_level),
        )
        for one, (p_value, mean_p_value) in zip(comparisons, values)
    ]


def _side(interval: ConfidenceInterval, p_value: float, confidence_level: float) -> int:
    # The tolerance admits p-values that equal the error up to rounding.
    if math.isnan(p_value) or p_value > 1 - confidence_level + 1e-12:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)


def difference_text(one: Adjusted) -> str:
    found = one.found
    low, high = found.confidence_interval
    mean_low, mean_high = found.mean_interval
    return (
        f"difference {found.difference:+.4f}, {100 * found.confidence_level:g} % "
        f"interval {low:+.4f} to {high:+.4f}, "
        f"p = {p_value_text(found.p_value, one.p_value)}; "
        f"mean over the range {found.mean_difference:+.4f}, {mean_low:+.4f} to "
        f"{mean_high:+.4f}, p = {p_value_text(found.mean_p_value, one.mean_p_value)}"
    )


def p_value_text(p_value: float, adjusted: float) -> str:
    return "-" if math.isnan(p_value) else f"{p_value:.3g} (adjusted {adjusted:.3g})"
