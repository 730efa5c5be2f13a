"""Alterations as they are at the time of a call."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._identity.digest import digest
from jaxrob._identity.fingerprinted import Fingerprinted
from jaxrob._identity.identity import fingerprinted_parts, is_identifiable
from jaxrob._identity.program import traced
from jaxrob.alterations._alteration import Alteration

# Levels at which functions that stand for others are looked at.
_LEVELS = 1025


def fingerprinted(alteration: Alteration, image_shape: tuple[int, ...]) -> Alteration:
    """The alteration as it is now, told from others by what it computes.

    The library's own are told by their parameters, and returned as they are. The
    functions of others are traced, anew where they capture arrays: programs compiled
    for other values do not serve them.

    Args:
      alteration: the alteration.
      image_shape: the shape of one image.
    """
    if is_identifiable(alteration):
        return alteration
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    found = fingerprinted_parts(
        alteration,
        ("fn", "prepare"),
        (alteration.stochastic, tuple(image_shape)),
        lambda: traced(alteration, image, level, key),
    )
    return dataclasses.replace(found, representative=_by_effect(alteration))


def _by_effect(alteration: Alteration) -> Any:
    """What stands for levels runs on the host: it is told by what it gives for many."""
    function = alteration.representative
    if function is None or is_identifiable(function):
        return function
    levels = np.linspace(alteration.lower, alteration.upper, _LEVELS)
    found = np.asarray(function(levels), np.float64)
    return Fingerprinted(digest([found]), function, is_identifiable=True)
