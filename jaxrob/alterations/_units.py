"""Levels in pixels, or in parts of the image's shorter side."""

from collections.abc import Callable
from typing import TypeVar

import jax

UNITS = ("px", "relative")

Length = TypeVar("Length", float, jax.Array)


def unit_text(unit: str) -> str:
    """What reports call the unit."""
    return "px" if unit == "px" else "of the shorter side"


def in_pixels(length: Length, unit: str, image: jax.Array) -> Length:
    """A length in pixels of the image `[H, W, C]`."""
    return length if unit == "px" else length * min(image.shape[:2])


def from_0_to_part(
    number: int, unit: str = "px"
) -> Callable[[int, int], tuple[float, float]]:
    """The range from 0 to one part of so many of a picture's shorter side."""

    def ends(height: int, width: int) -> tuple[float, float]:
        return 0.0, rounded((min(height, width) if unit == "px" else 1) / number)

    return ends


def rounded(length: float) -> float:
    """A length that is easily read: three digits."""
    return float(f"{length:.3g}")
