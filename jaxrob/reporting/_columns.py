"""Results as columns: of frames, CSV, LaTeX, trackers and the printed table."""

import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import check_choice, check_type
from jaxrob._arguments.messages import wrong_type
from jaxrob._arguments.texts import required
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison
from jaxrob._curve import ScoreCurve
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._results import Results, sizes
from jaxrob.reporting._words import Corruptions, corruptions
from jaxrob.roma import RomaResult

Result = Assessment | RomaResult | Comparison | Results
Row = Mapping[str, Any]
#: Columns that take seconds where there are many images.
OF_CORRUPTIONS = ("corruption_error", "relative_to_alexnet", "mce")


def to_frame(results: Result | Sequence[Result], rows: str = "results") -> Any:
    """Returns results as a frame of pandas.

    Example::

        frame = reporting.to_frame(found)
        levels = reporting.to_frame(found, rows="levels")
        levels.pivot(index="level", columns="alteration", values="value").plot()

    Levels are in the unit that the row says. Shares such as the robustness lie in
    [0, 1], `seconds` are seconds. Corruptions by severity have `corruption_error`,
    `relative_to_alexnet` and `mce`, of the assessments given together. What is not
    known is NaN (a text None), and `status` says why. Texts are as they were given.

    Args:
      results: one result, the `Results` of a network, or a sequence of such, also of
        several networks.
      rows: what a row is. "results": an assessment. "levels": a level of an assessment,
        with the value of the measure, its pointwise interval (see
        `jaxrob.metrics.bands`) and the numbers of answers. "roma": a `RomaResult`, its
        means over the inputs. "comparisons": a `jaxrob.Comparison`. Results of another
        kind are left out.

    Returns:
      A `pandas.DataFrame`, its columns the same for every result.

    Raises:
      ImportError: if pandas is missing.
      TypeError: if something is no result.
      ValueError: if there is no such kind of rows, or no result has such.
    """
    found = rows_of(results, rows)
    pandas = required("pandas", "a frame", "frames")
    return pandas.DataFrame(found, columns=[*_ROWS[rows][1]])


def to_csv(results: Result | Sequence[Result], rows: str = "results") -> str:
    r"""Returns results as CSV, with the columns, arguments and errors of `to_frame`.

    Numbers are written in full: `pandas.read_csv(..., float_precision="round_trip")`
    reads them to the bit. What is not known is an empty cell. Texts are in quotation
    marks, and none is taken for a formula: before those that begin with =, +, - or @
    (also after spaces, or in full width) or with an apostrophe, there is an apostrophe,
    as OWASP advises. Control characters, line breaks and marks that reverse the
    direction of writing are spelt out, such as \u202e. Different texts stay different.
    pandas takes texts for numbers where a whole column looks like numbers:
    `dtype={"network": str}` prevents it.
    """
    found = rows_of(results, rows)
    return csv_text(found[0], [row.values() for row in found])


def to_latex(results: Result | Sequence[Result]) -> str:
    r"""Returns assessments as a table of LaTeX, which needs `\usepackage{booktabs}`.

    It has a row for each assessment: alteration and range, what is accepted, the
    robustness in per cent (or "undecided"), its error bound because of few levels, its
    interval because of few images, and how many levels and images there were. Of
    several networks, the first column is the network. Every special character of a name
    is escaped, so that it is typeset and runs nothing.

    Args:
      results: as in `to_frame`; those that are no assessments are left out.

    Returns:
      A `tabular` with a newline at its end.

    Raises:
      TypeError: if something is no result.
      ValueError: if there is no assessment.
    """
    found = rows_of(results, "results", OF_CORRUPTIONS)
    several = len({(row["network"], row["network_digest"]) for row in found}) > 1
    heads, *cells = [_HEADS, *map(_cells, found)]
    if not several:
        heads, *cells = [row[1:] for row in (heads, *cells)]
    lines = [
        rf"\begin{{tabular}}{{{'l' * (3 + several)}rrrrr}}",
        r"\toprule",
        rf"{' & '.join(heads)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in cells),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def rows_of(results: Any, rows: str, without: Collection[str] = ()) -> list[Row]:
    """Returns the rows of a kind: values of Python by the columns' names."""
    check_choice("rows", rows, _ROWS)
    kind, columns = _ROWS[rows]
    getters = {name: get for name, get in columns.items() if name not in without}
    subjects = list(_subjects(results))
    found = [
        row
        for subject in subjects
        if isinstance(subject.one, kind)
        for row in _rows(subject, getters, rows == "levels")
    ]
    if not found:
        kinds = sorted({type(subject.one).__name__ for subject in subjects})
        raise ValueError(
            f"results must hold one with rows of {rows!r}; got "
            f"{', '.join(kinds) or 'none'}"
        )
    return found


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Returns rows of numbers, texts, booleans and None as CSV, texts made harmless."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            [cell(value) if isinstance(value, str) else value for value in row]
        )
    return stream.getvalue()


