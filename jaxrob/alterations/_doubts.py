"""Ranges of levels that look like a mistake, most often one of units."""

import math
from collections.abc import Callable, Iterator

from jaxrob._runtime.bound import Bound
from jaxrob.alterations._alteration import Alteration

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
    return all(_home(member) for member in members(alteration))


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
    if _home(alteration) != "_compose":
        yield alteration
        return
    keywords = _keywords(alteration)
    for one in keywords.get("members") or (keywords["alteration"],):
        yield from members(one)


def _home(alteration: Alteration) -> str:
    """The library's module that an alteration's function is from, or nothing."""
    function = alteration.fn
    if isinstance(function, Bound):
        function = function.function
    package, _, module = getattr(function, "__module__", "").rpartition(".")
    return module if package == _PACKAGE else ""


def _keywords(alteration: Alteration) -> dict:
    assert isinstance(alteration.fn, Bound)
    return dict(alteration.fn.keywords)


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


def _brightness(alteration: Alteration, image_shape: tuple[int, ...]) -> str | None:
    del image_shape
    if alteration.upper <= _BRIGHTEST:
        return None
    return (
        f"a level of {alteration.upper:g} makes pixels {1 + alteration.upper:g} times "
        "as bright, so that all but the darkest are white. Levels are relative "
        f"changes: divide percent by 100, {alteration.upper / 100:g}."
    )


_LOOKS: dict[str, Callable[[Alteration, tuple[int, ...]], str | None]] = {
    "_gaussian_noise": _noise,
    "_gaussian_blur": _blur,
    "_translation": _translation,
    "_brightness": _brightness,
}
