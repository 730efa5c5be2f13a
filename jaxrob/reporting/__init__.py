"""Reports: tables and plots of results, and whether results are good enough."""

from jaxrob.reporting._columns import to_csv, to_frame, to_latex
from jaxrob.reporting._exports import Logged, LoggedFile, Metric, logged, write_failing
from jaxrob.reporting._folder import earlier_assessments, read_results, write_results
from jaxrob.reporting._gate import (
    Outcome,
    outcomes,
    outcomes_of,
    quantities,
    to_junit,
    unmet,
    verdict,
)
from jaxrob.reporting._pictures import pictures
from jaxrob.reporting._plot import examples, figure, plot, plot_measures, plot_networks
from jaxrob.reporting._plot_classes import (
    plot_categories,
    plot_confusion,
    plot_first_failures,
)
from jaxrob.reporting._ranks import Ranks, plot_ranks, rank_figure, rank_table, ranks
from jaxrob.reporting._report import read_report, to_html, to_markdown, to_summary
from jaxrob.reporting._report.parts import Bullets, Figure, Section, Table, Text
from jaxrob.reporting._requirements import (
    Plan,
    PlannedAlteration,
    Requirement,
    read_plan,
    requirement,
)
from jaxrob.reporting._results import (
    Difference,
    File,
    Picture,
    Results,
    Run,
    differences,
    regressions,
)
from jaxrob.reporting._table import table

__all__ = (
    "Bullets",
    "Difference",
    "Figure",
    "File",
    "Logged",
    "LoggedFile",
    "Metric",
    "Outcome",
    "Picture",
    "Plan",
    "PlannedAlteration",
    "Ranks",
    "Requirement",
    "Results",
    "Run",
    "Section",
    "Table",
    "Text",
    "differences",
    "earlier_assessments",
    "examples",
    "figure",
    "logged",
    "outcomes",
    "outcomes_of",
    "pictures",
    "plot",
    "plot_categories",
    "plot_confusion",
    "plot_first_failures",
    "plot_measures",
    "plot_networks",
    "plot_ranks",
    "quantities",
    "rank_figure",
    "rank_table",
    "ranks",
    "read_plan",
    "read_report",
    "read_results",
    "regressions",
    "requirement",
    "table",
    "to_csv",
    "to_frame",
    "to_html",
    "to_junit",
    "to_latex",
    "to_markdown",
    "to_summary",
    "unmet",
    "verdict",
    "write_failing",
    "write_results",
)
