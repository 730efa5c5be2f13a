"""Results as columns: of frames, CSV, LaTeX, trackers and the printed table."""

import csv
import functools
import hashlib
import io
import itertools
import json
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import check_choice, checked_integer, checked_sequence
from jaxrob._arguments.extra import install
from jaxrob._arguments.naming import wrong_type
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison
from jaxrob._files.strict_json import short
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._results import Results, sizes
from jaxrob.reporting._words import corruptions
from jaxrob.roma import RomaResult

Result = Assessment | RomaResult | Comparison | Results
Row = Mapping[str, Any]
_of = operator.attrgetter
_WANTED = (
    "a jaxrob.Assessment, jaxrob.roma.RomaResult, jaxrob.Comparison or "
    "jaxrob.reporting.Results, or a sequence of these"
)


class Column(NamedTuple):
    """A column. Where a result has several rows, it gets an array or one for all."""

    name: str
    meaning: str
    get: Callable[[Any], Any]


class _Found(NamedTuple):
    """A result, and its place among those of its network."""

    network: str | None
    one: Any
    beside: Callable[[], Any]

    @property
    def source(self) -> Mapping[str, Any]:
        return self.one.provenance.get("dataset") or {}

    @property
    def errors(self) -> Sequence[float | None]:
        """The corruption error, the one relative to AlexNet's, and mCE."""
        beside = self.beside()
        for row in beside.rows if beside else ():
            if row.name == self.one.alteration:
                found = row.error, row.relative_to_alexnet, beside.mce
                return [one and one.value for one in found]
        return None, None, None


class _Levels(NamedTuple):
    """An assessment's levels, and the counts of their answers; None of a score."""

    network: str | None
    one: Assessment
    curve: Any
    band: tuple[np.ndarray, np.ndarray]
    answers: metrics.Counts | None

    def share(self, name: str) -> np.ndarray | None:
        return self.answers and metrics.measures[name](self.curve.counts)


def worst(one: Assessment) -> int:
    return int(np.where(np.isnan(one.values), np.inf, one.values).argmin())


def _value(one: Assessment, level: float) -> Any:
    at = np.flatnonzero(one.levels == level)
    return one.values[at[0]] if len(at) else None


def _status(one: Assessment) -> str:
    if one.undecided.any():
        return "undecided"
    return "known" if one.sampling is None else one.sampling.status


