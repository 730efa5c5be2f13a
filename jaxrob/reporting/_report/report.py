"""What the sections of a report are made of: its networks, and what all share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.warnings import cause_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison as Compared
from jaxrob._assessment.compare import compare
from jaxrob.reporting._earlier import Adjusted, adjusted
from jaxrob.reporting._results import Picture, Results
from jaxrob.reporting._words import Warned, by_cause, joint_interval, level_of, short


class Pair(NamedTuple):
    """Results to compare, and their names in the report."""

    new: Results
    old: Results
    first: str
    second: str


class Difference(NamedTuple):
    """Two assessments of one alteration compared, or why nothing can be."""

    alteration: str
    new: Assessment | None = None
    old: Assessment | None = None
    found: Compared | None = None
    why: str = ""
    adjusted: Adjusted | None = None


class Comparison(NamedTuple):
    """Two networks' names, and a row for each alteration."""

    first: str
    second: str
    rows: tuple[Difference, ...]


def _comparisons(pairs: Sequence[Pair]) -> list[Comparison]:
    rows = [_rows(pair) for pair in pairs]
    # All of a report are adjusted for one another.
    known = [row.found for some in rows for row in some if row.found is not None]
    together = iter(adjusted(known))
    return [
        Comparison(
            pair.first,
            pair.second,
            tuple(
                row if row.found is None else row._replace(adjusted=next(together))
                for row in some
            ),
        )
        for pair, some in zip(pairs, rows)
    ]


def _rows(pair: Pair) -> list[Difference]:
    before = {one.alteration: one for one in pair.old.assessments}
    rows = [
        _row(one, before.pop(one.alteration))
        if one.alteration in before
        else Difference(one.alteration, why=f"not among those of {pair.second}")
        for one in pair.new.assessments
    ]
    why = f"not among those of {pair.first}"
    return rows + [Difference(name, why=why) for name in before]


def _row(new: Assessment, old: Assessment) -> Difference:
    # `compare` reads these entries; an assessment made by hand may lack them.
    if not all(
        {"alteration", "dataset"} <= one.provenance.keys() for one in (new, old)
    ):
        why = "no comparison: where they come from is not known"
        return Difference(new.alteration, why=why)
    try:
        found = compare(new, old, new.confidence_level)
    except ValueError as error:
        return Difference(new.alteration, why=f"no comparison: {error}")
    return Difference(new.alteration, new, old, found)


class Tested(NamedTuple):
    """An assessment in a report.

    `classes` are the names of its network's, `joint` is its interval, adjusted so that
    all of the report hold at once.
    """

    one: Assessment
    anchor: str
    classes: tuple[str, ...]
    reason: str
    pictures: Sequence[Picture]
    joint: tuple[float, float]

    @property
    def label(self) -> str:
        return short(self.one.alteration, 80)


class Network(NamedTuple):
    """A network in a report: its name there, its warnings by cause."""

    results: Results
    name: str
    anchor: str
    classes: tuple[str, ...]
    each: tuple[Tested, ...]
    warned: tuple[Warned, ...]


class Report(NamedTuple):
    """A report."""

    results: tuple[Results, ...]  # the results of each network
    networks: tuple[Network, ...]  # what the report says of each
    earlier: tuple[Comparison, ...]  # comparisons with earlier results
    between: tuple[Comparison, ...]  # comparisons of the networks with the first one

    @property
    def many(self) -> bool:
        return len(self.networks) > 1

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.networks]

    @property
    def ones(self) -> list[Assessment]:
        return [each for one in self.results for each in one.assessments]

    @property
    def level(self) -> str:
        return level_of(self.ones or [one.roma for one in self.results if one.roma])

    @property
    def compared(self) -> int:
        beside = (*self.earlier, *self.between)
        return sum(row.found is not None for one in beside for row in one.rows)

    @property
    def warned(self) -> list[str]:
        """What each warning is about; of several networks, these too."""
        return [
            f"{one.name}: {each.of}" if self.many else each.of
            for one in self.networks
            for each in one.warned
        ]

    @property
    def has_classes(self) -> bool:
        return any(map(has_classes, self.results))

    @property
    def has_few(self) -> bool:
        """Whether only a part of the images was looked at somewhere."""
        return any(one.sampling is not None for one in self.ones)

    @property
    def has_all(self) -> bool:
        """Whether all images were looked at somewhere."""
        return any(one.sampling is None for one in self.ones)

    def of(self, network: Network, before: str = "", otherwise: str = "") -> str:
        """The network's name with a text; another text if there is only one."""
        return f"{network.name}{before}" if self.many else otherwise

    def grouped(self, contents: Sequence[Any]) -> list[tuple[str, Any]]:
        """Joins the networks whose contents are equal; of one it names none."""
        found: dict[Any, list[str]] = {}
        for name, content in zip(self.names, contents):
            found.setdefault(content, []).append(name)
        number = len(self.networks)
        groups = []
        for content, of in found.items():
            all_of_them = "all networks" if number > 1 else ""
            names = all_of_them if len(of) == number else ", ".join(of)
            groups.append((names, content))
        return groups


