"""Reports for assessors, made from results alone."""

from collections.abc import Callable, Sequence
from typing import Any

from jaxrob._arguments.checks import check_type, checked_sequence
from jaxrob._arguments.naming import named
from jaxrob._arguments.readable import readable
from jaxrob.reporting._gate import MET, NOT_MET, NOT_SHOWN
from jaxrob.reporting._report.data import element, read_report
from jaxrob.reporting._report.first_page import about, checks_table
from jaxrob.reporting._report.html import html
from jaxrob.reporting._report.markdown import markdown, section
from jaxrob.reporting._report.parts import (
    Bullets,
    Document,
    Part,
    Section,
    Text,
    say,
    strong,
    table,
)
from jaxrob.reporting._report.report import report_of
from jaxrob.reporting._report.sections import AFTER_DETAILS, SECTIONS
from jaxrob.reporting._report.verdict import verdict_of
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import interval, percent, short

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

    Names are escaped, so that they cannot become markup.

    Args:
      results: as for `to_html`.
      earlier: as for `to_html`.
      sections: as for `to_html`.

    Raises:
      TypeError: as `to_html`.
      ValueError: as `to_html`.
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
    return _summary(results, report)


def _document(
    results: Sequence[Results],
    earlier: Sequence[Results],
    own: Sequence[Callable[[Sequence[Results]], Section]],
) -> Document:
    results = _checked("results", results, 1)
    earlier = _checked("earlier", earlier, 0)
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


def _checked(name: str, value: Any, min_length: int) -> tuple[Results, ...]:
    if isinstance(value, Results):
        raise TypeError(
            f"{name} must be a sequence; got {named(value)}: give [results]"
        )
    wanted = "jaxrob.reporting.Results"
    return checked_sequence(name, value, Results, wanted, min_length=min_length)


def _summary(results: Results, report: str | None) -> str:
    whole = report_of([results], [])
    verdict = verdict_of(whole.networks[0], whole)
    subjects = [readable(one.alteration) for one in results.assessments]
    cut = {one: short(one, _MOST_LETTERS) for one in subjects}
    if len(set(cut.values())) < len(cut):
        cut = {one: one for one in subjects}
    checks = tuple(one._replace(of=cut.get(one.of, one.of)) for one in verdict.checks)
    verdict = verdict._replace(checks=checks)
    sign = {None: "", True: "✅ ", False: "❔ " if verdict.is_open else "❌ "}
    worse = [f"❌ worse: {text}" for text in verdict.regressions]
    alterations = table(
        zip(subjects, results.assessments),
        ("alteration", "row", lambda pair: cut[pair[0]]),
        ("robustness", "n", lambda pair: percent(pair[1].robustness)),
        ("interval", "n", lambda pair: interval(*pair[1].confidence_interval)),
    )
    parts = [Text((sign[verdict.passed], strong(verdict.words)))]
    parts += [Bullets(worse)] * bool(worse)
    if checks:
        parts += [
            checks_table(verdict, "how sure", "", "", _STATES),
            Text(say("in_summary")),
        ]
    parts += [alterations] * bool(subjects)
    parts += [Text(f"The report: {report}")] * bool(report)
    name = short(results.network or "network", _MOST_LETTERS)
    return section(Section(f"jaxrob: {name}", parts)).rstrip() + "\n"
