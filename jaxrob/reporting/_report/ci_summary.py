"""A short summary in Markdown, for the page of a continuous integration's run."""

from typing import NamedTuple

from jaxrob._arguments.readable import readable
from jaxrob.reporting._joint import joint_interval
from jaxrob.reporting._report.tested import class_names
from jaxrob.reporting._report.text import interval, percent, short
from jaxrob.reporting._report.verdict import Verdict, verdict_of
from jaxrob.reporting._results import Results

_MOST_LETTERS = 160


class Row(NamedTuple):
    """One alteration of the table, as text."""

    alteration: str
    robustness: str
    interval: str


class Summary(NamedTuple):
    """What the template shows.

    Attributes:
      name: the network's name.
      verdict: the verdict.
      rows: a row for each alteration.
      report: where the report lies, or None.
    """

    name: str
    verdict: Verdict
    rows: tuple[Row, ...]
    report: str | None


def summary(results: Results, report: str | None) -> Summary:
    """Collects what a summary shows; long names are cut, but stay distinct."""
    number = len(results.assessments)
    name = short(results.network or "network", _MOST_LETTERS)
    joints = [joint_interval(one, number) for one in results.assessments]
    verdict = verdict_of(results, name, joints, number, class_names(results))
    subjects = [readable(one.alteration) for one in results.assessments]
    cut = {one: short(one, _MOST_LETTERS) for one in subjects}
    if len(set(cut.values())) < len(cut):
        cut = {one: one for one in subjects}
    checks = tuple(one._replace(of=cut.get(one.of, one.of)) for one in verdict.checks)
    return Summary(
        name,
        verdict._replace(checks=checks),
        tuple(
            Row(cut[of], percent(one.robustness), interval(*one.confidence_interval))
            for of, one in zip(subjects, results.assessments)
        ),
        report,
    )