def plain(value: Any) -> Any:
    """Returns a number of Python's; None for NaN, which is not known."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


_of = operator.attrgetter


def _own(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Returns columns that are called as the fields of the result."""
    return {name: _of(f"one.{name}") for name in names}


# Of each kind of rows the results that have such, and their columns: functions of a
# `_Subject`. Where a result has several rows, they give an array or one for all.
_ROWS: dict[str, tuple[type[Any], dict[str, Callable[[Any], Any]]]] = {
    "results": (
        Assessment,
        {
            "network": _of("network"),
            **_own("alteration", "unit", "lower", "upper", "identity", "measure"),
            **_own("threshold"),
            "alpha": _of("one.curve.alpha"),
            **_own("robustness"),
            "status": _of("status"),
            **_own("error_bound"),
            "interval_low": _of("one.confidence_interval.low"),
            "interval_high": _of("one.confidence_interval.high"),
            **_own("confidence_level"),
            "dataset_low": _of("one.dataset_interval.low"),
            "dataset_high": _of("one.dataset_interval.high"),
            "decided_ratio": _of("one.lowest_decided_ratio"),
            "unaltered": _of("unaltered"),
            "lowest": lambda it: it.one.values[worst(it.one)],
            "lowest_at": lambda it: it.one.levels[worst(it.one)],
            "corruption_error": lambda it: it.errors[0],
            "relative_to_alexnet": lambda it: it.errors[1],
            "mce": lambda it: it.errors[2],
            "levels": _of("one.diagnostics.points"),
            "images": lambda it: sizes(it.one)[1],
            **_own("evaluations", "seconds", "strategy", "rule"),
            "labels": lambda it: it.source.get("labels"),
            "warnings": lambda it: len((*it.one.warnings, *it.one.diagnostics.signs)),
            "dataset": lambda it: it.source.get("name"),
            "network_digest": lambda it: it.one.provenance.get("classifier"),
            "dataset_digest": lambda it: it.source.get("fingerprint"),
        },
    ),
    "levels": (
        Assessment,
        {
            "network": _of("network"),
            **_own("alteration", "unit"),
            "level": _of("one.levels"),
            **_own("measure"),
            "value": _of("one.values"),
            "value_low": lambda it: it.band[0],
            "value_high": lambda it: it.band[1],
            **_own("confidence_level", "threshold"),
            "accepted": lambda it: it.one.values >= it.one.threshold,
            "accuracy": lambda it: it.share("accuracy"),
            "decided_ratio": lambda it: it.share("decided_ratio"),
            "effectiveness": lambda it: it.share("effectiveness"),
            "right": lambda it: it.answers and it.answers.correct,
            "wrong": lambda it: it.answers and it.answers.decided - it.answers.correct,
            "unknown": lambda it: it.answers and it.answers.unknown,
            "inputs": lambda it: it.one.counts.inputs.sum(-1),
        },
    ),
    "roma": (
        RomaResult,
        {
            "network": _of("network"),
            **_own("perturbation", "epsilon", "delta", "estimator", "mean_plr"),
            "mean_plr_low": lambda it: it.one.mean_plr_interval[0],
            "mean_plr_high": lambda it: it.one.mean_plr_interval[1],
            **_own("mean_low", "confidence_level"),
            "inputs": lambda it: len(it.one.status),
            "answered": lambda it: it.one.answered.sum(),
            **_own("num_samples"),
            "evaluations": lambda it: it.one.evaluations.sum(),
            "labels": lambda it: "predicted" if it.one.labels is None else "given",
            "warnings": lambda it: len(it.one.warnings),
        },
    ),
    # The first network less the second; whose they are is not known.
    "comparisons": (
        Comparison,
        {
            **_own("difference"),
            "interval_low": _of("one.confidence_interval.low"),
            "interval_high": _of("one.confidence_interval.high"),
            **_own("p_value", "mean_difference"),
            "mean_low": _of("one.mean_interval.low"),
            "mean_high": _of("one.mean_interval.high"),
            **_own("mean_p_value", "confidence_level"),
            "shared_levels": lambda it: len(it.one.levels),
        },
    ),
}


