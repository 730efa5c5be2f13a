"""Reports: tables and plots of results, and whether results are good enough."""

from jaxrob.reporting._gate import Requirement, quantities, requirement, unmet, worse
from jaxrob.reporting._plot import examples, figure, plot
from jaxrob.reporting._table import table

__all__ = (
    "Requirement",
    "examples",
    "figure",
    "plot",
    "quantities",
    "requirement",
    "table",
    "unmet",
    "worse",
)
