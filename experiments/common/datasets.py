"""Classes and images of a data set, or random ones."""

from typing import Any

import numpy as np
from PIL import Image

import jaxrob
from jaxrob import data


def evenly_picked(dataset: jaxrob.Dataset, most: int) -> jaxrob.Dataset:
    """Picks at most this many images: every second, third ... one."""
    return dataset[:: -(-len(dataset) // most)]


def class_names(dataset: jaxrob.Dataset) -> tuple[str, ...]:
    if dataset.class_names is None:
        raise ValueError(f"the data set {dataset.name!r} names no classes")
    return dataset.class_names


def unit_range(images: np.ndarray) -> np.ndarray:
    """Divides bytes by 255: float32 in [0, 1], correctly rounded, as in jaxrob."""
    # XLA would multiply by 1 / 255, an ulp off for half of the bytes.
    return images / np.float32(255)


def test_images(
    name: str | None, shape: tuple[int, ...], count: int, data_dir: Any, seed: int
) -> tuple[np.ndarray, str]:
    """A data set's uint8 images `[count, *shape]`, or noise; nameless, smooth ones."""
    if name is None:
        return smooth_pictures(count, shape[0], seed), "smooth pictures"
    try:
        dataset = data.load(name, "test", data_dir)
    except FileNotFoundError:
        random = np.random.default_rng(seed)
        return random.integers(0, 256, (count, *shape), dtype=np.uint8), "noise"
    repeated = np.resize(np.arange(len(dataset)), count)
    return dataset.images[repeated], dataset.name


def smooth_pictures(number: int, size: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (number, 8, 8, 3), np.uint8)
    how = (size, size), Image.BICUBIC
    smooth = np.stack([Image.fromarray(one).resize(*how) for one in coarse])
    noise = random.integers(-3, 4, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)
