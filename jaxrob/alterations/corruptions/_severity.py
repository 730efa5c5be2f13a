"""Benchmark corruptions: alterations driven by one level, the severity."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._alteration import (
    Alteration,
    check_colours,
    check_image,
    in_float32,
)
from jaxrob.alterations.corruptions._parameters import Table, at, checked_size, size_for


def corruption(
    table: Table,
    apply: Callable[..., jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array], Any] | None = None,
    prepare: Callable[[jax.Array], Any] | None = None,
    in_colour: bool = False,
    representative: Callable[..., Any] | None = None,
) -> Alteration:
    """Makes an alteration with levels from 0, the identity, to severity 5."""
    name = table.corruption
    size = checked_size(name, size)
    return Alteration(
        name,
        hashable_partial(_at_severity, apply=apply, table=table, size=size),
        0.0,
        5.0,
        identity=0.0,
        unit="severity",
        stochastic=draw is not None,
        prepare=hashable_partial(
            _prepare, name=name, size=size, prepare=draw or prepare, in_colour=in_colour
        ),
        representative=representative,
        about=table.about(size),
    )


def _prepare(
    image: jax.Array,
    *key: jax.Array,
    name: str,
    size: int | None,
    prepare: Callable[..., Any] | None,
    in_colour: bool,
) -> tuple[jax.Array, Any]:
    (check_colours if in_colour else check_image)(name, image)
    size_for(name, image.shape, size)
    image = in_float32(image)
    return image, None if prepare is None else prepare(image, *key)


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
    return apply(image, prepared, *at(rows, level))


def by_severity(
    table: Table,
    prepare: Callable[..., Any],
    apply: Callable[[jax.Array, Any, jax.Array, np.ndarray], jax.Array],
    *,
    size: int | None,
    draw: Callable[[jax.Array, jax.Array, np.ndarray], Any] | None = None,
    check: Callable[[str, jax.Array], None] = check_image,
    moves_pixels: bool = False,
) -> Alteration:
    """Makes an alteration with levels from 0, the identity, to severity 5."""
    # All functions receive the parameters at levels 0 to 5, float64 `[6, P]`, as
    # constants.
    size = checked_size(table.corruption, size)
    parts = {"table": table, "size": size}
    return Alteration(
        table.corruption,
        hashable_partial(_at_level, apply=apply, **parts),
        0.0,
        5.0,
        identity=0.0,
        unit="severity",
        stochastic=draw is not None,
        prepare=hashable_partial(
            _prepare_rows, prepare=prepare, draw=draw, check=check, **parts
        ),
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


def _prepare_rows(
    image: jax.Array,
    *key: jax.Array,
    prepare: Callable[..., Any],
    draw: Callable[..., Any] | None,
    check: Callable[[str, jax.Array], None],
    table: Table,
    size: int | None,
) -> tuple[jax.Array, Any]:
    check(table.corruption, image)
    image = in_float32(image)
    rows = table.rows(size_for(table.corruption, image.shape, size))
    draws = () if draw is None else (draw(image, *key, rows),)
    return image, prepare(image, *draws, rows)


def _at_level(
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
