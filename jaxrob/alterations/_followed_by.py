"""An alteration followed by a fixed function that does not depend on the level."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_hashable, check_type, checked_text
from jaxrob._arguments.naming import named
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._alteration import Alteration

# Small, square and larger pictures: some functions move those alone.
_PROBED = (6, 9), (9, 9), (26, 24)


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
        Masks and boxes follow only where it computes each pixel from that pixel alone
        (or `dataclasses.replace` says `geometry` and `moves_pixels`).
      name: its name in reports; by default the name of the corruption, "followed by"
        and the name of the function.

    Returns:
      An alteration with the corruption's levels.

    Raises:
      TypeError: if an argument has a wrong type, or `fixed` has no hash or does not
        take an image alone.
      ValueError: if the name is empty.
    """
    wanted = "a jaxrob.Alteration"
    check_type("followed_by: corruption", corruption, Alteration, wanted)
    check_type("followed_by: fixed", fixed, Callable, "a function of an image")
    check_hashable("followed_by: fixed", fixed)
    _check_takes_an_image(fixed)
    called = _name_of_fixed(fixed)
    if name is None:
        name = f"{corruption.name} followed by {called}"
    checked_text("followed_by: name", name)
    about = corruption.about
    then = f"then {called}, at every level but {corruption.identity:g}"
    stays = _moves_nothing(fixed)
    return Alteration(
        name,
        hashable_partial(_at_level, corruption=corruption, fixed=fixed),
        corruption.lower,
        corruption.upper,
        identity=corruption.identity,
        unit=corruption.unit,
        stochastic=corruption.stochastic,
        prepare=hashable_partial(_prepare, corruption=corruption),
        representative=hashable_partial(_representative, corruption=corruption),
        geometry=corruption.geometry if stays else None,
        moves_pixels=corruption.moves_pixels or not stays,
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
    """Returns the name of a fixed function in words."""
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
            f"{_name_of_fixed(fixed)}{signature}"
        ) from error


def _moves_nothing(fixed: Callable[[jax.Array], jax.Array]) -> bool:
    """Whether it moves no pixels: it is the library's, or other pixels change none."""
    function = getattr(fixed, "function", fixed)
    if getattr(function, "__module__", "").startswith("jaxrob."):
        return True
    try:
        with jax.ensure_compile_time_eval():
            return all(_keeps_places(fixed, shape) for shape in _PROBED)
    except Exception:  # It may need other images than these.
        return False


def _keeps_places(fixed: Callable[[jax.Array], jax.Array], shape: Any) -> bool:
    rng = np.random.default_rng(0)
    first, second = rng.random((2, *shape, 3), np.float32)
    same = rng.random((*shape, 1)) < 0.5
    found, other = (fixed(jnp.where(same, first, one)) for one in (first, second))
    return bool(jnp.where(same, found == other, True).all())


def _prepare(
    image: jax.Array, *key: jax.Array, corruption: Alteration
) -> tuple[jax.Array, Any]:
    return image, corruption.prepared(image, *key)


def _at_level(
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
    """Rejects a result of `fixed` that is not an image like the one given."""
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


def _representative(levels: np.ndarray, *, corruption: Alteration) -> np.ndarray:
    return corruption.canonical(levels)
