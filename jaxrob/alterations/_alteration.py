"""Alterations: pure functions of an image and a level."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_flag,
    checked_number,
    checked_text,
)
from jaxrob._arguments.naming import wrong_type
from jaxrob._identity.identity import FOLLOWS, library, text
from jaxrob._keys import check_key
from jaxrob.alterations._about import About
from jaxrob.alterations._checks import checked_range

# Levels this close to the identity, as a share of the range, count as the identity: an
# evenly spaced grid may miss it by float64's rounding.
_IDENTITY_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Alteration:
    """A change that may happen to an image, by a level from a range `[lower, upper]`.

    A classifier's robustness is measured over that range. One level, `identity`, leaves
    the image as it is.

    Any pure function is an alteration, on images `[H, W, C]` or any other array.

    Example::

        def fade(image, level):
            return (1 - level) * image + level * 0.5

        fading = jaxrob.Alteration("fading", fade, 0.0, 1.0)
        faded = fading(image, 0.3)

    Attributes:
      name: its name in reports.
      fn: `fn(image, level)`, or `fn(image, level, key)` if `stochastic`; it returns an
        array of the image's shape. It is traced with a scalar float32 level and must
        return the image unchanged at `identity`. Define it once: a function defined
        again at every use is recompiled at every use.
      lower: the lowest level.
      upper: the highest level.
      identity: the level at which nothing is altered; by default `lower`.
      unit: the unit of the levels, for reports.
      stochastic: whether `fn` takes a random key.
      resolution: the smallest step in level that matters, None if any does. Levels are
        rounded to steps from the identity, and no level is evaluated twice.
      prepare: the part of the work that does not depend on the level, done once for
        each image however many levels are evaluated. If it is given,
        `fn(prepared, level)` takes `prepare(image)` (`prepare(image, key)` if
        stochastic) instead of the image.
      representative: `representative(levels)` maps an array of levels to levels that
        represent all those with the same effect; by default levels are rounded by
        `resolution`.
      about: its description of itself, for reports and warnings: the meaning of a
        level, the parameters, the ranges that look like a mistake.
      geometry: `geometry(level, (height, width))` returns where it moves the pixels: a
        tuple of `jaxrob.alterations.Move`, the first movement first. So masks and boxes
        can follow (`move_mask`, `move_boxes`). The level may be traced; at the identity
        nothing moves.
      moves_pixels: whether it moves what is to be seen. By default it does if it has a
        `geometry`; without one, labels with places are taken to fit the altered image
        as they are. Set it to True if it moves pixels in a way no `Move` describes:
        then such labels are refused.

    Raises:
      TypeError: if a field has a wrong type.
      ValueError: if the range is empty, not finite, wider than float32 holds or one
        number there, the identity lies outside it, or the resolution is not positive.

    Source: Definition 3 of Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with
    robustness of convolutional neural networks for image classification, 2020: a
    transformation that mimics what happens to an image when a problem occurs in its
    acquisition or its elaboration.
    """

    name: str
    fn: Callable[..., Any]
    lower: float
    upper: float
    # None becomes `lower`, so that readers always find a number.
    identity: float = cast(float, None)
    unit: str = ""
    stochastic: bool = False
    resolution: float | None = None
    prepare: Callable[..., Any] | None = None
    representative: Callable[[np.ndarray], np.ndarray] | None = None
    about: About = dataclasses.field(default=About(), compare=False, repr=False)
    # Of the library's own alterations these follow from `fn` and are not described.
    geometry: Callable[..., Any] | None = dataclasses.field(
        default=None, repr=False, metadata=FOLLOWS
    )
    moves_pixels: bool = dataclasses.field(default=False, repr=False, metadata=FOLLOWS)

    def __post_init__(self) -> None:
        name = checked_text("name", self.name)
        check_type(
            f"{name}: fn", self.fn, Callable, "a function of an image and a level"
        )
        for part in ("prepare", "representative", "geometry"):
            value = getattr(self, part)
            if value is not None:
                check_type(f"{name}: {part}", value, Callable, "a function or None")
        lower, upper = checked_range(name, self.lower, self.upper)
        identity = lower
        if self.identity is not None:
            identity = checked_number(
                f"{name}: identity", self.identity, at_least=lower, at_most=upper
            )
        if self.resolution is not None:
            resolution = checked_number(f"{name}: resolution", self.resolution, above=0)
            object.__setattr__(self, "resolution", resolution)
        checked_text(f"{name}: unit", self.unit, may_be_empty=True)
        checked_flag(f"{name}: stochastic", self.stochastic)
        moves = checked_flag(f"{name}: moves_pixels", self.moves_pixels)
        object.__setattr__(self, "moves_pixels", moves or self.geometry is not None)
        check_type(f"{name}: about", self.about, About, "a jaxrob.alterations.About")
        for one in self.about.members:
            check_type(f"{name}: about: members", one, Alteration, "alterations")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "identity", identity)

    @functools.cached_property
    def description(self) -> str:
        """The library's version, and the alteration with all its parameters, as text.

        It is the same in every process. Arrays appear as digests, and your own
        functions by name. Results and journals also hold a digest of the computation,
        which distinguishes functions of the same name.
        """
        return f"{library()}: {text(self)}"

    def __call__(
        self,
        image: jax.Array,
        level: jax.typing.ArrayLike,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Alters one image."""
        check_level(self, level)
        level = jnp.asarray(level, jnp.float32)
        return self.at_level(self.prepared(image, key), level)

    def prepared(self, image: jax.Array, key: jax.Array | None = None) -> Any:
        """Computes the part of `at_level` that all levels of one image share."""
        check_type(f"{self.name}: image", image, np.ndarray | jax.Array, "an array")
        if key is not None:
            check_key(key)
        elif self.stochastic:
            raise ValueError(f"{self.name} is stochastic and needs a key; got key=None")
        args = (image, key) if self.stochastic else (image,)
        return args if self.prepare is None else (self.prepare(*args),)

    def at_level(self, prepared: Any, level: jax.typing.ArrayLike) -> jax.Array:
        """Returns the altered image, from the result of `prepared`."""
        image, *key = prepared
        return self.fn(image, level, *key)

    def canonical(self, levels: np.ndarray) -> np.ndarray:
        """Returns the levels that represent `levels`, float64: none is evaluated twice.

        Raises:
          ValueError: if a level is NaN or outside the range.
        """
        levels = self.snap(
            checked_array(
                f"{self.name}: levels",
                levels,
                "...",
                at_least=self.lower,
                at_most=self.upper,
            )
        )
        if self.representative is not None:
            levels = self.representative(levels)
        elif self.resolution is not None:
            steps = np.round((levels - self.identity) / self.resolution)
            levels = self.identity + steps * self.resolution
        return np.clip(self.snap(levels), self.lower, self.upper)

    def snap(self, levels: np.ndarray) -> np.ndarray:
        """Sets levels that miss the identity by rounding to the identity."""
        levels = checked_array(f"{self.name}: levels", levels, "...").astype(np.float64)
        tolerance = _IDENTITY_TOLERANCE * (self.upper - self.lower)
        near = np.abs(levels - self.identity) <= tolerance
        return np.where(near, self.identity, levels)


