"""Classes and images of a data set."""

import numpy as np

import jaxrob


def evenly_picked(dataset: jaxrob.Dataset, most: int) -> jaxrob.Dataset:
    """At most so many images: every second, third ... one."""
    return dataset[:: -(-len(dataset) // most)]


def class_names(dataset: jaxrob.Dataset) -> tuple[str, ...]:
    """The names of the classes, which the data sets of the papers have."""
    if dataset.class_names is None:
        raise ValueError(f"the data set {dataset.name!r} names no classes")
    return dataset.class_names


def unit_range(images: np.ndarray) -> np.ndarray:
    """Bytes divided by 255: float32 in [0, 1], correctly rounded, as jaxrob has them.

    XLA would multiply by 1 / 255, which is an ulp off for half of the bytes.
    """
    return images / np.float32(255)
