"""Benchmark corruptions: alterations driven by one level, the severity."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._alteration import Alteration, check_image, in_float32
from jaxrob.alterations.corruptions._parameters import Table, at, checked_size, size_for


def corruption(
    table: Table,
    apply: Callable[..., jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array], Any] | None = None,
    prepare: Callable[[jax.Array], Any] | None = None,
    **more: Any,
) -> Alteration:
    """Is `by_severity` for functions of the parameters at the level alone."""
    return by_severity(
        table,
        prepare and hashable_partial(_without_rows, function=prepare),
        hashable_partial(_at_parameters, apply=apply),
        size=size,
        draw=draw and hashable_partial(_without_rows, function=draw),
        **more,
    )


def by_severity(
    table: Table,
    prepare: Callable[..., Any] | None,
    apply: Callable[[jax.Array, Any, jax.Array, np.ndarray], jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array, np.ndarray], Any] | None = None,
    check: Callable[[str, jax.Array], None] = check_image,
    representative: Callable[..., Any] | None = None,
    moves_pixels: bool = False,
) -> Alteration:
    """Makes an alteration with levels from 0, the identity, to severity 5."""
    # All functions receive the parameters at levels 0 to 5, float64 `[6, P]`, as
    # constants.
    size = checked_size(table.corruption, size)
    return Alteration(
        table.corruption,
        hashable_partial(_at_severity, apply=apply, table=table, size=size),
        0.0,
        5.0,
        identity=0.0,
        unit="severity",
        stochastic=draw is not None,
        prepare=hashable_partial(
            _prepare, prepare=prepare, draw=draw, check=check, table=table, size=size
        ),
        representative=representative,
        about=table.about(size),
        moves_pixels=moves_pixels,
    )


def between(found: jax.Array, level: jax.Array) -> jax.Array:
    """Interpolates values at levels 0 to 5, `[6, ...]`, linearly: `[...]`."""
    level = jnp.asarray(level, jnp.float32)
    before = jnp.clip(jnp.floor(level), 0, 4).astype(jnp.int32)
    share = level - before
    low, high = found[before], found[before + 1]
    return (1 - share) * low + share * high


def _without_rows(*arguments: Any, function: Callable[..., Any]) -> Any:
    return function(*arguments[:-1])


def _at_parameters(
    image: jax.Array,
    prepared: Any,
    level: jax.Array,
    rows: np.ndarray,
    *,
    apply: Callable[..., jax.Array],
) -> jax.Array:
    return apply(image, prepared, *at(rows, level))


def _prepare(
    image: jax.Array,
    *key: jax.Array,
    prepare: Callable[..., Any] | None,
    draw: Callable[..., Any] | None,
    check: Callable[[str, jax.Array], None],
    table: Table,
    size: int | None,
) -> tuple[jax.Array, Any]:
    check(table.corruption, image)
    image = in_float32(image)
    rows = table.rows(size_for(table.corruption, image.shape, size))
    draws = () if draw is None else (draw(image, *key, rows),)
    if prepare is None:
        return image, draws[0] if draws else None
    return image, prepare(image, *draws, rows)


def _at_severity(
    image_and_prepared: tuple[jax.Array, Any],
    level: jax.Array,
    *,
    apply: Callable[..., jax.Array],
    table: Table,
    size: int | None,
) -> jax.Array:
    image, prepared = image_and_prepared
    rows = table.rows(size_for(table.corruption, image.shape, size))
    return apply(image, prepared, level, rows)
