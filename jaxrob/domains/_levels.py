"""Levels of a domain from the unit cube, uniform or by a distribution."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._domain import Domain

#: Maps points of the unit cube, `[n, d]`, to levels `[n, d]`.
LevelsAt = Callable[[np.ndarray], np.ndarray]


def uniform(domain: Domain) -> LevelsAt:
    lower, upper = np.array(domain.lower), np.array(domain.upper)
    return lambda points: lower * (1 - points) + upper * points


def by_distribution(domain: Domain, given: Any) -> LevelsAt:
    """Levels whose distribution on a uniform cube is the given one, within the box."""
    # Imported here: a caller with a distribution has imported NumPyro already.
    from numpyro import distributions as known

    lower, upper = np.array(domain.lower), np.array(domain.upper)
    each, factor = given, np.eye(len(lower))
    if isinstance(given, known.Independent):
        each = [given.base_dist]
    elif isinstance(given, known.GaussianCopula):
        each = [given.marginal_dist]
        factor = np.asarray(given.correlation_cholesky, np.float64)
    is_one = isinstance(each, Sequence) and all(
        isinstance(one, known.Distribution)
        and not (one.event_shape or one.is_discrete or len(one.batch_shape) > 1)
        for one in each
    )
    if not is_one or sum(sum(one.batch_shape or (1,)) for one in each) != len(lower):
        raise ValueError(
            "level_distribution must be a continuous NumPyro distribution for each of "
            f"{len(lower)} alterations, in their order, or an Independent or a "
            f"GaussianCopula of {len(lower)} numbers; got {given}. (A profile of any "
            "other form goes into jaxrob.failure_probability.)"
        )
    low, high = (_applied(each, "cdf", ends[None])[0] for ends in (lower, upper))
    if not (low < high).all():
        raise ValueError(
            "level_distribution must have mass in each range; got none in that of "
            f"{domain.alterations[int((low < high).argmin())].name}"
        )

    def levels_at(points: np.ndarray) -> np.ndarray:
        # The quantiles of a normal distribution are infinite at 0 and 1.
        normal = scipy.special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
        shares = low + scipy.special.ndtr(normal @ factor.T) * (high - low)
        return np.clip(_applied(each, "icdf", shares), lower, upper)

    return levels_at


def _applied(each: Sequence[Any], name: str, values: np.ndarray) -> np.ndarray:
    """Applies each one's function to its column, or a single one's to all, `[n, d]`."""
    # Padded to a power of two, because JAX compiles each operation for each length.
    number = len(values)
    room = max(64, 1 << (number - 1).bit_length()) - number
    values = np.pad(values, ((0, room), (0, 0)), constant_values=0.5)
    columns = [values] if len(each) == 1 else values.T[..., None]
    # In float32 the shares beside the ends would be mostly rounding errors.
    with jax.enable_x64(True):
        try:
            found = [
                np.asarray(getattr(one, name)(jnp.asarray(some)))
                for one, some in zip(each, columns)
            ]
        except (AttributeError, NotImplementedError):
            raise ValueError(
                f"level_distribution must have quantiles; NumPyro has no {name} of "
                f"{', '.join(type(one).__name__ for one in each)}"
            ) from None
    return np.concatenate(found, axis=1)[:number]
