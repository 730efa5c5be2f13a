"""Reports: tables, plots and JSON."""

from jaxrob.reporting._json import from_json, to_json
from jaxrob.reporting._plot import examples, figure, plot
from jaxrob.reporting._table import table

__all__ = ("examples", "figure", "from_json", "plot", "table", "to_json")