def report_of(results: Sequence[Results], earlier: Sequence[Results]) -> Report:
    # Long names are whole in the facts about each network.
    names = _distinct([short(one.network or "network") for one in results])
    olds = list(earlier) * len(results) if len(earlier) == 1 else list(earlier)
    pairs = [
        Pair(new, old, name, _earlier_name(old, name))
        for new, old, name in zip(results, olds, names)
    ]
    others = [
        Pair(other, results[0], name, names[0])
        for other, name in zip(results[1:], names[1:])
    ]
    beside = _comparisons(pairs + others)
    intervals = sum(len(one.assessments) for one in results)
    return Report(
        tuple(results),
        tuple(
            _network(one, f"n{index + 1}", name, intervals)
            for index, (one, name) in enumerate(zip(results, names))
        ),
        tuple(beside[: len(pairs)]),
        tuple(beside[len(pairs) :]),
    )


def _network(results: Results, anchor: str, name: str, intervals: int) -> Network:
    classes = class_names(results)
    joints = [joint_interval(one, intervals) for one in results.assessments]
    rows = zip(results.assessments, results.reasons, results.pictures, joints)
    each = tuple(
        Tested(one, f"{anchor}-a{place}", classes, reason or "", pictures, joint)
        for place, (one, reason, pictures, joint) in enumerate(rows, 1)
    )
    return Network(results, name, anchor, classes, each, _warned(results))


def _warned(results: Results) -> tuple[Warned, ...]:
    found = by_cause(results.assessments, results.roma)
    ends = [cause_of(one.text)[-60:] for one in found]
    others = [
        Warned("the run", text)
        for text in dict.fromkeys(text for run in results.runs for text in run.warnings)
        if not any(cause_of(text).endswith(end) for end in ends)
    ]
    return (*others, *found)


def _distinct(names: Sequence[str]) -> list[str]:
    return [
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    ]


def _earlier_name(old: Results, name: str) -> str:
    if old.network in (None, name):
        return "the earlier result"
    return f"the earlier result of {old.network}"


def has_classes(results: Results) -> bool:
    of_curves = any(one.curve.num_classes for one in results.assessments)
    others = results.roma is not None or results.attack is not None
    return of_curves or others or not results.assessments


def class_names(results: Results) -> tuple[str, ...]:
    number = max((one.curve.num_classes for one in results.assessments), default=0)
    number = number or _classes_elsewhere(results)
    given = results.class_names or ()
    if not given:
        for one in results.assessments:
            found = (one.provenance.get("network") or {}).get("class_names")
            if isinstance(found, list) and all(isinstance(each, str) for each in found):
                given = tuple(found)
                break
    return (*given[:number], *(f"class {k}" for k in range(len(given), number)))


def _classes_elsewhere(results: Results) -> int:
    """Returns the number of classes that RoMA, attacks and class names show."""
    found = []
    if results.roma is not None:
        found += [results.roma.excluded, results.roma.labels]
    if results.attack is not None:
        found += [results.attack.labels, results.attack.predicted]
    most = [int(np.max(one)) + 1 for one in found if one is not None and len(one)]
    return max([*most, len(results.class_names or ())], default=0)
