"""Levels mapped to another range, and several alterations driven by one level."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_sequence,
    checked_text,
)
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._moves import Move
from jaxrob.alterations._said import range_in_words


def rescale(
    alteration: Alteration, lower: float, upper: float, unit: str = ""
) -> Alteration:
    """Gives an alteration another range: maps its levels linearly to `[lower, upper]`.

    The papers after the first one measure alterations by such levels.

    Example::

        # Levels in [0, 1], with a radius of twice the level.
        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blur = jaxrob.alterations.rescale(blur, 0.0, 1.0)

    Args:
      alteration: the alteration whose range is mapped.
      lower: what `alteration.lower` becomes.
      upper: what `alteration.upper` becomes.
      unit: the new levels' unit, for reports.

    Returns:
      An alteration of the same name.

    Raises:
      ValueError: if the new range is empty or not finite.
    """
    check_type("rescale: alteration", alteration, Alteration, "a jaxrob.Alteration")
    lower, upper = checked_range("rescale", lower, upper)
    checked_text("rescale: unit", unit, may_be_empty=True)
    ratio = (alteration.upper - alteration.lower) / (upper - lower)
    # At most `upper`: rounding may push an identity at the end of the range beyond it.
    identity = min(lower + (alteration.identity - alteration.lower) / ratio, upper)
    # Anchored at the identity, so that the identity maps to itself exactly.
    mapping = {
        "alteration": alteration,
        "identity": identity,
        "ratio": ratio,
    }
    return Alteration(
        alteration.name,
        hashable_partial(_at_rescaled_level, **mapping),
        lower,
        upper,
        identity=identity,
        unit=unit,
        stochastic=alteration.stochastic,
        resolution=alteration.resolution and alteration.resolution / ratio,
        prepare=hashable_partial(_prepare, alteration=alteration),
        representative=hashable_partial(_rescaled_representative, **mapping),
        geometry=alteration.geometry
        and hashable_partial(
            _rescaled_moves,
            geometry=alteration.geometry,
            identities=(alteration.identity, identity),
            ratio=ratio,
        ),
        moves_pixels=alteration.moves_pixels,
        about=dataclasses.replace(
            alteration.about,
            level=f"{lower:.4g} to {upper:.4g} stand for {range_in_words(alteration)}"
            + (f": {alteration.about.level}" if alteration.about.level else ""),
            default_range=None,
            range_from="",
            members=(alteration,),
        ),
    )


def compose(
    alterations: Sequence[Alteration],
    lower: float = 0.0,
    upper: float = 1.0,
    name: str | None = None,
) -> Alteration:
    """Makes one alteration of several, applied one after the other by one level.

    Example::

        noise = jaxrob.alterations.gaussian_noise(0.0, 0.01)
        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        blurred_noise = jaxrob.alterations.compose([noise, blur])

    Each member's range is mapped linearly from `[lower, upper]`, so at `upper` every
    member is at its own highest level.

    Args:
      alterations: the members, applied from first to last. Their identities must lie
        at the same place of their ranges, or no level would leave the image as it is:
        compose brightness over [0, 0.5], not [-0.5, 0.5], with a blur over [0, 2].
      lower: lowest level of the composition.
      upper: highest level.
      name: what reports call it; by default the members' names, joined by " + ".

    Returns:
      The alteration; stochastic if any member is, and every such member draws with a
      key of its own.

    Raises:
      ValueError: if there is no member, or the identities do not coincide.
    """
    alterations = checked_sequence(
        "compose: alterations", alterations, Alteration, "jaxrob.Alteration"
    )
    lower, upper = checked_range("compose", lower, upper)
    if name is not None:
        checked_text("compose: name", name)
    members = tuple(rescale(member, lower, upper) for member in alterations)
    identity = members[0].identity
    for member in members[1:]:
        if abs(member.identity - identity) > 1e-9 * (upper - lower):
            raise ValueError(
                "compose: the identities must coincide once the ranges are mapped to "
                f"[{lower:g}, {upper:g}]; {members[0].name} has it at {identity:g}, "
                f"{member.name} at {member.identity:g}"
            )
    return Alteration(
        name or " + ".join(member.name for member in members),
        hashable_partial(_apply_all, members=members),
        lower,
        upper,
        identity=identity,
        stochastic=any(member.stochastic for member in members),
        prepare=hashable_partial(_prepare_first, members=members),
        geometry=_combined_geometry(members),
        moves_pixels=any(member.moves_pixels for member in members),
        about=_combined_about(alterations, lower, upper),
    )


def _combined_geometry(members: Sequence[Alteration]) -> Callable[..., Any] | None:
    """Returns the members' movements one after the other; None if one is unknown."""
    moving = [member.geometry for member in members if member.moves_pixels]
    if not moving or None in moving:
        return None
    return hashable_partial(_all_moves, geometries=tuple(moving))


