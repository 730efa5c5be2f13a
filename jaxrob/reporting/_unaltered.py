"""The images as they are, which a strategy may not have looked at."""

import numpy as np

from jaxrob._assessment.assessment import Assessment


def nearest_level(one: Assessment) -> float:
    """Returns the level looked at that is nearest to the identity; or the identity."""
    return float(one.levels[np.abs(one.levels - one.identity).argmin()])


def is_at_once(one: Assessment, first: np.ndarray) -> np.ndarray:
    """Tells for which images something is seen as near to the identity as can be."""
    # Where the identity itself was not looked at, it may be so there already.
    nearest = abs(nearest_level(one) - one.identity)
    return np.abs(first - one.identity) <= nearest