@dataclasses.dataclass(frozen=True)
class _Subject:
    """A result of a network, and what several of its columns are made of."""

    network: str | None
    one: Any
    corruptions: Callable[[], Corruptions | None]  # of its network's assessments

    @property
    def source(self) -> Mapping[str, Any]:
        return self.one.provenance.get("dataset") or {}

    @property
    def status(self) -> str:
        if self.one.undecided.any():
            return "undecided"
        return "known" if self.one.sampling is None else self.one.sampling.status

    @property
    def unaltered(self) -> Any:
        at = self.one.levels == self.one.identity
        return self.one.values[at.argmax()] if at.any() else None

    @property
    def errors(self) -> Sequence[float | None]:
        """The corruption error, the one relative to AlexNet's, and mCE."""
        beside = self.corruptions()
        if beside is not None:
            for row in beside.rows:
                if row.name == self.one.alteration:
                    errors = row.error, row.relative_to_alexnet, beside.mce
                    return [error and error.value for error in errors]
        return None, None, None

    @functools.cached_property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        one = self.one
        return metrics.bands(one.counts, one.measure, one.confidence_level)

    @functools.cached_property
    def answers(self) -> metrics.Counts | None:
        """The numbers of answers at each level; None of a score."""
        curve = self.one.curve
        return None if isinstance(curve, ScoreCurve) else curve.counts.summed()

    def share(self, name: str) -> np.ndarray | None:
        return self.answers and metrics.measures[name](self.one.curve.counts)


def worst(one: Assessment) -> int:
    return int(np.where(np.isnan(one.values), np.inf, one.values).argmin())


def _rows(
    subject: _Subject, getters: Mapping[str, Callable[[Any], Any]], of_levels: bool
) -> Iterator[Row]:
    number = len(subject.one.levels) if of_levels else 1
    values = [get(subject) for get in getters.values()]
    columns = [
        np.ravel(value) if isinstance(value, np.ndarray) else [value] * number
        for value in values
    ]
    for row in zip(*columns):
        yield dict(zip(getters, map(plain, row)))


def _subjects(results: Any) -> Iterator[_Subject]:
    if isinstance(results, Result):
        results = [results]
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise wrong_type("results", _WANTED, results)
    for one in results:
        check_type("results", one, Result, _WANTED)
    for (network, _), some in itertools.groupby(results, _owner):
        group = [each for one in some for each in _parts(one)]
        assessments = [one for one in group if isinstance(one, Assessment)]
        beside = functools.cache(functools.partial(corruptions, assessments))
        for one in group:
            yield _Subject(network or _owner(one)[0], one, beside)


def _parts(one: Any) -> list[Any]:
    if not isinstance(one, Results):
        return [one]
    return [*one.assessments, *filter(None, [one.roma])]


def _owner(one: Any) -> tuple[str | None, Any]:
    """Returns the name of a result's network, and what tells it from others."""
    if isinstance(one, Results):
        return one.network, id(one)
    source = one.provenance if isinstance(one, Assessment) else {}
    return (source.get("network") or {}).get("name"), source.get("classifier")


_WANTED = (
    "a jaxrob.Assessment, jaxrob.roma.RomaResult, jaxrob.Comparison or "
    "jaxrob.reporting.Results, or a sequence of these"
)


