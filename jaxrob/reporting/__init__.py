"""Reports: tables, plots and JSON, and whether results are good enough."""

from jaxrob.reporting._gate import Requirement, quantities, requirement, unmet, worse
from jaxrob.reporting._json import from_json, to_json
from jaxrob.reporting._plot import examples, figure, plot
from jaxrob.reporting._table import table

__all__ = (
    "Requirement",
    "examples",
    "figure",
    "from_json",
    "plot",
    "quantities",
    "requirement",
    "table",
    "to_json",
    "unmet",
    "worse",
)
