"""Alterations that the scripts share, beside the papers', and levels in a range."""

import numpy as np

import jaxrob
from jaxrob import alterations

# Ranges so wide that a network trained on clean digits fails in some.
WIDE = (
    alterations.horizontal_translation(-6.0, 6.0, fill="constant"),
    alterations.vertical_translation(-6.0, 6.0, fill="constant"),
    alterations.rotation(-60.0, 60.0, fill="constant"),
    alterations.brightness(-0.9, 0.9),
    alterations.zoom(1.0, 2.0),
    alterations.gaussian_noise(0.0, 0.4),
    alterations.gaussian_blur(0.0, 4.0),
    alterations.jpeg_compression(0.0, 100.0),
)


def evenly_spaced_levels(alteration: jaxrob.Alteration, number: int) -> np.ndarray:
    """Levels from one end of an alteration's range to the other."""
    # Symmetric, unlike `numpy.linspace`'s: the middle of [-4, 4] is 0.
    share = np.arange(number) / (number - 1)
    return alteration.lower * share[::-1] + alteration.upper * share
