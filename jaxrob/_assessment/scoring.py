"""Tolerance, penalization and the levels' probability: how levels are scored."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._codec import Array
from jaxrob._curve import AnyCurve
from jaxrob._identity.identity import text
from jaxrob.metrics._measures import any_measure
from jaxrob.metrics._tolerance import check_scoring, level_scores, level_weights

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

_Scores = Array("L", at_least=-1, at_most=1)


class Scores(NamedTuple):
    """A curve scored by tolerance and penalization, see `level_scores`."""

    # The tolerance, the penalization, the nominal value and the distribution of the
    # levels, as text
    settings: str
    # Float64 `[L]` in [-1, 1], the score of the measure at each level
    values: Annotated[np.ndarray, _Scores]
    # Float64 `[L]`, the lowest score within the measure's band
    low: Annotated[np.ndarray, _Scores]
    high: Annotated[np.ndarray, _Scores]  # float64 `[L]`, the highest
    # Float64 `[L]`, the weight of each level
    weights: Annotated[np.ndarray, Array("L", at_least=0, at_most=1)]


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How levels are rewarded, penalized and weighted, in place of accepted or not.

    2024 paper, Definitions 3, 6 to 9 and 11; see `jaxrob.metrics.tolerance_robustness`.
    The robustness is then an integral over all levels: evenly spaced ones suit it,
    `strategies.Uniform(21)` as in the paper.

    Example::

        tolerance = jaxrob.Tolerance("linear", penalization="linear")
        result = jaxrob.assess(classifier, dataset, blur, tolerance=tolerance)

    Attributes:
      reward: that of accepted values: "linear" (up to the measure's value at the
        identity), "step" or a function of a value and the threshold; by default "step".
      penalization: the penalty of the other values, with the same choices.
      level_distribution: the probability of the levels, a NumPyro distribution; by
        default uniform.
    """

    reward: str | Callable[[float, float], float] | None = None
    penalization: str | Callable[[float, float], float] | None = None
    level_distribution: "Distribution | None" = None

    @property
    def is_plain(self) -> bool:
        """Whether levels are just accepted or not, with equal weights."""
        return (
            self.reward is None
            and self.penalization is None
            and self.level_distribution is None
        )

    @property
    def needs_nominal(self) -> bool:
        """Whether the reward is relative to the value at the identity."""
        return self.reward in ("linear", metrics.linear_tolerance)

    def check(self, threshold: float, bounds: tuple[float, float]) -> None:
        """Rejects a scoring that does not suit the levels of a range."""
        if not self.is_plain:
            check_scoring(
                threshold,
                self.reward,
                self.penalization,
                self.level_distribution,
                bounds,
            )

    def scores(
        self,
        curve: AnyCurve,
        measure: str,
        threshold: float,
        bounds: tuple[float, float],
        nominal: float | None,
        confidence_level: float,
    ) -> Scores:
        """Returns the scores of a curve."""
        counts: Any = curve.counts_for(measure)
        values = any_measure(measure)(counts)
        bands = metrics.bands(counts, measure, confidence_level)
        middle, *ends = (
            level_scores(
                some, threshold, self.reward, self.penalization, nominal=nominal
            )
            for some in (values, *bands)
        )
        # A function of the user's need not be monotone.
        low = np.minimum(middle, np.min(ends, 0))
        high = np.maximum(middle, np.max(ends, 0))
        weights = level_weights(curve.levels, self.level_distribution, bounds)
        return Scores(self._settings(nominal), middle, low, high, weights)

    def _settings(self, nominal: float | None) -> str:
        settings = {
            "tolerance": self.reward,
            "penalization": self.penalization,
            "nominal": nominal,
            "level_distribution": self.level_distribution,
        }
        return ", ".join(f"{name}={_named(value)}" for name, value in settings.items())


def _named(value: Any) -> str:
    """Returns a function's name, or a NumPyro distribution's class and parameters."""
    if hasattr(value, "gather_pytree_data_fields"):
        fields = sorted(type(value).gather_pytree_data_fields())
        known = {name: vars(value).get(name) for name in fields}
        parts = (f"{n}={_named(part)}" for n, part in known.items() if part is not None)
        return f"{type(value).__name__}({', '.join(parts)})"
    return getattr(value, "__name__", None) or text(value)