_RESULTS = (
    Column("network", "the network's name", _of("network")),
    Column("alteration", "the alteration's name", _of("one.alteration")),
    Column("unit", "of its levels", _of("one.unit")),
    Column("lower", "the lowest plausible level", _of("one.lower")),
    Column("upper", "the highest", _of("one.upper")),
    Column("identity", "the level of no change", _of("one.identity")),
    Column("measure", "the quality measure", _of("one.measure")),
    Column("threshold", "its lowest accepted value", _of("one.threshold")),
    Column("alpha", 'confidence below it is "unknown"', _of("one.curve.alpha")),
    Column("robustness", "in [0, 1]", _of("one.robustness")),
    Column("status", '"known", or how it ended', lambda it: _status(it.one)),
    Column("error_bound", "because of few levels", _of("one.error_bound")),
    Column("interval_low", "because of few images", _of("one.confidence_interval.low")),
    Column("interval_high", "its upper end", _of("one.confidence_interval.high")),
    Column("confidence_level", "its coverage", _of("one.confidence_level")),
    Column("dataset_low", "the lowest on all images", _of("one.dataset_interval.low")),
    Column("dataset_high", "the highest", _of("one.dataset_interval.high")),
    Column("decided_ratio", "lowest where accepted", _of("one.lowest_decided_ratio")),
    Column(
        "unaltered", "the measure there", lambda it: _value(it.one, it.one.identity)
    ),
    Column(
        "lowest", "the measure at its worst", lambda it: it.one.values[worst(it.one)]
    ),
    Column("lowest_at", "that level", lambda it: it.one.levels[worst(it.one)]),
    Column("corruption_error", "over severities 1 to 5", lambda it: it.errors[0]),
    Column("relative_to_alexnet", "the same", lambda it: it.errors[1]),
    Column("mce", "its mean over the fifteen", lambda it: it.errors[2]),
    Column("levels", "how many were evaluated", _of("one.diagnostics.points")),
    Column("images", "how many count", lambda it: sizes(it.one)[1]),
    Column("evaluations", "altered images classified", _of("one.evaluations")),
    Column("seconds", "that the answers took", _of("one.seconds")),
    Column("strategy", "what chose the levels", _of("one.strategy")),
    Column("rule", "how the integral was taken", _of("one.rule")),
    Column("labels", '"given" or "own answers"', lambda it: it.source.get("labels")),
    Column(
        "warnings",
        "how many",
        lambda it: len(it.one.warnings) + len(it.one.diagnostics.signs),
    ),
    Column("dataset", "the data set's name", lambda it: it.source.get("name")),
    Column(
        "network_digest",
        "of the network",
        lambda it: it.one.provenance.get("classifier"),
    ),
    Column(
        "dataset_digest",
        "of images and labels",
        lambda it: it.source.get("fingerprint"),
    ),
)
_LEVELS = (
    Column("network", "the network's name", _of("network")),
    Column("alteration", "the alteration's name", _of("one.alteration")),
    Column("unit", "of the level", _of("one.unit")),
    Column("level", "the level", _of("one.levels")),
    Column("measure", "the quality measure", _of("one.measure")),
    Column("value", "its value there", _of("one.values")),
    Column("value_low", "of its interval at this level alone", lambda it: it.band[0]),
    Column("value_high", "the upper end", lambda it: it.band[1]),
    Column("confidence_level", "the interval's coverage", _of("one.confidence_level")),
    Column("threshold", "the lowest accepted value", _of("one.threshold")),
    Column(
        "accepted", "if at least that", lambda it: it.one.values >= it.one.threshold
    ),
    Column("accuracy", "right of the decided", lambda it: it.share("accuracy")),
    Column(
        "decided_ratio", "decided ones of all", lambda it: it.share("decided_ratio")
    ),
    Column("effectiveness", "right ones of all", lambda it: it.share("effectiveness")),
    Column("right", "how many answers", lambda it: it.answers and it.answers.correct),
    Column(
        "wrong",
        "how many",
        lambda it: it.answers and it.answers.decided - it.answers.correct,
    ),
    Column("unknown", "how many", lambda it: it.answers and it.answers.unknown),
    Column("inputs", "images looked at", lambda it: it.one.counts.inputs.sum(-1)),
)
_ROMA = (
    Column("network", "the network's name", _of("network")),
    Column("perturbation", "what images are drawn from", _of("one.perturbation")),
    Column("epsilon", "its radius", _of("one.epsilon")),
    Column("delta", "the least confidence of an answer", _of("one.delta")),
    Column("estimator", "how it was estimated", _of("one.estimator")),
    Column("mean_plr", "over the inputs", _of("one.mean_plr")),
    Column("mean_plr_low", "of its interval", lambda it: it.one.mean_plr_interval[0]),
    Column("mean_plr_high", "the upper end", lambda it: it.one.mean_plr_interval[1]),
    Column("mean_low", "of the inputs' lower ends", _of("one.mean_low")),
    Column("confidence_level", "the intervals' coverage", _of("one.confidence_level")),
    Column("inputs", "how many", lambda it: len(it.one.status)),
    Column("answered", "how many have an answer", lambda it: it.one.answered.sum()),
    Column("num_samples", "plain draws for each input", _of("one.num_samples")),
    Column("evaluations", "forward passes", lambda it: it.one.evaluations.sum()),
    Column(
        "labels",
        "what categories are",
        lambda it: "given" if it.one.labels is not None else "predicted",
    ),
    Column("warnings", "how many", lambda it: len(it.one.warnings)),
)
# The first network less the second; whose they are is not known.
_COMPARISONS = (
    Column("difference", "in robustness", _of("one.difference")),
    Column("interval_low", "of that", _of("one.confidence_interval.low")),
    Column("interval_high", "the upper end", _of("one.confidence_interval.high")),
    Column("p_value", "of the difference", _of("one.p_value")),
    Column("mean_difference", "of the mean over the range", _of("one.mean_difference")),
    Column("mean_low", "of that", _of("one.mean_interval.low")),
    Column("mean_high", "the upper end", _of("one.mean_interval.high")),
    Column("mean_p_value", "of the mean difference", _of("one.mean_p_value")),
    Column("confidence_level", "the intervals' coverage", _of("one.confidence_level")),
    Column("shared_levels", "how many", lambda it: len(it.one.levels)),
)

#: Columns that take seconds where there are many images.
OF_CORRUPTIONS = ("corruption_error", "relative_to_alexnet", "mce")
#: Of each kind of rows the results that have such, and the columns.
ROWS: dict[str, tuple[type[Any], tuple[Column, ...]]] = {
    "results": (Assessment, _RESULTS),
    "levels": (Assessment, _LEVELS),
    "roma": (RomaResult, _ROMA),
    "comparisons": (Comparison, _COMPARISONS),
}


