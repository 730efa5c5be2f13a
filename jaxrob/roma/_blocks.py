"""Inputs, or pairs of an input and a class, in blocks of one size."""

import functools
from collections.abc import Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._devices.memory import nearest_bucket

Tree = TypeVar("Tree")


def blocks(
    tree: Tree, mesh: Mesh, most: int, base: int = 2
) -> Iterator[tuple[Tree, int]]:
    """Blocks of rows, all of one size. The last row is repeated to fill the last one.

    Args:
      tree: a pytree of arrays `[N, ...]` on the host.
      mesh: the devices.
      most: rows that each device takes at most in a block.
      base: blocks of fewer have a power of this many rows, so that they are of few
        sizes, each of which is a program.

    Yields:
      A block, and how many of its rows count.
    """
    number = len(jax.tree.leaves(tree)[0])
    size = rows_in_block(number, mesh, most, base)
    for first in range(0, number, size):
        chosen = np.minimum(np.arange(first, first + size), number - 1)
        take = functools.partial(np.take, indices=chosen, axis=0)
        yield jax.tree.map(take, tree), min(size, number - first)


def rows_in_block(number: int, mesh: Mesh, most: int, base: int = 2) -> int:
    """The rows of a block of `blocks`, of so many rows in all."""
    return min(most, nearest_bucket(number // mesh.size, base)) * mesh.size


def first_of(tree: Tree, number: int) -> Tree:
    """The first rows of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[:number], tree)


def taken(tree: Tree, chosen: np.ndarray | slice) -> Tree:
    """The rows chosen (by position) of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[chosen], tree)


def put_at(tree: Tree, chosen: np.ndarray, part: Tree) -> Tree:
    """A copy of a pytree of NumPy arrays with other rows at the positions chosen."""

    def one(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = np.array(array)
        array[chosen] = new
        return array

    return jax.tree.map(one, tree, part)


def joined(parts: list[Any]) -> Any:
    """Pytrees of arrays, put together along the first axis."""
    return jax.tree.map(lambda *some: np.concatenate(some), *parts)


def check_valid(valid: np.ndarray, indices: np.ndarray) -> None:
    """Refuses a classifier's outputs that are no distributions.

    Args:
      valid: `[n]` whether the outputs on an input's perturbations are distributions.
      indices: `[n]` or more, the inputs' indices.

    Raises:
      ValueError: if some are not.
    """
    invalid = indices[: len(valid)][~valid]
    if len(invalid):
        raise ValueError(
            "what the classifier returned for perturbations of "
            f"{len(set(invalid.tolist()))} of the inputs, first of input {invalid[0]}, "
            "is no distribution (NaN, infinite logits, or rows that do not sum to 1); "
            "for the unperturbed images it was. Either it fails on perturbed images, "
            "or its answers depend on the images beside them in a batch, as in "
            "training mode: then switch that off (train=False, model.eval())"
        )
