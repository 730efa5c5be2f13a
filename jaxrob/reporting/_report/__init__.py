"""Reports for assessors, made from results alone."""

import dataclasses
import importlib.metadata
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_type, checked_path, checked_sequence
from jaxrob._arguments.texts import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._files import content_of, damage_of, parsed
from jaxrob.reporting._gate import MET, NOT_MET, NOT_SHOWN
from jaxrob.reporting._report.parts import (
    Bullets,
    Document,
    Part,
    Section,
    Text,
    html,
    markdown,
    markdown_section,
    say,
    strong,
    table,
)
from jaxrob.reporting._report.report import report_of
from jaxrob.reporting._report.sections import AFTER_DETAILS, SECTIONS
from jaxrob.reporting._report.verdict import about, checks_table, verdict_of
from jaxrob.reporting._results import Results, Run, with_plan
from jaxrob.reporting._words import by_cause, interval, percent, short

__all__ = ("read_report", "to_html", "to_markdown", "to_summary")


_MOST_LETTERS = 160
_STATES = {MET: "✅ met", NOT_MET: "❌ not met", NOT_SHOWN: "❔ not shown"}


def to_html(
    results: Sequence[Results],
    earlier: Sequence[Results] = (),
    sections: Sequence[Callable[[Sequence[Results]], Section]] = (),
) -> str:
    """Makes a report, as one HTML page, for readers who did not run the tests.

    It states what was tested and how, whether each requirement is met, what is not
    known, and the limits of its statements. The page loads nothing and runs no script;
    pictures, figures and the numbers as data (`read_report`) are within it. It prints
    well. The same results give the same text with the same versions of jaxrob and its
    dependencies.

    Example::

        results = reporting.read_results("results/today")
        pathlib.Path("report.html").write_text(reporting.to_html([results]), "utf-8")

    Args:
      results: the results of each network. All are on one page, side by side where
        they were tested alike.
      earlier: earlier results to compare with: none, one for all, or one for each.
      sections: functions of your own, which get the results and return a `Section`
        each. They stand after the details.

    Raises:
      ImportError: if Pillow is missing and there are pictures.
      TypeError: if an argument has a wrong type.
      ValueError: if there are no results, or `earlier` has another length.
    """
    return html(_document(results, earlier, sections), element(results, earlier))


def to_markdown(
    results: Sequence[Results],
    earlier: Sequence[Results] = (),
    sections: Sequence[Callable[[Sequence[Results]], Section]] = (),
) -> str:
    """Makes the same report as GitHub-flavoured Markdown, without figures and pictures.

    Names are escaped, so that they cannot become markup. Arguments and errors are those
    of `to_html`.
    """
    return markdown(_document(results, earlier, sections))


def to_summary(results: Results, report: str | None = None) -> str:
    """Makes a short summary in Markdown, for a step of continuous integration.

    It has the verdict, a line for each requirement and one for each alteration. Names
    are escaped, so that they cannot become markup.

    Args:
      results: the results of one network.
      report: where the report lies, a text; None if there is none.

    Raises:
      TypeError: if an argument has a wrong type.
    """
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    check_type("report", report, str | None, "a text or None")
    whole = report_of([results], [])
    verdict = verdict_of(whole.networks[0], whole)
    subjects = [readable(one.alteration) for one in results.assessments]
    cut = {one: short(one, _MOST_LETTERS) for one in subjects}
    if len(set(cut.values())) < len(cut):
        cut = {one: one for one in subjects}
    sign = {None: "", True: "✅ ", False: "❔ " if verdict.is_open else "❌ "}
    parts: list[Part] = [Text((sign[verdict.passed], strong(verdict.words)))]
    worse = [f"❌ worse: {text}" for text in results.regressions]
    parts += [Bullets(worse)] * bool(worse)
    if verdict.checks:
        checks = [(cut.get(one[0], one[0]), *one[1:]) for one in verdict.checks]
        parts.append(checks_table(checks, "how sure", "", "", _STATES))
        parts.append(Text(say("in_summary")))
    if subjects:
        alterations = table(
            results.assessments,
            ("alteration", "row", lambda one: cut[readable(one.alteration)]),
            ("robustness", "n", lambda one: percent(one.robustness)),
            ("interval", "n", lambda one: interval(*one.confidence_interval)),
        )
        parts.append(alterations)
    parts += [Text(f"The report: {report}")] * bool(report)
    name = short(results.network or "network", _MOST_LETTERS)
    return markdown_section(Section(f"jaxrob: {name}", parts)).rstrip() + "\n"


