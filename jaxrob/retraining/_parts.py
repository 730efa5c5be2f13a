"""The images that are copied, their alterations, and their numbers of copies."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._arguments.checks import check_choice, checked_sequence
from jaxrob._dataset import Dataset
from jaxrob._keys import host_generator
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.retraining._levels import LEVELS
from jaxrob.retraining._sizes import copies
from jaxrob.training._checks import check_training


class Subset(NamedTuple):
    """Copies of some images, all altered in the same way.

    Attributes:
      alteration: None for the originals.
      images: rows of the data set.
      copies: the number of copies of each image.
    """

    alteration: Alteration | None
    images: np.ndarray
    copies: int

    @property
    def size(self) -> int:
        """The number of all copies."""
        return len(self.images) * self.copies


def check(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    levels: str,
    key: jax.Array,
    training: dict[str, Any],
) -> None:
    """Rejects wrong training arguments, alterations, or ways to choose levels."""
    check_alterations(alterations)
    check_choice("levels", levels, LEVELS)
    check_training(module, dataset, key, **training)


def check_alterations(alterations: Any) -> None:
    """Rejects an argument that is not a sequence of at least one alteration."""
    if isinstance(alterations, Alteration):
        raise TypeError(
            "alterations must be a sequence; got an Alteration: give [alteration]"
        )
    checked_sequence("alterations", alterations, Alteration, "jaxrob.Alteration")


def originals(shape: tuple[int, ...]) -> list[Subset]:
    """Returns the part of every image, unaltered; `shape` is that of all images."""
    return [Subset(None, np.arange(shape[0]), 1)]


def on_half(
    shape: tuple[int, ...], alterations: Sequence[Alteration], key: jax.Array
) -> list[Subset]:
    """Returns a part for each alteration, of half the images, drawn independently."""
    number, rng = shape[0], host_generator(key)
    return [
        Subset(
            fingerprinted_alteration(alteration, shape[1:]),
            np.sort(rng.permutation(number)[: number // 2]),
            copies(alteration),
        )
        for alteration in alterations
    ]


def on_all(shape: tuple[int, ...], alterations: Sequence[Alteration]) -> list[Subset]:
    """Returns a part for each alteration, of every image."""
    every = np.arange(shape[0])
    return [
        Subset(
            fingerprinted_alteration(alteration, shape[1:]), every, copies(alteration)
        )
        for alteration in alterations
    ]
