"""Results as frames, CSV and LaTeX. All are written from the rows of `_rows`."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from jaxrob._arguments.extra import install
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._escaped import cell, latex
from jaxrob.reporting._rows import ROWS, Result, ResultRow, rows_of

_HEADER = (
    *("Alteration", "Range", "Accepted", "Robustness", "Error bound"),
    *("Interval", "Levels", "Images"),
)


def to_frame(results: Result | Sequence[Result], rows: str = "results") -> Any:
    """Returns results as a frame of pandas.

    Example::

        found = jaxrob.assess(classifier, dataset, [blur, noise], key=key)
        frame = reporting.to_frame(found)
        levels = reporting.to_frame(found, rows="levels")
        levels.pivot(index="level", columns="alteration", values="value").plot()

    Levels are in the unit that the row says. Shares such as the robustness lie in
    [0, 1], `seconds` are seconds. What is not known is NaN (a text None), and `status`
    says why. Numbers are those of the result, to the bit. Texts are as they were given:
    `to_csv` makes them harmless for spreadsheets.

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
    return pandas.DataFrame(found, columns=list(ROWS[rows]._fields))


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
    return csv_text(ROWS[rows]._fields if rows in ROWS else (), rows_of(results, rows))


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
    found = rows_of(results, "results")
    several = len({(one.network, one.network_digest) for one in found}) > 1
    texts = 4 if several else 3
    header = ("Network",) * several + _HEADER
    lines = [
        rf"\begin{{tabular}}{{{'l' * texts}{'r' * (len(header) - texts)}}}",
        r"\toprule",
        rf"{' & '.join(header)} \\",
        r"\midrule",
        *(rf"{' & '.join(_latex_cells(one, several))} \\" for one in found),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def csv_text(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns rows of numbers, texts, booleans and None as CSV, texts made harmless."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            [cell(value) if isinstance(value, str) else value for value in row]
        )
    return stream.getvalue()


def _latex_cells(one: ResultRow, with_network: bool) -> list[str]:
    unit = f" {latex(one.unit)}" if one.unit else ""
    robustness = one.status if one.robustness is None else _percent(one.robustness)
    alpha = "" if one.alpha is None else rf", $\alpha = {one.alpha:g}$"
    bound = one.error_bound
    cells = [
        latex(one.alteration),
        f"{{}}[${one.lower:.4g}$, ${one.upper:.4g}$]{unit}",
        rf"{latex(in_words(one.measure))} $\geq {one.threshold:g}${alpha}",
        robustness,
        "--" if bound is None else rf"$\pm {100 * bound:.1f}$\,\%",
        f"{_percent(one.interval_low)} to {_percent(one.interval_high)}",
        f"{one.levels}",
        f"{one.images}",
    ]
    network = "--" if one.network is None else latex(one.network)
    return [network, *cells] if with_network else cells


def _percent(share: float) -> str:
    # A number in mathematics, so that its minus is one.
    return rf"${100 * share:.1f}$\,\%"