def to_frame(results: Result | Sequence[Result], rows: str = "results") -> Any:
    """Returns results as a frame of pandas.

    Example::

        found = jaxrob.assess(classifier, dataset, [blur, noise], key=key)
        frame = reporting.to_frame(found)
        levels = reporting.to_frame(found, rows="levels")
        levels.pivot(index="level", columns="alteration", values="value").plot()

    Levels are in the unit that the row says. Shares such as the robustness lie in
    [0, 1], `seconds` are seconds. Corruptions by severity have `corruption_error`,
    `relative_to_alexnet` and `mce`, of the assessments given together. What is not
    known is NaN (a text None), and `status` says why. Numbers are those of the result,
    to the bit. Texts are as they were given: `to_csv` makes them harmless for
    spreadsheets.

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
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            f"frames need pandas: {install('frames')}; "
            "jaxrob.reporting.to_csv needs nothing"
        ) from error
    return pandas.DataFrame(found, columns=_names(rows))


def to_csv(results: Result | Sequence[Result], rows: str = "results") -> str:
    r"""Returns results as CSV, with the columns of `to_frame`.

    Example::

        pathlib.Path("results.csv").write_text(reporting.to_csv(found), "utf-8")
        frame = pandas.read_csv("results.csv", float_precision="round_trip")

    Numbers are written in full. `float_precision="round_trip"` reads them to the bit;
    from 3.1 on pandas does so without it, and warns of it.
    What is not known is an empty cell. Texts are in quotation marks, and none is taken
    for a formula: before those that begin with =, +, - or @ (also after spaces, or in
    full width) or with an apostrophe, there is an apostrophe, as OWASP advises. Control
    characters, line breaks and marks that reverse the direction of writing are spelt
    out, such as \u202e. Different texts stay different. pandas takes texts for numbers
    where a whole column looks like numbers: `dtype={"network": str}` prevents it.

    Args:
      results: as in `to_frame`.
      rows: as in `to_frame`.

    Returns:
      The text. Its lines end with a newline character.

    Raises:
      TypeError: if something is no result.
      ValueError: if there is no such kind of rows, or no result has such.
    """
    return csv_text(_names(rows), [row.values() for row in rows_of(results, rows)])


def to_latex(results: Result | Sequence[Result]) -> str:
    r"""Returns assessments as a table of LaTeX, which needs `\usepackage{booktabs}`.

    It has a row for each assessment: alteration and range, what is accepted, the
    robustness in per cent (or "undecided"), its error bound because of few levels, its
    interval because of few images, and how many levels and images there were. Of
    several networks, the first column is the network. Every special character of a name
    is escaped, so that it is typeset and runs nothing.

    Example::

        pathlib.Path("table.tex").write_text(reporting.to_latex(found), "utf-8")

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
    heads = [head for head in _LATEX if several or head != "Network"]
    texts = 4 if several else 3
    lines = [
        rf"\begin{{tabular}}{{{'l' * texts}{'r' * (len(heads) - texts)}}}",
        r"\toprule",
        rf"{' & '.join(heads)} \\",
        r"\midrule",
        *(rf"{' & '.join(_LATEX[head](row) for head in heads)} \\" for row in found),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def rows_of(results: Any, rows: str, without: Collection[str] = ()) -> list[Row]:
    """Returns the rows of a kind: values of Python by the columns' names."""
    check_choice("rows", rows, ROWS)
    kind = ROWS[rows][0]
    groups = list(_groups(results))
    wanted = [
        row
        for network, some in groups
        for row in _rows(
            network, [one for one in some if isinstance(one, kind)], rows, without
        )
    ]
    if not wanted:
        found = sorted({type(one).__name__ for _, some in groups for one in some})
        raise ValueError(
            f"results must hold one with rows of {rows!r}; got "
            f"{', '.join(found) or 'none'}"
        )
    return wanted


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


def _names(rows: str) -> list[str]:
    check_choice("rows", rows, ROWS)
    return [one.name for one in ROWS[rows][1]]


def _rows(
    network: str | None, some: Sequence[Any], rows: str, without: Collection[str]
) -> Iterator[Row]:
    columns = [one for one in ROWS[rows][1] if one.name not in without]
    names, getters = zip(*((one.name, one.get) for one in columns))
    beside = functools.cache(lambda: corruptions(some))
    for one in some:
        name = network or _name(one)
        found = _Found(name, one, beside)
        if rows == "levels":
            band = metrics.bands(one.counts, one.measure, one.confidence_level)
            scored = isinstance(one.curve, ScoreCurve)
            answers = None if scored else one.curve.counts.summed()
            found = _Levels(name, one, one.curve, band, answers)
        number = len(one.levels) if rows == "levels" else 1
        values = [get(found) for get in getters]
        several = [
            np.ravel(value) if isinstance(value, np.ndarray) else [value] * number
            for value in values
        ]
        for row in zip(*several):
            yield dict(zip(names, map(plain, row)))


def _groups(results: Any) -> Iterator[tuple[str | None, list[Any]]]:
    if isinstance(results, Assessment | RomaResult | Comparison | Results):
        results = [results]
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise wrong_type("results", _WANTED, results)
    for one in results:
        if not isinstance(one, Result):
            raise wrong_type("results", _WANTED, one)
    for _, some in itertools.groupby(results, _owner):
        some = list(some)
        if not isinstance(some[0], Results):
            yield None, some
            continue
        for one in some:
            yield one.network, [*one.assessments, *filter(None, [one.roma])]


def _owner(one: Result) -> Any:
    source = one.provenance if isinstance(one, Assessment) else {}
    return isinstance(one, Results), _name(one), source.get("classifier")


def _name(one: Any) -> str | None:
    source = one.provenance if isinstance(one, Assessment) else {}
    return (source.get("network") or {}).get("name")


# The columns of the table of LaTeX, which a row becomes.
_LATEX: dict[str, Callable[[Row], str]] = {
    "Network": lambda row: "--" if row["network"] is None else latex(row["network"]),
    "Alteration": lambda row: latex(row["alteration"]),
    "Range": lambda row: (
        f"{{}}[${row['lower']:.4g}$, ${row['upper']:.4g}$]"
        + f" {latex(row['unit'])}" * bool(row["unit"])
    ),
    "Accepted": lambda row: (
        rf"{latex(in_words(row['measure']))} $\geq {row['threshold']:g}$"
        + ("" if row["alpha"] is None else rf", $\alpha = {row['alpha']:g}$")
    ),
    "Robustness": lambda row: (
        row["status"] if row["robustness"] is None else _percent(row["robustness"])
    ),
    "Error bound": lambda row: (
        "--"
        if row["error_bound"] is None
        else rf"$\pm {100 * row['error_bound']:.1f}$\,\%"
    ),
    "Interval": lambda row: (
        f"{_percent(row['interval_low'])} to {_percent(row['interval_high'])}"
    ),
    "Levels": lambda row: f"{row['levels']}",
    "Images": lambda row: f"{row['images']}",
}


def _percent(share: float | None) -> str:
    # A number in mathematics, so that its minus is one.
    return rf"${100 * (math.nan if share is None else share):.1f}$\,\%"


# What a spreadsheet takes for the start of a formula; full-width forms are folded.
_FORMULA = "=+-@"
_INVISIBLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
# Words that a name for loggers may consist of, and the digest that others end with.
_SIMPLE = re.compile(r"[a-z][a-z0-9]*( [a-z0-9]+)*")
_DIGEST = re.compile(r"(.* )?[0-9a-f]{16}")
_MOST_SIMPLE, _MOST_STEM = 64, 40
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    # These would be options of a rule or a new line, or form ligatures.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",
    ",": "{,}",
    "?": "{?}",
    "!": "{!}",
}
# Letters that join to one sign.
_LIGATURES = re.compile("(?<=f)(?=[fil])")


