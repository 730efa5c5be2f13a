"""Levels of a domain from the unit cube, uniform or by a distribution."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.checks import check_type
from jaxrob._domain import Domain

#: Maps points of the unit cube, `[n, d]`, to levels `[n, d]`.
LevelsAt = Callable[[np.ndarray], np.ndarray]

# The quantiles of a normal distribution are infinite at 0 and 1.
_NEAR_END = 1e-12
# The probability beyond a side of the box that a joint distribution may have.
_MOST_OUTSIDE = 1e-3
_WANTED = (
    "a NumPyro distribution for each alteration, in their order, or a joint one of as "
    "many numbers: Independent, MultivariateNormal or GaussianCopula"
)


def uniform(domain: Domain) -> LevelsAt:
    lower, upper = np.array(domain.lower), np.array(domain.upper)
    return lambda points: lower * (1 - points) + upper * points


def by_distribution(domain: Domain, given: Any) -> LevelsAt:
    """Levels whose distribution on a uniform cube is the given one, within the box."""
    # Imported here: a caller with a distribution has imported NumPyro already.
    from numpyro import distributions as known

    lower, upper = np.array(domain.lower), np.array(domain.upper)
    number = len(lower)
    if isinstance(given, Sequence):
        if len(given) != number:
            raise ValueError(
                f"level_distribution must be {_WANTED}; got {len(given)} for {number} "
                "alterations"
            )
        marginals, mixing = [*given], None
    else:
        check_type("level_distribution", given, known.Distribution, _WANTED)
        if given.batch_shape or given.event_shape != (number,):
            raise ValueError(
                f"level_distribution must be {_WANTED}; got one of the shape "
                f"{given.shape()} for {number} alterations"
            )
        marginals, mixing = _parts(given, known)
    for one in marginals:
        check_type("level_distribution", one, known.Distribution, _WANTED)
        if one.event_shape or one.is_discrete:
            raise ValueError(
                f"level_distribution must be continuous, of one number for each "
                f"alteration; got {type(one).__name__}"
            )
    low, high = (_each(marginals, "cdf", ends[None])[0] for ends in (lower, upper))
    for one, start, end in zip(domain.alterations, low, high):
        if not start < end:
            raise ValueError(
                f"level_distribution must have mass in the range of {one.name}, "
                f"[{one.lower:g}, {one.upper:g}]; it has none"
            )
        if mixing is not None and max(start, 1 - end) > _MOST_OUTSIDE:
            raise ValueError(
                f"level_distribution must lie in the box; {start + 1 - end:.3g} of it "
                f"is outside the range of {one.name}, [{one.lower:g}, {one.upper:g}]. "
                "Take GaussianCopula, with marginals that end there"
            )

    def levels_at(points: np.ndarray) -> np.ndarray:
        points = np.clip(points, _NEAR_END, 1 - _NEAR_END)
        if mixing is None:
            shares = low + points * (high - low)
        else:
            shares = scipy.special.ndtr(scipy.special.ndtri(points) @ mixing.T)
        return np.clip(_each(marginals, "icdf", shares), lower, upper)

    return levels_at


def _parts(given: Any, known: Any) -> tuple[list[Any], np.ndarray | None]:
    """Returns marginals, and Cholesky's factor of the correlation of a copula."""
    if isinstance(given, known.Independent):
        return [given.base_dist], None
    if isinstance(given, known.GaussianCopula):
        return [given.marginal_dist], np.asarray(given.correlation_cholesky, float)
    if isinstance(given, known.MultivariateNormal):
        factor = np.asarray(given.scale_tril, float)
        deviations = np.sqrt(np.square(factor).sum(axis=1))
        normal = known.Normal(given.loc, jnp.asarray(deviations))
        return [normal], factor / deviations[:, None]
    raise ValueError(
        f"level_distribution must be {_WANTED}; got {type(given).__name__}, whose "
        "quantiles are not known. jaxrob.failure_probability takes any"
    )


def _each(marginals: Sequence[Any], name: str, values: np.ndarray) -> np.ndarray:
    """Applies each marginal's function to its column, or one's to all, `[n, d]`."""
    # Padded to a power of two, because JAX compiles each operation for each length.
    number = len(values)
    room = max(64, 1 << (number - 1).bit_length()) - number
    values = np.pad(values, ((0, room), (0, 0)), constant_values=0.5)
    columns = [values] if len(marginals) == 1 else values.T[..., None]
    # In float32 the shares beside the ends would be mostly rounding errors.
    with jax.enable_x64(True):
        try:
            each = zip(marginals, columns)
            found = [getattr(one, name)(jnp.asarray(some)) for one, some in each]
        except (AttributeError, NotImplementedError):
            raise ValueError(
                "level_distribution must have quantiles (NumPyro's icdf); "
                f"{', '.join(type(one).__name__ for one in marginals)} has none"
            ) from None
    return np.concatenate(list(map(np.asarray, found)), axis=1)[:number]
