"""Levels in pixels, or in parts of the image's shorter side."""

from collections.abc import Callable
from typing import TypeVar

import jax

UNITS = ("px", "relative")

Length = TypeVar("Length", float, jax.Array)


def unit_text(unit: str) -> str:
    """Returns the unit's name in reports."""
    return "px" if unit == "px" else "of the shorter side"


def in_pixels(length: Length, unit: str, image: jax.Array) -> Length:
    """Converts a length to pixels of the image `[H, W, C]`."""
    return length if unit == "px" else length * min(image.shape[:2])


def from_0_to_part(
    number: int, unit: str = "px"
) -> Callable[[int, int], tuple[float, float]]:
    """Returns a default range from 0 to 1 / `number` of a picture's shorter side."""

    def ends(height: int, width: int) -> tuple[float, float]:
        return 0.0, rounded((min(height, width) if unit == "px" else 1) / number)

    return ends


def rounded(length: float) -> float:
    """Rounds a length to three digits, which are easily read."""
    return float(f"{length:.3g}")
