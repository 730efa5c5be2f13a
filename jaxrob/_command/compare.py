"""`jaxrob compare old new`: tests whether a network is less robust than before."""

import pathlib
from collections.abc import Sequence

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.readable import readable
from jaxrob._command import reports
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob.reporting import Results
from jaxrob.reporting._results import adjusted, difference_text


def run(values: Values, words: Sequence[str]) -> str:
    """Compares two results, alteration by alteration, on the same images."""
    reports.check(values.report)
    old, new = map(read, words)
    after = {one.alteration: one for one in new.assessments}
    found = []
    for before in old.assessments:
        if before.alteration not in after:
            raise Refused(f"{words[1]} has no assessment of {before.alteration}")
        try:
            new_one = after[before.alteration]
            found.append(jaxrob.compare(new_one, before, new_one.confidence_level))
        except ValueError as error:
            raise Refused(f"{before.alteration}: {error}") from error
    lines = [
        f"{before.alteration}: {before.robustness:.2%} -> "
        f"{after[before.alteration].robustness:.2%}, {difference_text(one)}"
        f"{_decided(before, after[before.alteration])}"
        for before, one in zip(old.assessments, adjusted(found))
    ]
    # Names must not start new lines.
    print("\n".join(map(readable, lines)))
    reports.write(values.report, [new], [old])
    regressions = reporting.regressions(new.assessments, old.assessments)
    return reporting.verdict([], {}, regressions)


def _decided(before: jaxrob.Assessment, after: jaxrob.Assessment) -> str:
    """Returns the least shares of decided images, if "unknown" answers do not count."""
    if not (before.is_of_decided or after.is_of_decided):
        return ""
    then, now = (f"{one.lowest_decided_ratio:.1%}" for one in (before, after))
    shares = f"{then} -> {now}".replace("nan%", "-")
    return f", decided at accepted levels: {shares} or more"


def read(path: str) -> Results:
    place = pathlib.Path(path)
    if not place.exists():
        raise Refused(f"{path}: there is no such folder or file")
    if place.is_dir():
        return reporting.read_results(place)
    text = place.read_text(encoding="utf-8")
    try:
        return Results(None, None, (jaxrob.Assessment.from_json(text),))
    except ValueError as error:
        raise Refused(f"{path}: {error}") from error
