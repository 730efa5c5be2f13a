"""The content of a report, before it is written as HTML or Markdown."""

from collections.abc import Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from jaxrob._arguments.warnings import cause_of
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._corruptions import corruptions, means, severity, share
from jaxrob.reporting._excursions import excursions
from jaxrob.reporting._joint import joint_interval
from jaxrob.reporting._level import level_of
from jaxrob.reporting._report import svg
from jaxrob.reporting._report.comparison import Comparison, Pair, compared, comparisons
from jaxrob.reporting._report.curve import Alteration, alteration
from jaxrob.reporting._report.glossary import glossary
from jaxrob.reporting._report.images import side_of
from jaxrob.reporting._report.local import Attacked, Local, attacked, local
from jaxrob.reporting._report.methods import methods
from jaxrob.reporting._report.multiplicity import (
    Multiplicity,
    multiplicity,
)
from jaxrob.reporting._report.summary import Summary, summary
from jaxrob.reporting._report.tested import (
    PlanFacts,
    Tested,
    class_names,
    has_classes,
    plan_facts,
    tested,
)
from jaxrob.reporting._report.text import short
from jaxrob.reporting._report.verdict import Verdict, overall, verdict_of
from jaxrob.reporting._results import Results
from jaxrob.reporting._style import axis_label, common_threshold
from jaxrob.reporting._warned import Warned, by_cause

_MOST_WARNED = 5  # Alterations with warnings that are named at the top.


class Benchmark(NamedTuple):
    """The means and errors that benchmarks of common corruptions publish, as text.

    Attributes:
      means: pairs of a mean and its value with its interval, or why it is not known.
      rows: for each corruption its name, mean error, error relative to AlexNet's, and
        the severity at which the network fails.
      has_reference: whether errors relative to AlexNet's are known.
      level: the intervals' confidence level.
    """

    means: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str, str, str], ...]
    has_reference: bool
    level: str


class Network(NamedTuple):
    """The content about one network.

    Attributes:
      anchor: the id of its section in the page.
      name: its name in the report.
      verdict: whether it is good enough.
      tested: facts about the network and the images.
      plan: the plan, or None.
      alterations: the content about each alteration.
      corruptions: benchmarks of common corruptions, or None.
      local: the content about random perturbations, or None.
      attacked: the content about attacks, or None.
      no_pictures: why pictures are missing; empty if all are shown.
      condition: when a level is accepted; None if alterations differ in it.
      strategy: the strategy and the integration rule; None if alterations differ in it.
      warned: a warning for each cause.
    """

    anchor: str
    name: str
    verdict: Verdict
    tested: Tested
    plan: PlanFacts | None
    alterations: tuple[Alteration, ...]
    corruptions: Benchmark | None
    local: Local | None
    attacked: Attacked | None
    no_pictures: str
    condition: str | None
    strategy: str | None
    warned: tuple[Warned, ...]


class Group(NamedTuple):
    """What several networks have in common, which is said once.

    Attributes:
      of: the networks; empty if there is only one in the report.
      content: what they have in common.
    """

    of: str
    content: Any


class Side(NamedTuple):
    """The curves of several networks for one alteration."""

    name: str
    figure: Markup


class Document(NamedTuple):
    """The content of a report.

    Attributes:
      title: the report's title.
      summary: the first page's sentences.
      version: the version of jaxrob that made the report.
      passed: whether all is good enough; None where nothing was required.
      networks: the content about each network.
      data: the images of each network's tests.
      versions: the versions, devices and keys of each network's tests.
      domains: each network's alterations, of which the ranges and reasons count.
      plans: each network's plan, or None.
      overview: a figure of the robustness of all networks to all alterations.
      sides: figures of several networks' curves.
      earlier: comparisons with earlier results.
      between: comparisons of the networks with the first one.
      multiplicity: the number of intervals, and sentences about it.
      methods: pairs of a kind of number and its statistical method.
      level: the confidence level of intervals of robustness.
      reduced: the side to which pictures are reduced, or None.
      num_warnings: the number of causes of warnings.
      warned: the alterations that the warnings are about.
      meanings: pairs of a required quantity and its meaning.
      excursions: which the levels may have missed; empty where all levels are scored.
      has_plan: whether there was a plan for some network.
      has_classes: whether some results are of classes, not of scores.
      has_stability: whether some numbers are stabilities.
      has_unknown: whether some answers may be "unknown".
      has_bound: whether some error of the levels is known.
      has_scores: whether levels are scored, or weighted by a distribution.
      has_few: whether only a part of the images was looked at somewhere.
      has_all: whether all images were looked at somewhere.
      glossary: words that not every reader knows, and their meanings.
    """

    title: str
    summary: Summary
    version: str
    passed: bool | None
    networks: tuple[Network, ...]
    data: tuple[Group, ...]
    versions: tuple[Group, ...]
    domains: tuple[Group, ...]
    plans: tuple[Group, ...]
    overview: Markup
    sides: tuple[Side, ...]
    earlier: tuple[Comparison, ...]
    between: tuple[Comparison, ...]
    multiplicity: Multiplicity
    methods: tuple[tuple[str, str], ...]
    level: str
    reduced: int | None
    num_warnings: int
    warned: str
    meanings: tuple[tuple[str, str], ...]
    excursions: str
    has_plan: bool
    has_classes: bool
    has_stability: bool
    has_unknown: bool
    has_bound: bool
    has_scores: bool
    has_few: bool
    has_all: bool
    glossary: tuple[tuple[str, str], ...]


