"""Alterations: pure functions of an image and a level, and what they say of it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.checks import (
    as_written,
    check_ascending,
    check_type,
    checked_array,
    checked_flag,
    checked_number,
    checked_text,
)
from jaxrob._arguments.messages import wrong_type
from jaxrob._identity.identity import FOLLOWS, library, text
from jaxrob._keys import check_key


@dataclasses.dataclass(frozen=True)
class About:
    """An alteration's description of itself, read by reports, warnings and the command.

    It does not affect the computation. Alterations that differ only in it are equal.

    Example::

        about = jaxrob.alterations.About(
            "how many columns are black, from the left",
            doubt=lambda lower, upper, shape: (
                "all of the image is black" if upper >= shape[1] else None
            ),
        )
        bar = jaxrob.Alteration("bar", cover, 0.0, 28.0, unit="px", about=about)

    Attributes:
      level: the meaning of a level in words; its unit is a field of the alteration.
      parameters: the parameters beside the range, by name: texts, numbers and booleans.
        A parameter that depends on the images is a function of their shape `(H, W, C)`.
      words: the meaning of each parameter, by its name.
      default_range: `default_range(height, width)` returns plausible ends of the range
        for pictures of that size; None if the ends are the same for all sizes. Where a
        function without required arguments makes the alteration and no range is
        written, the command calls it again with these ends.
      range_from: the source of the default range.
      doubt: `doubt(lower, upper, image_shape)` returns a text that says what looks like
        a mistake in a range for images of the shape `(H, W, C)` and what may be meant,
        or None if nothing does. The text becomes a warning, after the alteration's
        name. Arrays that are not images raise no doubts, because their values may have
        any unit.
      size_matters: whether the effect of a level depends on the image's size.
      leaves_range: whether the altered image leaves [0, 1] on purpose.
      jump: why the curve jumps beside the identity, and the remedy.
      members: the alterations it is made of, in the order in which they are applied. If
        there are any, their doubts replace its own.

    Raises:
      TypeError: if a field has a wrong type.
      ValueError: if a number is not finite, or `words` explain the level.
    """

    level: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_range: Callable[[int, int], tuple[float, float]] | None = None
    range_from: str = ""
    doubt: Callable[[float, float, tuple[int, ...]], str | None] | None = None
    size_matters: bool = False
    leaves_range: bool = False
    jump: str = ""
    members: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name in ("level", "range_from", "jump"):
            checked_text(f"about: {name}", getattr(self, name), may_be_empty=True)
        for name in ("parameters", "words"):
            check_type(f"about: {name}", getattr(self, name), Mapping, "a mapping")
        for name, value in self.parameters.items():
            checked_text("about: parameters: names", name)
            if not callable(value):
                check_parameter(f"about: parameters: {name}", value)
        for name, value in self.words.items():
            checked_text("about: words: names", name)
            checked_text(f"about: words: {name}", value, may_be_empty=True)
        if "level" in self.words:
            raise ValueError("about: words: what a level is belongs into `level`")
        check_type("about: members", self.members, tuple, "a tuple of alterations")
        for name in ("default_range", "doubt"):
            if (value := getattr(self, name)) is not None:
                check_type(f"about: {name}", value, Callable, "a function or None")
        checked_flag("about: size_matters", self.size_matters)
        checked_flag("about: leaves_range", self.leaves_range)


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
        can follow (`move_mask`, `move_boxes`). The level may be traced; of one that JAX
        cannot trace, journals compare 1,025 levels. At the identity nothing moves.
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
        level = level if isinstance(level, Tracer) else as_written(level)
        level = jnp.asarray(level, jnp.float32)
        return self.at_level(self.prepared(image, key), level)

    def prepared(self, image: jax.Array, key: jax.Array | None = None) -> Any:
        """Computes the part of `at_level` that all levels of one image share."""
        check_type(f"{self.name}: image", image, np.ndarray | jax.Array, "an array")
        if key is not None:
            check_key(key)
        elif self.stochastic:
            raise ValueError(f"{self.name} is stochastic and needs a key; got key=None")
        # JAX may read a NumPy array later, when it is filled with another image.
        image = image.copy() if isinstance(image, np.ndarray) else image
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
    if not jnp.issubdtype(image.dtype, jnp.floating):
        raise wrong_type(f"{name}: image", "floating, in [0, 1]", image)


def with_part(
    image: jax.Array,
    *key: jax.Array,
    name: str,
    part: Callable[..., Any],
    check: Callable[[str, jax.Array], None] = check_image,
) -> tuple[jax.Array, Any]:
    """Returns an image and what a function finds in it, or draws for it."""
    check(name, image)
    return image, part(image, *key)


def at_part(
    image_and_part: tuple[jax.Array, Any],
    level: jax.Array,
    *,
    function: Callable[..., jax.Array],
) -> jax.Array:
    """Alters the image by what `with_part` found."""
    return function(*image_and_part, level)


def in_float32(image: jax.Array) -> jax.Array:
    return image.astype(jnp.promote_types(image.dtype, jnp.float32))


def as_given(altered: jax.Array, image: jax.Array) -> jax.Array:
    """Casts an altered image to the image's precision, as far as JAX has it."""
    return altered.astype(jnp.result_type(image))


