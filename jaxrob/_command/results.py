"""Reports and other files of results, and the commands on results that are there."""

import contextlib
import functools
import os
import pathlib
from collections.abc import Sequence

import jax

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.texts import counted, readable, warn
from jaxrob._arguments.texts import required as installed
from jaxrob._command.define import (
    Refused,
    Values,
    check_distinct,
    check_file,
    did_you_mean,
)
from jaxrob._command.subject import Subject
from jaxrob._devices.mesh import is_first
from jaxrob._files import not_written, write_file
from jaxrob.metrics import ALEXNET
from jaxrob.reporting import Requirement, Results
from jaxrob.reporting._columns import log_name
from jaxrob.reporting._exports import check_empty
from jaxrob.reporting._gate import beside_assessments
from jaxrob.reporting._report import with_tester
from jaxrob.reporting._results import adjusted, counterparts, difference_text

_REPORTS = {".html": "to_html", ".htm": "to_html", ".md": "to_markdown"}


def check_reports(paths: Sequence[str]) -> None:
    for path in paths:
        check_file("report", path, *_REPORTS)
    if paths:
        installed("PIL", "--report", "command")


def write_reports(
    paths: Sequence[str], results: Sequence[Results], earlier: Sequence[Results] = ()
) -> None:
    for path in map(pathlib.Path, paths):
        make = getattr(reporting, _REPORTS[path.suffix.lower()])
        _write(path, make(results, earlier))


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())
    print(f"wrote {path}")


def required(texts: Sequence[str], quantities: Sequence[str]) -> list[Requirement]:
    try:
        return [reporting.requirement(text, quantities) for text in texts]
    except ValueError as error:
        raise Refused(f"--require: {str(error).removeprefix('text: ')}") from error


def check_required(
    said_by: str,
    requirements: Sequence[Requirement],
    names: Sequence[str],
    values: Values,
) -> None:
    for one in requirements:
        if not any(map(one.is_of, names)):
            raise Refused(
                f"{said_by}: {one.alteration!r} is not assessed."
                f"{did_you_mean(one.alteration or '', names)} There are: "
                f"{', '.join(names)}"
            )
        if one.quantity == "difference" and not values.earlier:
            raise Refused(
                f"{said_by}: difference is to an earlier result; name its folder with "
                "--earlier"
            )
        if one.quantity.startswith("worst_slice") and not values.slices:
            raise Refused(
                f"{said_by}: {one.quantity} is of the values of a column; name it with "
                "--slices"
            )
        if one.quantity == "mce" and (lacking := sorted(ALEXNET.keys() - set(names))):
            raise Refused(
                f"{said_by}: mce is of all corruptions of imagenet_c; not assessed: "
                f"{', '.join(lacking)}"
            )


def check_outcomes(values: Values) -> None:
    named = [(one, values[one].value) for one in ("junit", "summary")]
    files = [(flag, path) for flag, path in named if path is not None]
    check_distinct([*(("report", one) for one in dict.fromkeys(values.report)), *files])
    for flag, path in files:
        check_file(flag, path)


def write_outcomes(values: Values, results: Results) -> None:
    if not is_first():
        return
    if values.junit is not None:
        _write(pathlib.Path(values.junit), reporting.to_junit(results))
    if values.summary is not None:
        path = pathlib.Path(values.summary)
        path.parent.mkdir(parents=True, exist_ok=True)
        where = values.report[0] if values.report else None
        _append(path, reporting.to_summary(results, where).encode())
        print(f"wrote {path}")


def _append(path: pathlib.Path, content: bytes) -> None:
    """Appends to a file, completely or not at all: other steps write there too."""
    with open(path, "ab", buffering=0) as file:
        # A pipe has no end.
        before = file.seek(0, os.SEEK_END) if file.seekable() else 0
        # A heading begins after an empty line.
        left = memoryview(b"\n" * bool(before) + content)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException as error:
            with contextlib.suppress(OSError):
                file.truncate(before)
            if isinstance(error, OSError):
                raise not_written(path, error) from error
            raise


