"""What an alteration is: a pure function of an image and a level."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from jaxrob._runtime.digest import stable_repr

# Levels this close to the identity, as a share of the range, are the identity: an
# evenly spaced grid may reach it only up to float64's rounding.
_IDENTITY_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Alteration:
    """What may happen to an image, by a level from a range `[lower, upper]`.

    A classifier's robustness is measured over that range. One level, `identity`, leaves
    the image as it is.

    Any pure function is an alteration, on images `[H, W, C]` or any other array.

    Example::

        def fade(image, level):
            return (1 - level) * image + level * 0.5

        fading = jaxrob.Alteration("fading", fade, 0.0, 1.0)
        faded = fading(image, 0.3)

    Attributes:
      name: what reports call it.
      fn: `fn(image, level)`, or `fn(image, level, key)` if `stochastic`; it returns an
        array of the image's shape. It is traced with a scalar float32 level and must
        return the image unchanged at `identity`. A function defined anew at every
        use is compiled anew at every use.
      lower: the lowest level.
      upper: the highest level.
      identity: the level at which nothing is altered; by default `lower`.
      unit: the unit of the levels, for reports.
      stochastic: whether `fn` takes a random key.
      resolution: the smallest step in level that matters, None if any does. Levels
        are rounded to steps from the identity, and none is evaluated twice.
      prepare: the part of the work that does not depend on the level, done once for
        each image however many levels are evaluated. When given,
        `fn(prepared, level)` takes `prepare(image)` (`prepare(image, key)` if
        stochastic) instead of the image.
      representative: `representative(levels)` maps an array of levels to those that
        stand for all with the same effect; by default they are rounded by
        `resolution`.

    Raises:
      ValueError: if the range is empty or not finite, the identity lies outside it,
        or the resolution is not positive.

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

    def __post_init__(self) -> None:
        lower, upper = float(self.lower), float(self.upper)
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise ValueError(
                f"{self.name}: the range must be finite with lower < upper; got "
                f"lower={self.lower}, upper={self.upper}"
            )
        identity = lower if self.identity is None else float(self.identity)
        if not lower <= identity <= upper:
            raise ValueError(
                f"{self.name}: identity must lie in the range [{lower:g}, {upper:g}]; "
                f"got {identity:g}"
            )
        if self.resolution is not None and not self.resolution > 0:
            raise ValueError(
                f"{self.name}: resolution must be positive or None; got "
                f"{self.resolution}"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "identity", identity)

    @property
    def description(self) -> str:
        """The alteration and all its parameters as text.

        The same in every process, so that results can be told apart by it.
        """
        return stable_repr(self)

    def __call__(
        self,
        image: jax.Array,
        level: jax.typing.ArrayLike,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Alters one image.

        Args:
          image: float32 `[H, W, C]` in [0, 1], or another array that `fn` takes.
          level: a scalar in `[lower, upper]`; not checked, since it may be traced.
          key: a random key, needed if the alteration is stochastic.

        Returns:
          The altered image, of the same shape.

        Raises:
          ValueError: if the alteration is stochastic and no key is given, or the
            image has a shape that `fn` refuses.
        """
        return self.at_level(self.prepared(image, key), level)

    def prepared(self, image: jax.Array, key: jax.Array | None = None) -> Any:
        """What `at_level` needs of one image, the same for all levels."""
        if self.stochastic and key is None:
            raise ValueError(f"{self.name} is stochastic and needs a key; got key=None")
        args = (image, key) if self.stochastic else (image,)
        return args if self.prepare is None else (self.prepare(*args),)

    def at_level(self, prepared: Any, level: jax.typing.ArrayLike) -> jax.Array:
        """The altered image, from what `prepared` gave."""
        image, *key = prepared
        return self.fn(image, level, *key)

    def canonical(self, levels: np.ndarray) -> np.ndarray:
        """The levels that stand for `levels`, float64: none is evaluated twice.

        Raises:
          ValueError: if a level is NaN or outside the range.
        """
        levels = np.asarray(levels, np.float64)
        outside = ~((levels >= self.lower) & (levels <= self.upper))
        if outside.any():
            raise ValueError(
                f"{self.name}: levels must lie in [{self.lower:g}, {self.upper:g}]; "
                f"got {levels[outside][0]:g}"
            )
        levels = self.snap(levels)
        if self.representative is not None:
            levels = self.representative(levels)
        elif self.resolution is not None:
            steps = np.round((levels - self.identity) / self.resolution)
            levels = self.identity + steps * self.resolution
        return np.clip(self.snap(levels), self.lower, self.upper)

    def snap(self, levels: np.ndarray) -> np.ndarray:
        """The levels, with those that miss the identity by rounding alone set to it."""
        tolerance = _IDENTITY_TOLERANCE * (self.upper - self.lower)
        near = np.abs(levels - self.identity) <= tolerance
        return np.where(near, self.identity, levels)


def check_image(name: str, image: jax.Array) -> None:
    """Refuses an array that is not one image `[H, W, C]`."""
    if image.ndim != 3 or 0 in image.shape:
        raise ValueError(
            f"{name}: image must have the shape [H, W, C]; got {image.shape}"
        )
