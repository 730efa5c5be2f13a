"""A short summary in Markdown, for the page of a continuous integration's run."""

from jaxrob._arguments.readable import readable
from jaxrob.reporting._gate import MET, NOT_MET, NOT_SHOWN
from jaxrob.reporting._report.first_page import checks_table
from jaxrob.reporting._report.markdown import section
from jaxrob.reporting._report.parts import Bullets, Section, Text, say, strong, table
from jaxrob.reporting._report.tested import class_names
from jaxrob.reporting._report.verdict import verdict_of
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import interval, joint_interval, percent, short

_MOST_LETTERS = 160
_STATES = {MET: "✅ met", NOT_MET: "❌ not met", NOT_SHOWN: "❔ not shown"}


def summary(results: Results, report: str | None) -> str:
    number = len(results.assessments)
    joints = [joint_interval(one, number) for one in results.assessments]
    verdict = verdict_of(results, joints, number, class_names(results))
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
