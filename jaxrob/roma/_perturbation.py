"""A distribution of perturbed images around an image."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_number,
    checked_text,
)
from jaxrob._identity.identity import fingerprinted_parts, is_identifiable
from jaxrob._identity.program import traced

# The balls' norms.
NORMS = ("linf", "l2", "l1")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Perturbation:
    """How random images near an image are drawn.

    `ball`, `from_sampler` and `from_alteration` make the usual ones. Make your own to
    give splitting a move.

    A perturbed image is `apply(image, latent, size)` of a latent draw
    `draw(key, image)`. The latent's distribution does not depend on `size`, so that
    the same draws serve every epsilon. It is a pytree whose one leaf is `size`: another
    epsilon goes through the same compiled program.

    Example::

        def draw(key, image):
            return jax.random.normal(key, image.shape)

        def apply(image, latent, size):
            return image + size * latent

        def move(key, latent, share):
            fresh = jax.random.normal(key, latent.shape)
            return jnp.sqrt(1 - share) * latent + jnp.sqrt(share) * fresh

        noise = jaxrob.roma.Perturbation("noise", draw, apply, move, size=0.1)

    Attributes:
      name: what reports call it.
      draw: `draw(key, image)`, a pytree of arrays.
      apply: `apply(image, latent, size)`, the perturbed image.
      move: `move(key, latent, share)`, a latent of the same distribution that differs
        from the old one in about `share` (in (0, 1]) of what it consists of, reversible
        with respect to that distribution; None if there is none. Multilevel splitting
        needs it.
      norm: "linf", "l2" or "l1" for the uniform distribution in a ball; None otherwise.
        Importance sampling tilts those that `ball` makes.
      size: epsilon.
      clip: whether perturbed images are clipped to [0, 1].
    """

    name: str = dataclasses.field(metadata={"static": True})
    draw: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    apply: Callable[..., jax.Array] = dataclasses.field(metadata={"static": True})
    move: Callable[..., Any] | None = dataclasses.field(
        default=None, metadata={"static": True}
    )
    norm: str | None = dataclasses.field(default=None, metadata={"static": True})
    size: Any = 0.0
    clip: bool = dataclasses.field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        """Checks the fields; the size, a leaf, only where it is a plain value."""
        checked_text("name", self.name)
        check_type("draw", self.draw, Callable, "a function of a key and an image")
        wanted = "a function of an image, a latent draw and a size"
        check_type("apply", self.apply, Callable, wanted)
        if self.move is not None:
            wanted = "a function of a key, a latent draw and a share, or None"
            check_type("move", self.move, Callable, wanted)
        if self.norm is not None:
            check_choice("norm", self.norm, NORMS)
        checked_flag("clip", self.clip)
        # JAX builds trees with leaves of its own.
        if isinstance(self.size, bool | int | float | complex | str | bytes | list):
            checked_number("size", self.size, at_least=0)

    def perturbed(self, image: jax.Array, latent: Any) -> jax.Array:
        """The perturbed image, clipped if `clip` says so."""
        return self.clipped(self.apply(image, latent, self.size))

    def clipped(self, image: jax.Array) -> jax.Array:
        """The image, clipped to [0, 1] if `clip` says so."""
        return jnp.clip(image, 0, 1) if self.clip else image


def fingerprinted_perturbation(
    perturbation: Perturbation, image_shape: tuple[int, ...]
) -> Perturbation:
    """Fingerprints a perturbation as it is now, by what it computes."""
    # The library's own are identified by their parameters, and returned as they are.
    # Other functions are traced, with what they capture: a program compiled for other
    # values does not serve them.
    if is_identifiable(perturbation):
        return perturbation

    def all_of_it(
        key: jax.Array, image: jax.Array, share: jax.Array, of: Perturbation
    ) -> Any:
        latent = of.draw(key, image)
        moved = None if of.move is None else of.move(key, latent, share)
        return of.perturbed(image, latent), moved

    key = jax.eval_shape(jax.random.key, 0)
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    # Its size is an input: another one is no other program.
    program, _ = traced(all_of_it, key, image, 0.5, perturbation)
    return fingerprinted_parts(perturbation, ("draw", "apply", "move"), program)
