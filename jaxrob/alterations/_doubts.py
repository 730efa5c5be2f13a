"""Ranges of levels that look like a mistake, most often one of units."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from jaxrob._runtime.bound import Bound
from jaxrob._runtime.pinned import Pinned
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._followed_by import name_of_fixed
from jaxrob.alterations.common._parameters import FARTHEST

_PACKAGE = __name__.rpartition(".")[0]

# The largest level of a brightness that may be meant: pixels six times as bright.
_BRIGHTEST = 5.0


def doubts(alteration: Alteration, image_shape: tuple[int, ...]) -> list[str]:
    """What looks like a mistake in the ranges of the library's own alterations.

    Args:
      alteration: the alteration; of one that is rescaled or composed, its members.
      image_shape: the shape of one image. Of what is no image `(H, W, C)` nothing is
        doubted, because its values may have any unit.

    Returns:
      Messages that say what was seen and what may be meant.
    """
    if len(image_shape) != 3:
        return []
    found = []
    for member in members(alteration):
        look = _LOOKS.get(_home(member))
        message = look and look(member, image_shape)
        if message:
            found.append(f"{member.name}: {message}")
    return found


def leaves_range_on_purpose(alteration: Alteration) -> bool:
    """Whether its result is to be clipped by nothing: noise with `clip=False`."""
    return any(
        _home(member) == "_gaussian_noise" and not _keywords(member)["clip"]
        for member in members(alteration)
    )


def is_ours(alteration: Alteration) -> bool:
    """Whether all that it is made of is the library's."""
    return all(_home(member) for member in members(alteration)) and all(
        _module(fixed) for fixed in _fixed(alteration)
    )


def crops(alteration: Alteration) -> bool:
    """Whether it is a translation that crops, or one is among its members."""
    return any(
        _home(member) == "_translation" and _keywords(member)["fill"] == "crop"
        for member in members(alteration)
    )


def members(alteration: Alteration) -> Iterator[Alteration]:
    """The alterations that one is made of; itself if it is neither mapped nor composed.

    Their ranges are in their own units.
    """
    parts = _parts(alteration)
    if not parts:
        yield alteration
    for one in parts:
        yield from members(one)


def fixed_function(alteration: Alteration) -> str | None:
    """The name of the fixed function that follows it, or one of its members; or None.

    See `jaxrob.alterations.followed_by`.
    """
    return next(map(name_of_fixed, _fixed(alteration)), None)


def _fixed(alteration: Alteration) -> Iterator[Callable]:
    """The fixed functions that follow it or its members."""
    if _home(alteration) == "_followed_by":
        yield _keywords(alteration)["fixed"]
    for one in _parts(alteration):
        yield from _fixed(one)


def _parts(alteration: Alteration) -> tuple[Alteration, ...]:
    """What it is made of, if it is mapped, composed or followed by something."""
    if _home(alteration) not in ("_compose", "_followed_by"):
        return ()
    keywords = _keywords(alteration)
    if "members" in keywords:
        return keywords["members"]
    return (keywords.get("alteration") or keywords["corruption"],)


def _home(alteration: Alteration) -> str:
    """The library's module that an alteration's function is from, or nothing."""
    return _module(_function(alteration))


def _module(function: Any) -> str:
    if isinstance(function, Bound):
        function = function.function
    package, _, module = getattr(function, "__module__", "").partition(f"{_PACKAGE}.")
    return module if not package else ""


def _keywords(alteration: Alteration) -> dict:
    function = _function(alteration)
    return dict(function.keywords) if isinstance(function, Bound) else {}


def _function(alteration: Alteration) -> Any:
    function = alteration.fn
    return function.function if isinstance(function, Pinned) else function


def _noise(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    del image_shape
    variance = alteration.upper
    if variance <= 1:
        return None
    return (
        f"a variance of {variance:g} is a standard deviation of "
        f"{math.sqrt(variance):.3g}, but pixels lie in [0, 1], so that nothing is left "
        f"of the image. For pixels of 0-255 divide it by 255**2: "
        f"{variance / 255**2:.3g}."
    )


def _blur(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    if alteration.upper < max(image_shape[:2]):
        return None
    return (
        f"a radius of {alteration.upper:g} px blurs all of an image of "
        f"{image_shape[0]} x {image_shape[1]} px into one. It is the Gaussian's "
        "standard deviation; a few pixels are usual."
    )


def _translation(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    keywords = _keywords(alteration)
    size = image_shape[keywords["axis"]]
    farthest = max(-alteration.lower, alteration.upper)
    if farthest < (1 if keywords["relative"] else size):
        return None
    return (
        f"a level of {farthest:g} moves all of an image of {size} px out of sight. "
        'Levels are in pixels, or with unit="relative" in parts of the size: 0.1 is a '
        "tenth."
    )


def _rotation(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    del image_shape
    ends = [end for end in (alteration.lower, alteration.upper) if end]
    turns = [math.degrees(end) for end in ends]
    # Whole degrees in radians have no end: pi / 12 is 0.2617...
    if not ends or max(map(abs, turns)) > 361:
        return None
    if any(
        abs(turn - round(turn)) > 1e-4 or round(end, 3) == end
        for turn, end in zip(turns, ends)
    ):
        return None
    return (
        f"a range of [{alteration.lower:g}, {alteration.upper:g}] is in degrees, and "
        "looks like whole degrees in radians: "
        f"[{math.degrees(alteration.lower):.4g}, {math.degrees(alteration.upper):.4g}]."
    )


def _brightness(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    del image_shape
    if alteration.upper <= _BRIGHTEST:
        return None
    return (
        f"a level of {alteration.upper:g} makes pixels {1 + alteration.upper:g} times "
        "as bright, so that all but the darkest are white. Levels are relative "
        f"changes: divide percent by 100, {alteration.upper / 100:g}."
    )


def _severity(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    size = _keywords(alteration)["size"]
    side = min(image_shape[:2])
    if size is None or max(size / side, side / size) <= FARTHEST:
        return None
    return (
        f"its parameters are those for images of {size} px, and these have "
        f"{image_shape[0]} x {image_shape[1]} px, for which as many pixels mean "
        "something else. size=None takes those of the nearest size."
    )


_LOOKS: dict[str, Callable[[Alteration, tuple[int, ...]], str | None]] = {
    "_gaussian_noise": _noise,
    "_gaussian_blur": _blur,
    "_translation": _translation,
    "_brightness": _brightness,
    "_rotation": _rotation,
    "common._corruption": _severity,
    "common._by_severity": _severity,
}