def document(results: Sequence[Results], earlier: Sequence[Results]) -> Document:
    """Returns the content of a report of these results."""
    # Long names are whole in the facts about each network.
    names = _distinct([short(one.network or "network") for one in results])
    olds = list(earlier) * len(results) if len(earlier) == 1 else list(earlier)
    pairs = [
        Pair(new, old, name, _earlier_name(old, name))
        for new, old, name in zip(results, olds, names)
    ]
    beside = comparisons(
        pairs
        + [
            Pair(other, results[0], name, names[0])
            for other, name in zip(results[1:], names[1:])
        ]
    )
    many = multiplicity(results, compared(beside))
    side = side_of([each for one in results for row in one.pictures for each in row])
    networks = tuple(
        _network(one, index, name, many.number, side)
        for index, (one, name) in enumerate(zip(results, names))
    )
    assessments = [each for one in results for each in one.assessments]
    warned = [each for one in networks for each in one.warned]
    return Document(
        title=f"Robustness of {_listed([short(name) for name in names])}",
        summary=summary(
            results,
            names,
            [one.alterations for one in networks],
            beside[len(pairs) :],
            len(warned),
        ),
        version=metadata.version("jaxrob"),
        passed=overall([one.verdict for one in networks]),
        networks=networks,
        data=_grouped(names, [one.tested.data for one in networks]),
        versions=_grouped(names, [one.tested.versions for one in networks]),
        domains=_grouped(
            names,
            [one.alterations for one in networks],
            [tuple(map(_domain, one.alterations)) for one in networks],
        ),
        plans=_grouped(names, [one.plan for one in networks]),
        overview=_overview(results, names),
        sides=_sides(results, names) if len(results) > 1 else (),
        earlier=beside[: len(pairs)],
        between=beside[len(pairs) :],
        multiplicity=many,
        methods=methods(results, compared(beside)),
        level=level_of(assessments or [one.roma for one in results if one.roma]),
        reduced=side,
        num_warnings=len(warned),
        warned=_named(networks),
        meanings=tuple(
            dict.fromkeys(each for one in networks for each in one.verdict.meanings)
        ),
        excursions=excursions(assessments),
        has_plan=any(one.plan is not None for one in results),
        has_classes=any(map(has_classes, results)),
        has_stability=any(one.is_stability for one in assessments),
        has_unknown=any(one.curve.alpha is not None for one in assessments),
        has_bound=any(one.error_bound is not None for one in assessments),
        has_scores=any(one.scores is not None for one in assessments),
        has_few=any(one.sampling is not None for one in assessments),
        has_all=any(one.sampling is None for one in assessments),
        glossary=glossary(results),
    )


def _network(
    results: Results, index: int, name: str, intervals: int, side: int | None
) -> Network:
    names = class_names(results)
    joints = [joint_interval(one, intervals) for one in results.assessments]
    alterations = tuple(
        alteration(
            one,
            names,
            anchor=f"n{index + 1}-a{place + 1}",
            reason=results.reasons[place],
            pictures=results.pictures[place],
            side=side,
            joint=joints[place],
        )
        for place, one in enumerate(results.assessments)
    )
    return Network(
        f"n{index + 1}",
        name,
        verdict_of(results, name, joints, intervals, names),
        tested(results, names),
        plan_facts(results),
        alterations,
        _benchmark(results),
        None if results.roma is None else local(results.roma, names),
        None if results.attack is None else attacked(results.attack, names),
        _no_pictures(results),
        _of_all([each.condition for each in alterations]),
        _of_all([_chosen_by(one) for one in alterations]),
        _warned(results),
    )


def _warned(results: Results) -> tuple[Warned, ...]:
    """Returns the results' warnings, and others that the runs printed."""
    found = by_cause(results.assessments, results.roma)
    said = {cause_of(one.text) for one in found}
    others = [
        Warned("the run", text)
        for text in dict.fromkeys(text for run in results.runs for text in run.warnings)
        if not any(_ends_alike(text, one) for one in said)
    ]
    return (*others, *found)


def _ends_alike(text: str, cause: str) -> bool:
    """Whether a warning that was printed is one of the results'."""
    return cause_of(text).endswith(cause[-60:])


def _grouped(
    names: Sequence[str], contents: Sequence[Any], keys: Sequence[Any] | None = None
) -> tuple[Group, ...]:
    """Joins the networks whose contents are equal, by their keys if there are any."""
    found: dict[Any, tuple[list[str], Any]] = {}
    for name, content, key in zip(names, contents, keys or contents):
        found.setdefault(key, ([], content))[0].append(name)
    if len(names) == 1:
        return (Group("", contents[0]),)
    return tuple(
        Group("all networks" if len(of) == len(names) else ", ".join(of), content)
        for of, content in found.values()
    )


