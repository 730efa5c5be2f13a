"""The glossary knows the words that reports explain."""

import pathlib
import re

from jaxrob.reporting._report.report import report_of
from jaxrob.reporting._report.sections import glossary

from ..reporting import reports as made

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "glossary.md"
# What each report says of its own: the rule, the measure, the confidence level.
_OWN = re.compile(r"rule |jitter|accuracy|%")


def test_it_has_the_words_of_a_report():
    words = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)[2:]
    pairs = glossary(report_of([made.results()], []))
    of_report = [term for term, _ in pairs if not _OWN.search(term)]
    assert of_report
    for term in of_report:
        assert term.split(",")[0] in words


def test_no_word_is_explained_twice():
    words = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    assert len(words) == len(set(words)) > 20
