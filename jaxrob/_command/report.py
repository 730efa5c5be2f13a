"""`jaxrob report folder...`: the report of results that are there."""

import pathlib
from collections.abc import Sequence

from jaxrob._command import reports
from jaxrob._command.compare import read
from jaxrob._command.define import Values


def run(values: Values, words: Sequence[str]) -> str:
    """Writes the report of one or more results folders.

    Returns:
      Nothing: a report says what is not good enough, and is good itself.
    """
    paths = values.report or [str(_beside(words[0]))]
    reports.check(paths)
    results = [read(word) for word in words]
    earlier = [read(path) for path in values.earlier]
    reports.write(paths, results, earlier)
    return ""


def _beside(word: str) -> pathlib.Path:
    """Where the report goes by default: into the folder."""
    place = pathlib.Path(word)
    return (place if place.is_dir() else place.parent) / "report.html"
