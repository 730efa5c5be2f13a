"""The outcomes of requirements as JUnit XML, which continuous integration shows."""

import collections
import datetime
from xml.etree import ElementTree

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.readable import readable
from jaxrob.reporting._found import outcomes_of
from jaxrob.reporting._gate import MET, Outcome
from jaxrob.reporting._results import Results

_SUITE = "jaxrob"


def to_junit(results: Results) -> str:
    """Returns the outcomes as JUnit XML, which GitLab, Jenkins and others read.

    Each requirement of each result is a test case. One that is not met is a failure of
    the type "not met" or "not shown"; each regression is one of the type "regression".
    Characters that XML forbids, or that are invisible, are spelt out: "(U+0007)".

    Example::

        results = reporting.read_results("results/today")
        pathlib.Path("gate.xml").write_text(reporting.to_junit(results), "utf-8")

    Args:
      results: the results of one network, with their requirements.

    Raises:
      TypeError: if `results` has a wrong type.
    """
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    network = readable(results.network or "") or "network"
    every = outcomes_of(results)
    failed = [one for one in every if one.state != MET]
    number_failed = str(len(failed) + len(results.regressions))
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        id="0",
        package=_SUITE,
        name=network,
        # The format has no time zone. The machine's name is nobody's business.
        timestamp=datetime.datetime.now().isoformat(timespec="seconds"),
        hostname="localhost",
        tests=str(len(every) + len(results.regressions)),
        failures=number_failed,
        errors="0",
        time=f"{sum(one.seconds for one in results.assessments):.3f}",
    )
    # Of two common schemas one requires properties, the other that they are not empty.
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="network", value=network)
    taken: collections.Counter[str] = collections.Counter()
    for one in every:
        said = f"{one.words} ({one.how_sure})"
        case = _case(suite, network, _title(one), taken)
        if one.state != MET:
            _fail(case, one.state, f"{one.subject}: {said}")
    for text in results.regressions:
        case = _case(suite, network, f"no regression: {text}", taken)
        _fail(case, "regression", text)
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _title(one: Outcome) -> str:
    return f"{one.subject}: {one.requirement.condition}"


def _case(
    suite: ElementTree.Element,
    network: str,
    title: str,
    taken: collections.Counter[str],
) -> ElementTree.Element:
    """Adds a test case, whose name no other one has."""
    # Readers collapse spaces.
    name = " ".join(readable(title).split())
    taken[name] += 1
    if taken[name] > 1:
        name = f"{name} ({taken[name]})"
    return ElementTree.SubElement(
        suite, "testcase", name=name, classname=network, time="0"
    )


def _fail(case: ElementTree.Element, kind: str, text: str) -> None:
    text = readable(text)
    failure = ElementTree.SubElement(case, "failure", message=text, type=kind)
    failure.text = text
