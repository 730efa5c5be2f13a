"""`jaxrob report folder...`: writes the report of existing results."""

import pathlib
from collections.abc import Sequence

from jaxrob import reporting
from jaxrob._arguments.counted import counted
from jaxrob._command import reports
from jaxrob._command.compare import read
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob.reporting._report.data import with_tester

_MOST_SAID = 20


def run(values: Values, words: Sequence[str]) -> str:
    """Writes the report of one or more results folders, or checks a page.

    Returns:
      "", or where a page differs from the results: a report describes failures, and is
      not one.
    """
    if values.check is not None:
        return _differences(values, words)
    if values.results:
        raise Refused("--results goes with --check; give folders without a flag")
    if not words:
        raise Refused("expected folder...; got nothing")
    paths = values.report or [str(_default_path(words[0]))]
    reports.check(paths)
    results = [
        with_tester(read(word), values.tester, values.organisation) for word in words
    ]
    earlier = [read(path) for path in values.earlier]
    reports.write(paths, results, earlier)
    return ""


def _differences(values: Values, words: Sequence[str]) -> str:
    """Compares a page with the stored results, and prints what that shows."""
    if words or values.report:
        raise Refused("--check writes no report; give folders with --results")
    results = [read(path) for path in values.results]
    earlier = [read(path) for path in values.earlier]
    found = reporting.check_report(values.check, results, earlier)
    if found:
        more = [f"and {len(found) - _MOST_SAID} more"] * (len(found) > _MOST_SAID)
        print("\n".join((*found[:_MOST_SAID], *more)))
        return f"{values.check}: it differs in {counted(len(found), 'place')}"
    if results:
        print(f"{values.check}: it is the report of these results, letter by letter")
    else:
        print(
            f"{values.check}: its digest is right. That finds damage by accident and "
            "no forgery: compare it with --results"
        )
    return ""


def _default_path(word: str) -> pathlib.Path:
    """Returns the default path of the report: in the folder."""
    place = pathlib.Path(word)
    return (place if place.is_dir() else place.parent) / "report.html"
