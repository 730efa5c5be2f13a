"""Commands on existing results: compare, rank, report, export."""

import functools
import os
import pathlib
from collections.abc import Sequence

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.texts import readable
from jaxrob._command.define import Values
from jaxrob._command.outcomes import check_reports, write_reports
from jaxrob._command.refused import Refused, check_distinct, check_file
from jaxrob._files import write_file
from jaxrob.reporting import Results
from jaxrob.reporting._report import with_tester
from jaxrob.reporting._results import adjusted, difference_text


def run_compare(values: Values, words: Sequence[str]) -> str:
    """Compares two results, alteration by alteration, on the same images."""
    check_reports(values.report)
    old, new = map(read_results_at, words)
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
    write_reports(values.report, [new], [old])
    regressions = reporting.regressions(new.assessments, old.assessments)
    return reporting.verdict([], {}, regressions)


def _decided(before: jaxrob.Assessment, after: jaxrob.Assessment) -> str:
    """Returns the least shares of decided images, if "unknown" answers do not count."""
    if not (before.is_of_decided or after.is_of_decided):
        return ""
    then, now = (f"{one.lowest_decided_ratio:.1%}" for one in (before, after))
    shares = f"{then} -> {now}".replace("nan%", "-")
    return f", decided at accepted levels: {shares} or more"


def read_results_at(path: str) -> Results:
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


_FIGURES = (".png", ".svg", ".pdf")


def run_rank(values: Values, words: Sequence[str]) -> str:
    """Ranks the networks of results folders, and prints a table for each alteration."""
    _check_figure(values.figure)
    networks = _networks(_folders(words))
    found = reporting.ranks(networks, values.confidence_level)
    print("\n\n".join(map(reporting.rank_table, found)))
    if values.figure:
        _draw(values.figure, found)
    return ""


def _draw(path: str, found: Sequence[reporting.Ranks]) -> None:
    figure = reporting.rank_figure(found)
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(place, dpi=120)
    print(f"wrote {place}")


def _check_figure(path: str | None) -> None:
    if path is None:
        return
    if pathlib.Path(path).suffix.lower() not in _FIGURES:
        raise Refused(f"--figure={path}: it must end with {', '.join(_FIGURES)}")
    if pathlib.Path(path).is_dir():
        raise Refused(f"--figure={path}: there is a folder of that name")
    check_file("figure", path)


def _folders(words: Sequence[str]) -> list[pathlib.Path]:
    """Returns the results folders: those given, or those within the one given."""
    for word in words:
        if not pathlib.Path(word).exists():
            raise Refused(f"{word}: there is no such folder or file")
    if len(words) > 1:
        return [pathlib.Path(word) for word in words]
    place = pathlib.Path(words[0])
    if not place.is_dir():
        raise Refused(f"{place}: expected a folder; got a file")
    if (place / "results.json").exists():
        raise Refused(
            f"{place}: it holds the results of one network, which has no rank; name "
            "the results folders of several, or the folder that they are in"
        )
    inner = sorted(one.parent for one in place.glob("*/results.json"))
    if len(inner) < 2:
        raise Refused(
            f"{place}: expected the results folders of at least two networks in it; "
            f"got {len(inner)}"
        )
    return inner


def _networks(
    folders: Sequence[pathlib.Path],
) -> dict[str, tuple[jaxrob.Assessment, ...]]:
    """Returns the assessments by the network's name, or by the folder's without one."""
    found = [(folder, read_results_at(os.fspath(folder))) for folder in folders]
    named = [
        (folder, one.network or folder.resolve().name, one.assessments)
        for folder, one in found
    ]
    networks: dict[str, tuple[jaxrob.Assessment, ...]] = {}
    where: dict[str, pathlib.Path] = {}
    for folder, name, assessments in named:
        if name in networks:
            raise Refused(
                f"{where[name]} and {folder} both hold results of a network called "
                f"{name!r}; assess one of them with another --name"
            )
        if not assessments:
            raise Refused(f"{folder}: it has no assessment under an alteration")
        networks[name], where[name] = assessments, folder
    return networks


def run_report(values: Values, words: Sequence[str]) -> str:
    """Writes the report of one or more results folders."""
    paths = values.report or [str(_default_path(words[0]))]
    check_reports(paths)
    results = [
        with_tester(read_results_at(word), values.tester, values.organisation)
        for word in words
    ]
    earlier = [read_results_at(path) for path in values.earlier]
    write_reports(paths, results, earlier)
    return ""


def _default_path(word: str) -> pathlib.Path:
    """Returns the default path of the report: in the folder."""
    place = pathlib.Path(word)
    return (place if place.is_dir() else place.parent) / "report.html"


_FORMS = {
    "csv": reporting.to_csv,
    "levels_csv": functools.partial(reporting.to_csv, rows="levels"),
    "roma_csv": functools.partial(reporting.to_csv, rows="roma"),
    "latex": reporting.to_latex,
}


def run_export(values: Values, words: Sequence[str]) -> str:
    """Writes the results of one or more folders to the files that the flags name."""
    given = {name: getattr(values, name) for name in _FORMS}
    wanted: dict[str, str] = {name: path for name, path in given.items() if path}
    if not wanted:
        raise Refused(
            f"expected one of {', '.join(f'--{name}=...' for name in _FORMS)}"
        )
    check_distinct(list(wanted.items()))
    for name, path in wanted.items():
        check_file(name, path)
    results = [read_results_at(word) for word in words]
    # Everything is made before anything is written.
    texts = {wanted[name]: _FORMS[name](results) for name in wanted}
    for path, text in texts.items():
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        print(f"wrote {path}")
    return ""
