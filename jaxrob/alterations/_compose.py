"""Levels mapped to another range, and several functions as one alteration."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import (
    check_hashable,
    check_type,
    checked_sequence,
    checked_text,
)
from jaxrob._arguments.messages import named
from jaxrob._identity.identity import hashable_partial
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    checked_range,
    range_in_words,
)
from jaxrob.alterations._moves import Move, moves_of


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
    mapping = {"alteration": alteration, "identity": identity, "ratio": ratio}
    return dataclasses.replace(
        alteration,
        fn=hashable_partial(_at_rescaled_level, **mapping),
        lower=lower,
        upper=upper,
        identity=identity,
        unit=unit,
        resolution=alteration.resolution and alteration.resolution / ratio,
        prepare=hashable_partial(_prepare, alteration=alteration),
        representative=hashable_partial(_rescaled_representative, **mapping),
        geometry=alteration.geometry and hashable_partial(_rescaled_moves, **mapping),
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
        about=about_all(alterations, _driven(alterations, lower, upper)),
    )


def _combined_geometry(members: tuple[Alteration, ...]) -> Callable[..., Any] | None:
    """Returns the members' movements one after the other; None if one is unknown."""
    moving = [member.geometry for member in members if member.moves_pixels]
    if not moving or None in moving:
        return None
    return hashable_partial(_all_moves, members=members)


def _driven(members: Sequence[Alteration], lower: float, upper: float) -> str:
    driven = (
        f"{one.name} from {range_in_words(one)}"
        + (f" ({one.about.level})" if one.about.level else "")
        for one in members
    )
    return f"{lower:.4g} to {upper:.4g} drive {', then '.join(driven)}"


def about_all(members: Sequence[Alteration], level: str = "") -> About:
    """Describes alterations that follow each other and keep their own ranges."""
    return About(
        level,
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
    alteration: Alteration,
    identity: float,
    ratio: float,
) -> tuple[Move, ...]:
    original = alteration.identity + (level - identity) * ratio
    return moves_of(alteration, original, size)


def _all_moves(
    level: Any, size: tuple[int, int], *, members: tuple[Alteration, ...]
) -> tuple[Move, ...]:
    return tuple(move for one in members for move in moves_of(one, level, size))


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


def followed_by(
    corruption: Alteration,
    fixed: Callable[[jax.Array], jax.Array],
    name: str | None = None,
) -> Alteration:
    """Applies a fixed function to the altered image, except at the identity.

    Images that are stored, sent or shown on their way to the classifier go through one
    more function, the same at all levels. `compose` cannot express it, because it
    drives all members by the level.

    Example::

        def to_bytes(image):
            return jnp.floor(image * 255) / 255

        stored = jaxrob.alterations.followed_by(blur, to_bytes)

    At the identity the image stays as it is, so the curve may jump beside it: from
    the clean images to the effect of `fixed` alone. An assessment that sees the
    jump warns about it.

    Args:
      corruption: the alteration.
      fixed: `fixed(image)`, a pure function; it returns an array of the image's shape.
        It may move pixels, so masks and boxes are refused. If it moves none, say so:
        `dataclasses.replace(stored, geometry=blur.geometry,
        moves_pixels=blur.moves_pixels)`.
      name: its name in reports; by default the name of the corruption, "followed by"
        and the name of the function.

    Returns:
      An alteration with the corruption's levels.

    Raises:
      TypeError: if an argument has a wrong type, or `fixed` has no hash or does not
        take an image alone.
      ValueError: if the name is empty.
    """
    check_type("followed_by: corruption", corruption, Alteration, "a jaxrob.Alteration")
    check_type("followed_by: fixed", fixed, Callable, "a function of an image")
    check_hashable("followed_by: fixed", fixed)
    _check_takes_an_image(fixed)
    called = _name_of_fixed(fixed)
    if name is None:
        name = f"{corruption.name} followed by {called}"
    checked_text("followed_by: name", name)
    about = corruption.about
    then = f"then {called}, at every level but {corruption.identity:g}"
    return dataclasses.replace(
        corruption,
        name=name,
        fn=hashable_partial(_then_fixed, corruption=corruption, fixed=fixed),
        prepare=hashable_partial(_prepare_corruption, corruption=corruption),
        geometry=None,
        moves_pixels=True,  # It may.
        about=dataclasses.replace(
            about,
            level=f"{about.level}, {then}" if about.level else then,
            parameters={**about.parameters, "followed by": called},
            jump=about.jump
            or f"It is followed by {called} at any level but the identity: the jump is "
            "what that alone does to the images. Without it, the corruption alone is "
            "measured (in a preset, published=False).",
            members=(corruption,),
        ),
    )


def _name_of_fixed(fixed: Callable[..., Any]) -> str:
    function = getattr(fixed, "function", getattr(fixed, "func", fixed))
    name = getattr(function, "__name__", type(function).__name__)
    return name.strip("_").replace("_", " ")


def _check_takes_an_image(fixed: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(fixed)
    except ValueError:  # Some built-in functions have no signature.
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(
            "followed_by: fixed must be a function of an image alone; got "
            f"{_name_of_fixed(fixed)}: {error}"
        ) from error


def _prepare_corruption(
    image: jax.Array, *key: jax.Array, corruption: Alteration
) -> tuple[jax.Array, Any]:
    return image, corruption.prepared(image, *key)


def _then_fixed(
    image_and_prepared: tuple[jax.Array, Any],
    level: jax.Array,
    *,
    corruption: Alteration,
    fixed: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    image, prepared = image_and_prepared
    # If levels are looped over, this computes nothing at the identity.
    return jax.lax.cond(
        level == corruption.identity,
        lambda: image,
        lambda: _checked_like(image, fixed(corruption.at_level(prepared, level))),
    )


def _checked_like(image: jax.Array, found: Any) -> jax.Array:
    if getattr(found, "shape", None) != image.shape:
        raise ValueError(
            f"followed_by: fixed must return an array of the image's shape "
            f"{image.shape}; got {named(found)}"
        )
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise TypeError(
            f"followed_by: fixed must return a floating image in [0, 1]; got "
            f"{named(found)}"
        )
    return found.astype(image.dtype)
