"""Fingerprints of alterations at the time of a call."""

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
from jaxrob.alterations._moves import moves_of

# The number of levels at which `representative` is called to fingerprint it.
_LEVELS = 1025
# The number of levels at which `geometry` is called.
_PLACES = 65


def fingerprinted_alteration(
    alteration: Alteration, image_shape: tuple[int, ...]
) -> Alteration:
    """Returns the alteration with its functions fingerprinted by their computation."""
    # The library's own alterations are identified by their parameters and returned as
    # they are. Users' functions are traced anew: programs compiled for other values
    # than those that they capture now do not fit them.
    if is_identifiable(alteration):
        return alteration
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    program, _ = traced(alteration, image, level, key)
    found = fingerprinted_parts(alteration, ("fn", "prepare"), program)
    return dataclasses.replace(
        found,
        representative=_fingerprinted_representative(alteration),
        geometry=_fingerprinted_geometry(alteration, image_shape),
    )


def _fingerprinted_representative(alteration: Alteration) -> Any:
    """Fingerprints `representative`, a host function, by its values at many levels."""
    function = alteration.representative
    if function is None or is_identifiable(function):
        return function
    levels = np.linspace(alteration.lower, alteration.upper, _LEVELS)
    found = np.asarray(function(levels), np.float64)
    return Fingerprinted(digest([found]), function)


def _fingerprinted_geometry(
    alteration: Alteration, image_shape: tuple[int, ...]
) -> Any:
    """Fingerprints `geometry`, a small function, by its matrices at many levels."""
    function = alteration.geometry
    if function is None or is_identifiable(function) or len(image_shape) != 3:
        return function
    parts = []
    for level in np.linspace(alteration.lower, alteration.upper, _PLACES).tolist():
        for move in moves_of(alteration, level, image_shape[:2]):
            parts += [move.fill, np.asarray(move.matrix, np.float32)]
    return Fingerprinted(digest(parts), function)
