"""`jaxrob report folder...`: writes the report of existing results."""

import pathlib
from collections.abc import Sequence

from jaxrob._command import reports
from jaxrob._command.compare import read
from jaxrob._command.define import Values
from jaxrob.reporting._report import with_tester


def run(values: Values, words: Sequence[str]) -> str:
    """Writes the report of one or more results folders."""
    paths = values.report or [str(_default_path(words[0]))]
    reports.check(paths)
    results = [
        with_tester(read(word), values.tester, values.organisation) for word in words
    ]
    earlier = [read(path) for path in values.earlier]
    reports.write(paths, results, earlier)
    return ""


def _default_path(word: str) -> pathlib.Path:
    """Returns the default path of the report: in the folder."""
    place = pathlib.Path(word)
    return (place if place.is_dir() else place.parent) / "report.html"