_HEADS = (
    *("Network", "Alteration", "Range", "Accepted"),
    *("Robustness", "Error bound", "Interval", "Levels", "Images"),
)


def _cells(row: Row) -> tuple[str, ...]:
    """Returns a row of the table of LaTeX."""

    def percent(share: float | None) -> str:
        # A number in mathematics, so that its minus is one.
        return rf"${100 * (math.nan if share is None else share):.1f}$\,\%"

    alpha, bound, robustness = row["alpha"], row["error_bound"], row["robustness"]
    return (
        "--" if row["network"] is None else latex(row["network"]),
        latex(row["alteration"]),
        f"{{}}[${row['lower']:.4g}$, ${row['upper']:.4g}$]"
        + f" {latex(row['unit'])}" * bool(row["unit"]),
        rf"{latex(in_words(row['measure']))} $\geq {row['threshold']:g}$"
        + ("" if alpha is None else rf", $\alpha = {alpha:g}$"),
        row["status"] if robustness is None else percent(robustness),
        "--" if bound is None else rf"$\pm {100 * bound:.1f}$\,\%",
        f"{percent(row['interval_low'])} to {percent(row['interval_high'])}",
        f"{row['levels']}",
        f"{row['images']}",
    )


_INVISIBLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
# Words that a name for loggers may consist of, and the digest that others end with.
_SIMPLE = re.compile(r"[a-z][a-z0-9]*( [a-z0-9]+)*")
_DIGEST = re.compile(r"(.* )?[0-9a-f]{16}")
_MOST_SIMPLE, _MOST_STEM = 64, 40
_ESCAPES = {
    **{one: rf"\{one}" for one in "{}$&#%_"},
    # These would be options of a rule or a new line, or form ligatures.
    **{one: f"{{{one}}}" for one in "[]*-,?!"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
}
# Letters that join to one sign.
_LIGATURES = re.compile("(?<=f)(?=[fil])")


def escaped(text: str) -> str:
    r"""Returns a text with invisible characters as \u0007; no two texts become one."""
    # Line breaks, control characters and those that reverse writing are invisible. A
    # backslash before a "u" is written \u005c, so that it is no escape.
    text = re.sub(r"\\(?=[uU])", r"\\u005c", text)
    return "".join(
        (r"\u%04x" if ord(one) < 0x10000 else r"\U%08x") % ord(one)
        if unicodedata.category(one) in _INVISIBLE
        else one
        for one in text
    )


def cell(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula."""
    # As OWASP advises, an apostrophe comes before =, +, - or @, also after spaces or in
    # full width; and before an apostrophe, so that no two texts become one.
    text = escaped(text)
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])[:1]
    return f"'{text}" if first and first in "=+-@'" else text


def latex(text: str) -> str:
    """Returns a text as LaTeX that typesets it, and runs no command."""
    # Letters beyond ASCII stay: XeLaTeX and LuaLaTeX typeset all that their font has,
    # pdfLaTeX those of European languages.
    text = _LIGATURES.sub("\0", escaped(text))
    # TeX would make one space of several, and drop those at an end.
    text = re.sub("^ +| +$| {2,}", lambda found: "\0" * 2 * len(found[0]), text)
    found = "".join(_ESCAPES.get(one, one) for one in text)
    return found.replace("\0\0", "{ }").replace("\0", "{}")


def log_name(text: str) -> str:
    """Returns a name of a-z, 0-9 and "_" that every logger and file system takes."""
    # Words of small letters keep their name: "gaussian blur" is "gaussian_blur". Other
    # texts end with a digest, so that no two become one.
    simple = _SIMPLE.fullmatch(text) and len(text) <= _MOST_SIMPLE
    if simple and not _DIGEST.fullmatch(text):
        return text.replace(" ", "_")
    stem = re.sub("[^a-z0-9]+", "_", text.lower()).strip("_")[:_MOST_STEM]
    stem = stem if stem[:1].isalpha() else f"x_{stem}".rstrip("_")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{stem}_{digest}"