def escaped(text: str) -> str:
    r"""Returns a text with invisible characters as \u0007; no two texts become one."""
    # Line breaks, control characters and those that reverse the direction of writing
    # are invisible. A backslash before a "u" is written \u005c, so that it is no
    # escape.
    text = re.sub(r"\\(?=[uU])", r"\\u005c", text)
    return "".join(
        _spelt(one) if unicodedata.category(one) in _INVISIBLE else one for one in text
    )


def cell(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula."""
    # As OWASP advises, an apostrophe comes before one that begins with =, +, - or @,
    # also after spaces or in full width; and before one that begins with an apostrophe,
    # so that no two texts become one.
    text = escaped(text)
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])[:1]
    return f"'{text}" if first and first in f"{_FORMULA}'" else text


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


def _spelt(one: str) -> str:
    number = ord(one)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


# Columns of results that are logged under their own names.
_OF_RESULT = (
    *("robustness", "error_bound", "interval_low", "interval_high"),
    *("dataset_low", "dataset_high", "decided_ratio"),
    *("levels", "images", "evaluations", "warnings"),
)
_OF_LEVEL = ("level", "value", "value_low", "value_high", "decided_ratio")
_OF_ROMA = ("mean_plr", "mean_plr_low", "mean_plr_high", "mean_low", "answered")


class Metric(NamedTuple):
    """A number to log.

    Attributes:
      name: of a-z, 0-9, "_" and "/", at most 250 characters, distinct.
      value: a finite number.
      step: an integer from 0.
    """

    name: str
    value: float
    step: int


class LoggedFile(NamedTuple):
    """A file to log.

    Attributes:
      name: of a-z, 0-9, "_" and an ending, distinct.
      content: its text.
    """

    name: str
    content: str


class Logged(NamedTuple):
    """What a tracker of experiments logs of one network's results.

    Attributes:
      metrics: numbers with names and steps.
      files: texts with file names.
    """

    metrics: tuple[Metric, ...]
    files: tuple[LoggedFile, ...]


def logged(
    results: Results | Assessment | Sequence[Assessment], step: int = 0
) -> Logged:
    """Returns one network's results as numbers and files that a tracker logs.

    Example::

        found = reporting.logged(results)
        with mlflow.start_run():
            for name, value, step in found.metrics:
                mlflow.log_metric(name, value, step=step)
            for name, content in found.files:
                mlflow.log_text(content, name)

    A result has names such as "gaussian_blur/robustness", with the step that you give,
    an epoch for instance. Its levels have "gaussian_blur/at_levels/level", and ending
    with "/value", "/value_low", "/value_high" and "/decided_ratio". A step must be an
    integer and a level is none, so **their step is the level's place** among those of
    this result, from 0, ascending: plot "value" over "level", which is in the
    alteration's unit. RoMA has "roma/inputs/mean_plr" and so on. Values are those of
    the columns in `to_frame`; what is not known, NaN there, is left out, because not
    all trackers take it.

    Words of small letters keep their name, with "_" for spaces. Any other name is cut,
    and ends with a digest: so it has the same name in every run, characters that
    MLflow, Weights & Biases and TensorBoard take, and no other name becomes the same.

    Args:
      results: the results of one network.
      step: the step of the results' own numbers, at least 0.

    Returns:
      `Logged`: the metrics; and as files `results.csv`, `levels.csv`, `roma.csv`, and
      for each alteration its assessment as JSON without the single answers.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if there is no result, they are of several networks, or two have the
        same alteration: log these in runs of their own.
    """
    step = checked_integer("step", step, at_least=0)
    if isinstance(results, Assessment):
        results = (results,)
    if not isinstance(results, Results):
        wanted = "jaxrob.Assessment"
        ones = checked_sequence("results", results, Assessment, wanted)
        results = Results(None, None, ones)
    names = [one.alteration for one in results.assessments]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"results must hold one of each alteration; got {names.count(name)} of "
                f"{short(name)}: log them in runs of their own"
            )
    return Logged(tuple(_metrics(results, step)), tuple(_files(results)))


def _metrics(results: Results, step: int) -> Iterator[Metric]:
    if results.assessments:
        for row in rows_of(results.assessments, "results", OF_CORRUPTIONS):
            yield from _of_row(row, _OF_RESULT, log_name(row["alteration"]), step)
    for one in results.assessments:
        for place, row in enumerate(rows_of(one, "levels")):
            prefix = f"{log_name(one.alteration)}/at_levels"
            yield from _of_row(row, _OF_LEVEL, prefix, place)
    if results.roma is not None:
        (row,) = rows_of(results.roma, "roma")
        # With a "/" that no alteration's name has.
        yield from _of_row(row, _OF_ROMA, "roma/inputs", step)


def _of_row(
    row: Row, columns: Sequence[str], prefix: str, step: int
) -> Iterator[Metric]:
    for column in columns:
        value = row[column]
        if value is not None:
            yield Metric(f"{prefix}/{column}", float(value), step)


def _files(results: Results) -> Iterator[LoggedFile]:
    if results.assessments:
        for rows in ("results", "levels"):
            yield LoggedFile(f"{rows}.csv", to_csv(results, rows))
    if results.roma is not None:
        yield LoggedFile("roma.csv", to_csv(results, "roma"))
    for one in results.assessments:
        content = json.dumps(one.to_dict(), allow_nan=False)
        yield LoggedFile(f"{log_name(one.alteration)}.json", content)
