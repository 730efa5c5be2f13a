"""Guides for variational inference: normal distributions of the raveled parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

# Standard deviation of every parameter before the first step.
_INITIAL_SCALE = 0.01

# The parameters of a guide, by name.
Variational = dict[str, jax.Array]


class Guide(NamedTuple):
    """A family of distributions of the D raveled parameters.

    Attributes:
      init: returns the variational parameters around given parameters `[D]`.
      sample: the NumPyro guide, a function of the model's arguments.
      moments: returns, for variational parameters, the location `[D]`, the standard
        deviations `[D]` and the covariance's Cholesky factor `[D, D]`, None if
        independent.
    """

    init: Callable[[jax.Array], Variational]
    sample: Callable[..., None]
    moments: Callable[[Variational], tuple[jax.Array, jax.Array, jax.Array | None]]


def _mean_field_init(location: jax.Array) -> Variational:
    return {
        "location": location,
        "raw_scale": jnp.full_like(location, _inverse_softplus(_INITIAL_SCALE)),
    }


def _mean_field_sample(*_: Any) -> None:
    scale = jax.nn.softplus(_param("raw_scale"))
    normal = dist.Normal(_param("location"), scale)
    numpyro.sample("params", normal.to_event(1))


def _mean_field_moments(
    variational: Variational,
) -> tuple[jax.Array, jax.Array, None]:
    return variational["location"], jax.nn.softplus(variational["raw_scale"]), None


def _full_rank_init(location: jax.Array) -> Variational:
    lower = jnp.zeros((len(location),) * 2, jnp.float32)
    return _mean_field_init(location) | {"lower": lower}


def _full_rank_sample(*_: Any) -> None:
    variational = {name: _param(name) for name in ("raw_scale", "lower")}
    normal = dist.MultivariateNormal(
        _param("location"), scale_tril=_cholesky_factor(variational)
    )
    numpyro.sample("params", normal)


def _full_rank_moments(
    variational: Variational,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    factor = _cholesky_factor(variational)
    return variational["location"], jnp.linalg.norm(factor, axis=1), factor


def _cholesky_factor(variational: Variational) -> jax.Array:
    # Rows in units of their scale, so that one learning rate suits all their entries.
    scale = jax.nn.softplus(variational["raw_scale"])
    lower = jnp.tril(variational["lower"], -1)
    return scale[:, None] * (lower + jnp.eye(len(scale), dtype=jnp.float32))


def _param(name: str) -> jax.Array:
    return cast(jax.Array, numpyro.param(name))


def _inverse_softplus(value: float) -> float:
    return float(np.log(np.expm1(value)))


GUIDES = {
    "mean_field": Guide(_mean_field_init, _mean_field_sample, _mean_field_moments),
    "full_rank": Guide(_full_rank_init, _full_rank_sample, _full_rank_moments),
}
