"""Reports for assessors, made from results alone."""

import functools
from collections.abc import Sequence
from typing import Any

from jaxrob._arguments.checks import check_type, checked_sequence
from jaxrob._arguments.extra import install
from jaxrob._arguments.naming import named
from jaxrob.reporting._report.data import element, read_report
from jaxrob.reporting._results import Results

__all__ = ("read_report", "to_html", "to_markdown", "to_summary")


def to_html(results: Sequence[Results], earlier: Sequence[Results] = ()) -> str:
    """Makes a report, as one HTML page, for readers who did not run the tests.

    It states what was tested and how, whether each requirement is met, what is not
    known, and the limits of its statements. The page loads nothing and runs no script;
    pictures, figures and the numbers as data (`read_report`) are within it. It prints
    well. The same results give the same text with the same versions of jaxrob and its
    dependencies.

    Example::

        results = reporting.read_results("results/today")
        pathlib.Path("report.html").write_text(reporting.to_html([results]), "utf-8")

    Args:
      results: the results of each network. All are on one page, side by side where
        they were tested alike.
      earlier: earlier results to compare with: none, one for all, or one for each.

    Raises:
      ImportError: if Jinja2 is missing, or Pillow where there are pictures.
      TypeError: if an argument has a wrong type.
      ValueError: if there are no results, or `earlier` has another length.
    """
    page = _written("report.html.jinja", results, earlier)
    found = element(_checked("results", results, 1), _checked("earlier", earlier, 0))
    return page.replace("</body>\n</html>", f"{found}\n</body>\n</html>")


def to_markdown(results: Sequence[Results], earlier: Sequence[Results] = ()) -> str:
    """Makes the same report as GitHub-flavoured Markdown, without figures and pictures.

    Tables replace the curves. Names are escaped, so that they cannot become markup.

    Args:
      results: as for `to_html`.
      earlier: as for `to_html`.

    Raises:
      ImportError: if Jinja2 is missing.
      TypeError: as `to_html`.
      ValueError: as `to_html`.
    """
    return _written("report.md.jinja", results, earlier)


def to_summary(results: Results, report: str | None = None) -> str:
    """Makes a short summary in Markdown, for a step of continuous integration.

    It has the verdict, a line for each requirement and one for each alteration. Names
    are escaped, so that they cannot become markup.

    Args:
      results: the results of one network.
      report: where the report lies, a text; None if there is none.

    Raises:
      ImportError: if Jinja2 is missing.
      TypeError: if an argument has a wrong type.
    """
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    check_type("report", report, str | None, "a text or None")
    environment = _environment("summary.md.jinja")
    from jaxrob.reporting._report.ci_summary import summary

    return _rendered(environment, "summary.md.jinja", summary(results, report))


def _written(
    template: str, results: Sequence[Results], earlier: Sequence[Results]
) -> str:
    results = _checked("results", results, 1)
    earlier = _checked("earlier", earlier, 0)
    if len(earlier) not in (0, 1, len(results)):
        raise ValueError(
            f"earlier must hold no results, one, or one for each of {len(results)} "
            f"networks; got {len(earlier)}"
        )
    environment = _environment(template)
    # After Jinja2 was found, because this import takes seconds.
    from jaxrob.reporting._report.document import document

    return _rendered(environment, template, document(results, earlier))


def _rendered(environment: Any, template: str, it: Any) -> str:
    text = environment.get_template(template).render(it=it)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _checked(name: str, value: Any, min_length: int) -> tuple[Results, ...]:
    if isinstance(value, Results):
        raise TypeError(
            f"{name} must be a sequence; got {named(value)}: give [results]"
        )
    wanted = "jaxrob.reporting.Results"
    return checked_sequence(name, value, Results, wanted, min_length=min_length)


@functools.cache
def _environment(template: str) -> Any:
    """Returns an environment that escapes values and rejects undefined names."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(f"reports need Jinja2: {install('command')}") from error
    from jaxrob.reporting import _style
    from jaxrob.reporting._report import text
    from jaxrob.reporting._rounded import ROUNDED

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxrob.reporting._report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=text.html if ".html" in template else text.markdown,
    )
    environment.globals["style"] = _style
    environment.globals["rounded"] = ROUNDED
    environment.filters["css"] = text.css
    return environment