def _domain(one: Alteration) -> tuple[str, ...]:
    """Returns what the report says of an alteration before it was tested."""
    return one.label, one.unit, one.span, one.identity, one.settings, one.reason


def _chosen_by(one: Alteration) -> str:
    """Returns the strategy, and the integration rule of all images."""
    strategy, _, rule, *_ = one.sampling
    return strategy if one.few else f"{strategy}, rule “{rule}”"


def _benchmark(results: Results) -> Benchmark | None:
    found = corruptions(results.assessments)
    if found is None:
        return None
    return Benchmark(
        tuple(
            (name, f"{share(one)}: {one.reason}" if one.reason else share(one))
            for name, one in means(found)
        ),
        tuple(
            (
                one.name,
                share(one.error),
                share(one.relative_to_alexnet) if one.relative_to_alexnet else "",
                severity(one.fails_at),
            )
            for one in found.rows
        ),
        any(one.relative_to_alexnet for one in found.rows),
        level_of([one for one in results.assessments if one.unit == "severity"]),
    )


def _no_pictures(results: Results) -> str:
    pictures = [each for row in results.pictures for each in row]
    lacking = sum(each.image is None for each in pictures)
    if not pictures:
        return "The results hold no pictures, so none are shown."
    if not lacking:
        return ""
    are = "is" if lacking == 1 else "are"
    return (
        f"Of the {len(pictures)} pictures that the results name, {lacking} {are} "
        "missing: pictures.npz was taken away, or is not the one written with these "
        "results."
    )


def _named(networks: Sequence[Network]) -> str:
    """Names the alterations that warnings are about; of several networks, these too."""
    of = [
        f"{one.name}: {each.of}" if len(networks) > 1 else each.of
        for one in networks
        for each in one.warned
    ]
    said = [short(one, 160) for one in of[:_MOST_WARNED]]
    return "; ".join(said) + ("; ..." if len(of) > _MOST_WARNED else "")


def _of_all(texts: Sequence[str]) -> str | None:
    """Returns the text that all share, or None if they differ."""
    return texts[0] if len(set(texts)) == 1 else None


def _overview(results: Sequence[Results], names: Sequence[str]) -> Markup:
    """Draws a row for each alteration, in the order in which they first occur."""
    found: dict[str, dict[int, Assessment]] = {}
    for which, one in enumerate(results):
        for each in one.assessments:
            found.setdefault(each.alteration, {}).setdefault(which, each)
    if not found:
        return Markup("")
    rows = []
    for name, by_network in found.items():
        ends = [
            (each.robustness, *each.confidence_interval, _open(each))
            if (each := by_network.get(which)) is not None
            else (None, np.nan, np.nan, None)
            for which in range(len(results))
        ]
        rows.append(svg.Estimate(name, *map(tuple, zip(*ends))))
    return svg.estimates(
        rows,
        names,
        alt="the robustness to each alteration, with its interval",
        x_label="robustness, the share of the range that is good enough",
        level=level_of([each for one in results for each in one.assessments]),
        opened_by="levels and images not looked at"
        if any(each.sampling for one in results for each in one.assessments)
        else "levels",
        required=sorted(
            {
                each.bound
                for one in results
                for each in one.requirements
                if each.quantity in ("robustness", "robustness.low")
                and each.alteration is None
            }
        ),
    )


def _open(one: Assessment) -> tuple[float, float] | None:
    """Returns the interval that levels and unseen images leave open on the data set."""
    if one.sampling is None and one.error_bound is None:
        return None
    return one.dataset_interval


def _sides(results: Sequence[Results], names: Sequence[str]) -> tuple[Side, ...]:
    """Draws a figure for each alteration that several networks share."""
    found: dict[tuple, list[tuple[str, Assessment]]] = {}
    for name, one in zip(names, results):
        for each in one.assessments:
            key = each.alteration, each.unit, each.lower, each.upper, each.measure
            found.setdefault(key, []).append((name, each))
    figures = []
    for (title, unit, lower, upper, measure), group in found.items():
        if len(group) < 2:
            continue
        first = group[0][1]
        said = in_words(measure)
        figure = svg.curves(
            [svg.Line(short(name, 40), one.levels, one.values) for name, one in group],
            (lower, upper),
            alt=f"{said} of {len(group)} networks over the level of {short(title)}",
            x_label=axis_label(f"level of {short(title)}", unit),
            y_label=said,
            threshold=common_threshold([one for _, one in group]),
            identity=first.identity,
        )
        figures.append(Side(title, figure))
    return tuple(figures)


def _distinct(names: Sequence[str]) -> list[str]:
    """Appends a number to names that several networks share."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    ]


def _listed(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{len(names)} networks"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _earlier_name(old: Results, name: str) -> str:
    return (
        "the earlier result"
        if old.network in (None, name)
        else (f"the earlier result of {old.network}")
    )
