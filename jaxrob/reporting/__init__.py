"""Reports: tables and plots of results, and whether results are good enough."""

from jaxrob.reporting._columns import to_csv, to_frame, to_latex
from jaxrob.reporting._differences import Difference, differences
from jaxrob.reporting._earlier import earlier_assessments
from jaxrob.reporting._failing import write_failing
from jaxrob.reporting._folder import read_results, write_results
from jaxrob.reporting._found import outcomes_of
from jaxrob.reporting._gate import (
    Outcome,
    outcomes,
    quantities,
    regressions,
    unmet,
    verdict,
)
from jaxrob.reporting._junit import to_junit
from jaxrob.reporting._logged import Logged, LoggedFile, Metric, logged
from jaxrob.reporting._pictures import pictures
from jaxrob.reporting._plan import Plan, PlannedAlteration, read_plan
from jaxrob.reporting._plot import examples, figure, plot
from jaxrob.reporting._plot_classes import plot_categories, plot_confusion
from jaxrob.reporting._plot_curves import plot_measures, plot_networks
from jaxrob.reporting._plot_pictures import plot_first_failures
from jaxrob.reporting._rank_table import plot_ranks, rank_figure, rank_table
from jaxrob.reporting._ranks import Ranks, ranks
from jaxrob.reporting._report import (
    read_report,
    to_html,
    to_markdown,
    to_summary,
)
from jaxrob.reporting._requirement import Requirement, requirement
from jaxrob.reporting._results import Picture, Results
from jaxrob.reporting._run import File, Run
from jaxrob.reporting._table import table

__all__ = (
    "Difference",
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
