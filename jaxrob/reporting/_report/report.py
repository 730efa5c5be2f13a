"""What the sections of a report are made of: its networks, and what all share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxrob._arguments.texts import cause_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison as Compared
from jaxrob._assessment.compare import compare
from jaxrob.reporting._results import (
    Adjusted,
    Picture,
    Results,
    adjusted,
    counterparts,
)
from jaxrob.reporting._words import Warned, by_cause, joint_interval, level_of, short


class Difference(NamedTuple):
    alteration: str
    robustness: tuple[float, ...] = ()
    found: Compared | None = None
    why: str = ""
    adjusted: Adjusted | None = None

    @property
    def how(self) -> str:
        """How the first is beyond what chance explains, or "" where it is not."""
        if (one := self.adjusted) is None or not (one.side or one.mean_side):
            return ""
        if one.side:
            return "more robust" if one.side > 0 else "less robust"
        return f"{'better' if one.mean_side > 0 else 'worse'} on average over the range"

    @property
    def though(self) -> str:
        mean_alone = self.how.endswith("over the range")
        return ", though the robustness does not show it" * mean_alone


class Comparison(NamedTuple):
    first: str
    second: str
    rows: Sequence[Difference]


class Tested(NamedTuple):
    """An assessment in a report, and the names of its network's classes."""

    one: Assessment
    anchor: str
    classes: tuple[str, ...]
    reason: str
    pictures: Sequence[Picture]
    joint: tuple[float, float]  # its interval, with all others of the report

    @property
    def label(self) -> str:
        return short(self.one.alteration, 80)


class Network(NamedTuple):
    results: Results
    name: str
    anchor: str
    classes: tuple[str, ...]
    each: tuple[Tested, ...]
    warned: tuple[Warned, ...]


class Report(NamedTuple):
    networks: tuple[Network, ...]
    earlier: Sequence[Comparison]  # comparisons with earlier results
    between: Sequence[Comparison]  # comparisons of the networks with the first one

    @property
    def many(self) -> bool:
        return len(self.networks) > 1

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.networks]

    @property
    def results(self) -> list[Results]:
        return [one.results for one in self.networks]

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
        return [
            self.of(one, f": {each.of}", each.of)
            for one in self.networks
            for each in one.warned
        ]

    @property
    def has_classes(self) -> bool:
        return any(map(has_classes, self.results))

    @property
    def has_few(self) -> bool:
        return any(one.sampling is not None for one in self.ones)

    @property
    def has_all(self) -> bool:
        return any(one.sampling is None for one in self.ones)

    def of(self, network: Network, before: str = "", otherwise: str = "") -> str:
        """The network's name with a text; another text if there is only one."""
        return f"{network.name}{before}" if self.many else otherwise

    def grouped(self, contents: Sequence[Any]) -> list[tuple[str, Any]]:
        """Joins the networks whose contents are equal; of one it names none."""
        found: dict[Any, list[str]] = {}
        for name, content in zip(self.names, contents):
            found.setdefault(content, []).append(name)
        whole = "all networks" * self.many
        return [
            (whole if len(of) == len(self.networks) else ", ".join(of), content)
            for content, of in found.items()
        ]


def report_of(results: Sequence[Results], earlier: Sequence[Results]) -> Report:
    # Long names are whole in the facts about each network.
    names = [short(one.network or "network") for one in results]
    names = [
        name if names.count(name) == 1 else f"{name} ({names[:at].count(name)})"
        for at, name in enumerate(names, 1)
    ]
    olds = list(earlier) * len(results) if len(earlier) == 1 else earlier
    rows = []
    for new, old, name in zip(results, olds, names):
        of = "" if old.network in (None, name) else f" of {old.network}"
        rows.append(_rows(new, old, name, f"the earlier result{of}"))
    rows += [
        _rows(new, results[0], name, names[0])
        for new, name in zip(results[1:], names[1:])
    ]
    beside = _adjusted(rows)
    intervals = sum(len(one.assessments) for one in results)
    networks = [
        _network(one, f"n{at}", name, intervals)
        for at, (one, name) in enumerate(zip(results, names), 1)
    ]
    return Report(tuple(networks), beside[: len(olds)], beside[len(olds) :])


def _rows(new: Results, old: Results, first: str, second: str) -> Comparison:
    why = f"not among those of {second}"
    pairs = [(one, *counterparts(one, old.assessments)[:1]) for one in new.assessments]
    rows = [
        _row(one, *then) if then else Difference(one.alteration, why=why)
        for one, *then in pairs
    ]
    seen = {id(then) for _, *those in pairs for then in those}
    left = [one.alteration for one in old.assessments if id(one) not in seen]
    why = f"not among those of {first}"
    rows += [Difference(name, why=why) for name in left]
    return Comparison(first, second, rows)


def _row(new: Assessment, old: Assessment) -> Difference:
    # `compare` reads these entries; an assessment made by hand may lack them.
    if not {"alteration", "dataset"} <= new.provenance.keys() & old.provenance.keys():
        why = "no comparison: where they come from is not known"
        return Difference(new.alteration, why=why)
    try:
        found = compare(new, old, new.confidence_level)
    except ValueError as error:
        return Difference(new.alteration, why=f"no comparison: {error}")
    return Difference(new.alteration, (new.robustness, old.robustness), found)


def _adjusted(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjusts all comparisons of a report for one another."""
    found = [row.found for one in comparisons for row in one.rows]
    together = iter(adjusted([one for one in found if one is not None]))
    return [
        one._replace(
            rows=[
                row._replace(adjusted=row.found and next(together)) for row in one.rows
            ]
        )
        for one in comparisons
    ]


def _network(results: Results, anchor: str, name: str, intervals: int) -> Network:
    classes = class_names(results)
    rows = zip(results.assessments, results.reasons, results.pictures)
    each = tuple(
        Tested(
            one,
            f"{anchor}-a{place}",
            classes,
            reason or "",
            pictures,
            joint_interval(one, intervals),
        )
        for place, (one, reason, pictures) in enumerate(rows, 1)
    )
    return Network(results, name, anchor, classes, each, _warned(results))


def _warned(results: Results) -> tuple[Warned, ...]:
    found = by_cause(results.assessments, results.roma)
    ends = tuple(cause_of(one.text)[-60:] for one in found)
    texts = dict.fromkeys(text for run in results.runs for text in run.warnings)
    others = [
        Warned("the run", one) for one in texts if not cause_of(one).endswith(ends)
    ]
    return (*others, *found)


def has_classes(results: Results) -> bool:
    of_curves = any(one.curve.num_classes for one in results.assessments)
    others = results.roma is not None or results.attack is not None
    return of_curves or others or not results.assessments


def class_names(results: Results) -> tuple[str, ...]:
    given = results.class_names or ()
    number = max((one.curve.num_classes for one in results.assessments), default=0)
    if not number:  # RoMA, attacks and names show how many there are.
        roma, attack = results.roma, results.attack
        found = [roma.excluded, roma.labels] if roma else []
        found += [attack.labels, attack.predicted] if attack else []
        most = [int(one.max()) + 1 for one in found if one is not None and len(one)]
        number = max([*most, len(given)])
    for one in results.assessments:
        names = (one.provenance.get("network") or {}).get("class_names")
        if isinstance(names, list) and all(isinstance(each, str) for each in names):
            given = given or tuple(names)
    return (*given[:number], *(f"class {k}" for k in range(len(given), number)))