def check_failing(values: Values) -> None:
    if values.failing is None:
        return
    if values.half_width is not None or values.budget is not None or values.curtail:
        raise Refused(
            "--failing needs the answer on every picture; leave out --half_width, "
            "--budget and --curtail"
        )
    installed("PIL", "--failing", "command")
    try:
        check_empty(pathlib.Path(values.failing))
    except FileExistsError as error:
        raise Refused(
            f"--failing={values.failing}: it must be empty, or not there yet; choose "
            "another folder"
        ) from error


def write_failing_pictures(
    values: Values,
    found: Subject,
    altered: Sequence[jaxrob.Alteration],
    results: Results,
) -> None:
    for assessment, one in zip(results.assessments, altered):
        folder = pathlib.Path(values.failing, log_name(one.name))
        number = reporting.write_failing(
            folder,
            assessment,
            one,
            found.dataset,
            jax.random.key(values.seed),
            class_names=found.class_names,
        )
        fails = "fails" if number == 1 else "fail"
        print(f"wrote {folder}/: {counted(number, 'picture')} that {fails} first")


def run_compare(values: Values, words: Sequence[str]) -> str:
    check_reports(values.report)
    old, new = map(read_results_at, words)
    for name in beside_assessments(old):
        warn(f"{words[0]}: {name} is not compared")
    pairs, found = [], []
    for before in old.assessments:
        now, *others = counterparts(before, new.assessments) or [None]
        if now is None or others:
            number = "several assessments" if others else "no assessment"
            raise Refused(f"{words[1]} has {number} of {before.alteration}")
        try:
            found.append(jaxrob.compare(now, before, now.confidence_level))
        except ValueError as error:
            raise Refused(f"{before.alteration}: {error}") from error
        pairs.append((before, now))
    lines = [
        f"{old_one.alteration}: {old_one.robustness:.2%} -> {new_one.robustness:.2%}, "
        f"{difference_text(one)}{_decided(old_one, new_one)}"
        for (old_one, new_one), one in zip(pairs, adjusted(found))
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
    if values.figure is not None:
        check_file("figure", values.figure, *_FIGURES)
    found = reporting.ranks(_networks(_folders(words)), values.confidence_level)
    print("\n\n".join(map(reporting.rank_table, found)))
    if values.figure:
        place = pathlib.Path(values.figure)
        place.parent.mkdir(parents=True, exist_ok=True)
        reporting.rank_figure(found).savefig(place, dpi=120)
        print(f"wrote {place}")
    return ""


def _folders(words: Sequence[str]) -> list[pathlib.Path]:
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
    networks: dict[str, tuple[jaxrob.Assessment, ...]] = {}
    where: dict[str, pathlib.Path] = {}
    for folder in folders:
        results = read_results_at(os.fspath(folder))
        name = results.network or folder.resolve().name
        if name in networks:
            raise Refused(
                f"{where[name]} and {folder} both hold results of a network called "
                f"{name!r}; assess one of them with another --name"
            )
        if not results.assessments:
            raise Refused(f"{folder}: it has no assessment under an alteration")
        networks[name], where[name] = results.assessments, folder
    return networks


def run_report(values: Values, words: Sequence[str]) -> str:
    first = pathlib.Path(words[0])
    folder = first if first.is_dir() else first.parent
    paths = values.report or [str(folder / "report.html")]
    check_reports(paths)
    results = [
        with_tester(read_results_at(word), values.tester, values.organisation)
        for word in words
    ]
    write_reports(paths, results, [read_results_at(path) for path in values.earlier])
    return ""


_FORMS = {
    "csv": reporting.to_csv,
    "levels_csv": functools.partial(reporting.to_csv, rows="levels"),
    "roma_csv": functools.partial(reporting.to_csv, rows="roma"),
    "latex": reporting.to_latex,
}


def run_export(values: Values, words: Sequence[str]) -> str:
    given = {name: getattr(values, name) for name in _FORMS}
    wanted: dict[str, str] = {name: path for name, path in given.items() if path}
    if not wanted:
        raise Refused(f"expected one of {', '.join(f'--{one}=...' for one in _FORMS)}")
    check_distinct(list(wanted.items()))
    for name, path in wanted.items():
        check_file(name, path)
    results = [read_results_at(word) for word in words]
    # Everything is made before anything is written.
    texts = {wanted[name]: _FORMS[name](results) for name in wanted}
    for path, text in texts.items():
        _write(pathlib.Path(path), text)
    return ""