def check_level(alteration: Alteration, level: Any) -> None:
    """Rejects a level outside the range, unless it is traced."""
    if isinstance(level, Tracer):
        return
    lower, upper = alteration.lower, alteration.upper
    # float32 may round an end of the range to a level outside it.
    slack = 1e-6 * max(abs(lower), abs(upper))
    found = checked_number(f"{alteration.name}: level", level)
    if not lower - slack <= found <= upper + slack:
        raise ValueError(
            f"{alteration.name}: level must lie in [{lower:g}, {upper:g}]; got "
            f"{found:g}"
        )


def check_image(name: str, image: jax.Array) -> None:
    """Rejects an array that is not one floating image `[H, W, C]`."""
    if image.ndim == 2:
        raise ValueError(
            f"{name}: image must have the shape [H, W, C]; got {image.shape}: the axis "
            "of the channels is missing (images[..., None] adds one)"
        )
    if image.ndim != 3 or 0 in image.shape:
        raise ValueError(
            f"{name}: image must have the shape [H, W, C]; got {image.shape}"
        )
    check_floating(name, image)


def check_floating(name: str, image: jax.Array) -> None:
    """Rejects an array, of any shape, whose numbers are not floating."""
    if not jnp.issubdtype(image.dtype, jnp.floating):
        raise wrong_type(f"{name}: image", "floating, in [0, 1]", image)


def in_float32(image: jax.Array) -> jax.Array:
    """Casts an image of half precision to float32 for the computation."""
    return image.astype(jnp.promote_types(image.dtype, jnp.float32))


def as_given(altered: jax.Array, image: jax.Array) -> jax.Array:
    """Casts an altered image to the image's precision, as far as JAX has it."""
    return altered.astype(jnp.result_type(image))


def check_colours(name: str, image: jax.Array) -> None:
    """Rejects an image that does not have the channels red, green and blue."""
    check_image(name, image)
    if image.shape[-1] != 3:
        raise ValueError(
            f"{name}: image must have three channels, red, green and blue, because "
            f"{name} is about colours; got {image.shape[-1]}. Leave it out for such "
            "images"
        )