def _document(
    results: Sequence[Results],
    earlier: Sequence[Results],
    own: Sequence[Callable[[Sequence[Results]], Section]],
) -> Document:
    wanted = "jaxrob.reporting.Results, such as [results]"
    results = checked_sequence("results", results, Results, wanted)
    earlier = checked_sequence("earlier", earlier, Results, wanted, min_length=0)
    own = checked_sequence("sections", own, Callable, "functions", min_length=0)
    if len(earlier) not in (0, 1, len(results)):
        raise ValueError(
            f"earlier must hold no results, one, or one for each of {len(results)} "
            f"networks; got {len(earlier)}"
        )
    report = report_of(results, earlier)
    names = [short(name) for name in report.names]
    said = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if len(names) > 3:
        said = f"{len(names)} networks"
    made = [one for make in SECTIONS for one in make(report)]
    place = [one.anchor for one in made].index(AFTER_DETAILS)
    for number, make in enumerate(own, 1):
        one = make(results)
        check_type("sections: what each returns", one, Section, "a Section")
        for part in one.parts:
            check_type("sections: a part", part, Part, "such as Text or Table")
        made.insert(place + number - 1, one._replace(anchor=f"own-{number}"))
    return Document(f"Robustness of {said}", about(report), made)


FORM = "jaxrob report 1"
_OPEN = '<script type="application/json" id="jaxrob-results">'
_DATA = re.compile(re.escape(_OPEN) + r"(.*?)</script>", re.DOTALL)
_MOST_BYTES = 64 << 20
_FIELDS = (
    *("alteration", "unit", "lower", "upper", "identity", "threshold", "measure"),
    *("strategy", "rule", "robustness", "error_bound", "confidence_level"),
    *("confidence_interval", "levels", "values", "decided_ratio", "accepted"),
)
_PACKAGES = ("jaxrob", "numpy", "pillow")


def element(results: Sequence[Results], earlier: Sequence[Results]) -> str:
    data = {
        "format": FORM,
        "versions": {name: _version(name) for name in _PACKAGES},
        "networks": [_network(one) for one in results],
        "earlier": [_network(one) for one in earlier],
    }
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    # Nothing in a name can end the element, or open a comment in it.
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f"{_OPEN}{text}</script>"


def read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the numbers that a report, an HTML page, holds as data.

    Nothing is executed. Numbers that are not known are None.

    Example::

        (network,) = reporting.read_report("report.html")["networks"]
        print([one["robustness"] for one in network["assessments"]])

    Args:
      path: the page.

    Returns:
      "versions" of the packages that made the page, and "networks", for each its name,
      requirements, runs and "assessments": for each the alteration, its range, the
      robustness with both errors, and the curve.

    Raises:
      OSError: if the page cannot be read.
      ValueError: if it is no page of `to_html`.
    """
    place = checked_path("path", path)
    page = content_of(place, _MOST_BYTES).decode("utf-8", "replace")
    found = _DATA.findall(page)
    if len(found) != 1:
        raise ValueError(f"{place} must be a page of jaxrob's report; it has no data")
    with damage_of(f"{place}: its data are damaged"):
        data = parsed(found[0])
    if not isinstance(data, dict) or data.get("format") != FORM:
        raise ValueError(f"{place}: its data must be of the format {FORM!r}")
    return data


def with_tester(
    results: Results, tester: str | None, organisation: str | None
) -> Results:
    """Returns results whose runs name who tested, and for whom, where that is given."""
    if not tester and not organisation:
        return results
    given = {"tester": tester, "organisation": organisation}
    named = {name: one for name, one in given.items() if one}
    runs = results.runs or (Run("", "", ""),)
    runs = tuple(one._replace(**named) for one in runs)
    return dataclasses.replace(results, runs=runs)


def _network(one: Results) -> dict[str, Any]:
    return {
        "name": one.network,
        "class_names": one.class_names,
        "requirements": [each._asdict() for each in one.requirements],
        "regressions": one.regressions,
        "plan": one.plan and one.plan.digest,
        "runs": [
            run._asdict() | {"files": [each._asdict() for each in run.files]}
            for run in one.runs
        ],
        "assessments": [_assessment(each) for each in with_plan(one)],
        "domain": one.domain and parsed(one.domain.to_json()),
        "roma": one.roma
        and {
            "digest": parsed(one.roma.to_json())["digest"],
            "mean_plr": one.roma.mean_plr,
            "mean_plr_interval": one.roma.mean_plr_interval,
        },
    }


def _assessment(one: Assessment) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _FIELDS} | {
        "warnings": [each.text for each in by_cause([one])],
        "provenance": one.provenance,
        # Of all answers, most of which are not on the page.
        "digest": parsed(one.to_json())["digest"],
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