def check_colours(name: str, image: jax.Array) -> None:
    check_image(name, image)
    if image.shape[-1] != 3:
        raise ValueError(
            f"{name}: image must have three channels, red, green and blue, because "
            f"{name} is about colours; got {image.shape[-1]}. Leave it out for such "
            "images"
        )


def doubts(alteration: Alteration, image_shape: tuple[int, ...]) -> list[str]:
    """Returns the likely mistakes in the range of an alteration, or in its members'."""
    # Members' ranges are in their own units.
    about = alteration.about
    if about.members:
        return [one for member in about.members for one in doubts(member, image_shape)]
    if about.doubt is None or len(image_shape) != 3:
        return []
    found = about.doubt(alteration.lower, alteration.upper, image_shape)
    check_type(f"{alteration.name}: a doubt", found, str | None, "a text or None")
    return [f"{alteration.name}: {found}"] if found else []


def settings(alteration: Alteration, image_shape: tuple[int, ...]) -> dict[str, Any]:
    """Returns an alteration's parameters beside its range, for images of a shape."""
    found = {}
    for name, value in alteration.about.parameters.items():
        found[name] = value(image_shape) if callable(value) else value
        check_parameter(f"{alteration.name}: {name}", found[name])
    return found


def words(alteration: Alteration) -> dict[str, str]:
    """Returns the meaning of "level" and of each parameter, by name."""
    about = alteration.about
    size = "what it does depends on the images' size" if about.size_matters else ""
    level = "; ".join(filter(None, (about.level, size)))
    return ({"level": level} if level else {}) | dict(about.words)


def range_in_words(alteration: Alteration) -> str:
    """Returns the range with its unit in brackets, for instance "1 to 2 [factor]"."""
    unit = f" [{alteration.unit}]" if alteration.unit else ""
    return f"{alteration.lower:.4g} to {alteration.upper:.4g}{unit}"


def checked_range(
    name: str,
    lower: float,
    upper: float,
    identity: float | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> tuple[float, float]:
    name_low, name_high = f"{name}: lower", f"{name}: upper"
    lower = checked_number(name_low, lower, at_least=at_least, at_most=identity)
    upper = checked_number(name_high, upper, at_least=identity, at_most=at_most)
    check_levels_range(name_low, lower, "upper", upper)
    return lower, upper


def check_levels_range(
    lower_name: str, lower: float, upper_name: str, upper: float
) -> None:
    """Rejects a range that is empty in float32, in which levels are computed."""
    # It has no numbers above 3.4e38 and, as XLA computes, none below 1.2e-38 but 0.
    check_ascending(lower_name, lower, upper_name, upper)
    largest = float(np.finfo(np.float32).max)
    got = f"got {lower:g} and {upper:g}"
    if max(-lower, upper) > largest or upper - lower > largest:
        raise ValueError(
            f"{lower_name} and {upper_name} must lie, and lie apart, at most "
            f"{largest:.2g}, the largest number of float32; {got}"
        )
    apart = float(np.float32(upper)) - float(np.float32(lower))
    if apart < np.finfo(np.float32).tiny:
        raise ValueError(
            f"{lower_name} and {upper_name} must differ in float32, in which levels "
            f"are computed; {got}, which are one number there"
        )


def check_parameter(name: str, value: Any) -> None:
    """Rejects a parameter that a document cannot hold."""
    wanted = "a text, a number, a boolean or a function of a shape"
    check_type(name, value, str | int | float, wanted)
    if isinstance(value, float):
        checked_number(name, value)


UNITS = ("px", "relative")

Length = TypeVar("Length", float, jax.Array)


def unit_text(unit: str) -> str:
    return "px" if unit == "px" else "of the shorter side"


def in_pixels(length: Length, unit: str, image: jax.Array) -> Length:
    return length if unit == "px" else length * min(image.shape[:2])


def from_0_to_part(
    height: int, width: int, *, number: int, unit: str = "px"
) -> tuple[float, float]:
    """Returns a default range from 0 to 1 / `number` of a picture's shorter side."""
    return 0.0, rounded((min(height, width) if unit == "px" else 1) / number)


def rounded(length: float) -> float:
    """Rounds a length to three digits, which are easily read."""
    return float(f"{length:.3g}")
