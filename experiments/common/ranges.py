"""Alterations that the scripts share, beside the papers', and even levels of them."""

import pathlib
from typing import Any

import jax
import numpy as np

import jaxrob
from common import hosts
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


def assessed(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alterations: Any,
    threshold: float,
    num_levels: int,
    key: jax.Array,
    journal: pathlib.Path | None = None,
    **given: Any,
) -> Any:
    """Assesses at even levels, on all devices of all processes."""
    return jaxrob.assess(
        classifier,
        dataset,
        alterations,
        threshold,
        strategy=jaxrob.strategies.Uniform(num_levels),
        key=key,
        journal=journal,
        mesh=hosts.mesh(),
        **given,
    )