def _combined_about(members: Sequence[Alteration], lower: float, upper: float) -> About:
    """Describes a composition, whose members keep their own ranges."""
    driven = (
        f"{one.name} from {range_in_words(one)}"
        + (f" ({one.about.level})" if one.about.level else "")
        for one in members
    )
    return About(
        f"{lower:.4g} to {upper:.4g} drive {', then '.join(driven)}",
        _merged(members, "parameters"),
        _merged(members, "words"),
        size_matters=any(one.about.size_matters for one in members),
        leaves_range=any(one.about.leaves_range for one in members),
        jump=next(filter(None, (one.about.jump for one in members)), ""),
        members=tuple(members),
    )


def _merged(members: Sequence[Alteration], field: str) -> dict[str, Any]:
    """Merges a field of the members' `about`, with keys "member: name"."""
    return {
        f"{one.name}: {name}": said
        for one in members
        for name, said in getattr(one.about, field).items()
    }


def _prepare(image: jax.Array, *key: jax.Array, alteration: Alteration) -> Any:
    return alteration.prepared(image, *key)


def _at_rescaled_level(
    prepared: Any,
    level: jax.Array,
    *,
    alteration: Alteration,
    identity: float,
    ratio: float,
) -> jax.Array:
    return alteration.at_level(
        prepared, alteration.identity + (level - identity) * ratio
    )


def _rescaled_representative(
    levels: np.ndarray, *, alteration: Alteration, identity: float, ratio: float
) -> np.ndarray:
    original = alteration.identity + (levels - identity) * ratio
    # Rounding may push an end of the range beyond it.
    original = np.clip(original, alteration.lower, alteration.upper)
    return identity + (alteration.canonical(original) - alteration.identity) / ratio


def _rescaled_moves(
    level: Any,
    size: tuple[int, int],
    *,
    geometry: Callable[..., Any],
    identities: tuple[float, float],
    ratio: float,
) -> Any:
    original, rescaled = identities
    return geometry(original + (level - rescaled) * ratio, size)


def _all_moves(
    level: Any, size: tuple[int, int], *, geometries: tuple[Callable[..., Any], ...]
) -> tuple[Move, ...]:
    return tuple(move for geometry in geometries for move in geometry(level, size))


def _prepare_first(
    image: jax.Array, key: jax.Array | None = None, *, members: tuple[Alteration, ...]
) -> tuple[Any, jax.Array | None]:
    return members[0].prepared(image, _member_key(members, key, 0)), key


def _apply_all(
    first_and_key: tuple[Any, jax.Array | None],
    level: jax.Array,
    *,
    members: tuple[Alteration, ...],
) -> jax.Array:
    first, key = first_and_key
    image = members[0].at_level(first, level)
    for index, member in enumerate(members[1:], 1):
        image = member(image, level, _member_key(members, key, index))
    return image


def _member_key(
    members: tuple[Alteration, ...], key: jax.Array | None, index: int
) -> jax.Array | None:
    if key is None or not members[index].stochastic:
        return None
    return jax.random.fold_in(key, index)
