"""Where an alteration moves the pixels, so that labels can follow."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_choice, check_type
from jaxrob._arguments.naming import named
from jaxrob.alterations._alteration import Alteration

_OUTSIDE = ("edge", "constant")


class Move(NamedTuple):
    """A movement of all pixels of a picture.

    Positions are (x, y) in pixels from the picture's top left corner, so that the first
    pixel's centre is at (0.5, 0.5).

    Attributes:
      matrix: `[2, 3]`, maps a position (x, y, 1) in the moved picture to the position
        that it shows in the one before.
      fill: what positions outside the picture before show. "edge": the nearest edge
        pixel. "constant": nothing.
    """

    matrix: jax.Array | np.ndarray
    fill: str = "edge"


def unmoved_reason(alteration: Alteration) -> str | None:
    """Says why masks and boxes cannot follow an alteration's pixels.

    Args:
      alteration: the alteration.

    Returns:
      A sentence, or None if they can: the alteration does not move pixels, or it has a
      `geometry`.

    Raises:
      TypeError: if it is not an alteration.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    if not alteration.moves_pixels or alteration.geometry is not None:
        return None
    own = (
        f"{alteration.name} moves pixels and does not say where to, so masks and boxes "
        "cannot follow: it has no `geometry` (see jaxrob.Alteration)."
    )
    return next(filter(None, map(unmoved_reason, alteration.about.members)), own)


def check_moves(alteration: Alteration) -> None:
    """Rejects an alteration that labels cannot follow."""
    if (reason := unmoved_reason(alteration)) is not None:
        raise ValueError(f"alteration must be one that labels can follow; {reason}")


def moves_of(
    alteration: Alteration, level: Any, size: tuple[int, ...]
) -> tuple[Move, ...]:
    """Returns an alteration's movements at a level, the first one first."""
    if alteration.geometry is None:
        return ()
    name = f"{alteration.name}: geometry"
    found = alteration.geometry(level, size)
    if not isinstance(found, tuple) or not all(isinstance(one, Move) for one in found):
        raise TypeError(
            f"{name} must return a tuple of jaxrob.alterations.Move; got {named(found)}"
        )
    for move in found:
        check_choice(f"{name}: fill", move.fill, _OUTSIDE)
        if np.shape(move.matrix) != (2, 3):
            raise ValueError(
                f"{name}: matrix must have the shape [2, 3]; got {named(move.matrix)}"
            )
    return found


def namespace(level: Any) -> Any:
    """Returns `jax.numpy` for a level in JAX; for a number NumPy, which is faster."""
    return jnp if isinstance(level, jax.Array) else np


def window(
    level: Any, start: tuple[Any, Any], scale: Any, fill: str
) -> tuple[Move, ...]:
    """Returns the movement that shows a window of the picture in its full size."""
    top, left = start
    matrix = namespace(level).array([[scale, 0.0, left], [0.0, scale, top]])
    return (Move(matrix, fill_outside(fill)),)


def fill_outside(fill: str) -> str:
    """Returns the fill of a `Move`. With "crop" nothing outside is to be seen."""
    return "constant" if fill == "constant" else "edge"
