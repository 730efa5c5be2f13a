"""Reports: tables and plots of results, and whether results are good enough."""

from jaxrob.reporting._earlier import earlier_assessments
from jaxrob.reporting._folder import read_results, write_results
from jaxrob.reporting._gate import (
    Requirement,
    quantities,
    regressions,
    requirement,
    unmet,
    verdict,
)
from jaxrob.reporting._pictures import pictures
from jaxrob.reporting._plan import Plan, PlannedAlteration, read_plan
from jaxrob.reporting._plot import examples, figure, plot
from jaxrob.reporting._plot_classes import plot_categories, plot_confusion
from jaxrob.reporting._plot_curves import plot_measures, plot_networks
from jaxrob.reporting._plot_pictures import plot_first_failures
from jaxrob.reporting._rank_table import plot_ranks, rank_table
from jaxrob.reporting._ranks import Ranks, ranks
from jaxrob.reporting._report import to_html, to_markdown
from jaxrob.reporting._results import Picture, Results
from jaxrob.reporting._table import table

__all__ = (
    "Picture",
    "Plan",
    "PlannedAlteration",
    "Ranks",
    "Requirement",
    "Results",
    "earlier_assessments",
    "examples",
    "figure",
    "pictures",
    "plot",
    "plot_categories",
    "plot_confusion",
    "plot_first_failures",
    "plot_measures",
    "plot_networks",
    "plot_ranks",
    "quantities",
    "rank_table",
    "ranks",
    "read_plan",
    "read_results",
    "regressions",
    "requirement",
    "table",
    "to_html",
    "to_markdown",
    "unmet",
    "verdict",
    "write_results",
)
