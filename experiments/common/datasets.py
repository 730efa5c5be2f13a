"""Classes and images of a data set."""

import numpy as np

import jaxrob


def evenly_picked(dataset: jaxrob.Dataset, most: int) -> jaxrob.Dataset:
    """Picks at most this many images: every second, third ... one."""
    return dataset[:: -(-len(dataset) // most)]


def class_names(dataset: jaxrob.Dataset) -> tuple[str, ...]:
    """Returns the names of the classes, which the papers' data sets have."""
    if dataset.class_names is None:
        raise ValueError(f"the data set {dataset.name!r} names no classes")
    return dataset.class_names


def unit_range(images: np.ndarray) -> np.ndarray:
    """Divides bytes by 255: float32 in [0, 1], correctly rounded, as in jaxrob.

    XLA would multiply by 1 / 255, which is an ulp off for half of the bytes.
    """
    return images / np.float32(255)
