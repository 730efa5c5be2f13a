"""Batches of original and altered images, their levels and their numbers."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_sequence,
)
from jaxrob._dataset import Dataset
from jaxrob._keys import host_generator
from jaxrob.alterations import Alteration
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.training import Batches, Losses
from jaxrob.training._fit import check_training


class Subset(NamedTuple):
    alteration: Alteration | None  # None for the originals
    images: np.ndarray  # rows of the data set
    copies: int  # the number of copies of each image

    @property
    def size(self) -> int:
        return len(self.images) * self.copies


def check(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    levels: str,
    key: jax.Array,
    training: dict[str, Any],
) -> None:
    check_alterations(alterations)
    check_choice("levels", levels, LEVELS)
    check_training(module, dataset, key, **training)


def check_alterations(alterations: Any) -> None:
    checked_sequence("alterations", alterations, Alteration, "jaxrob.Alteration")


def originals(shape: tuple[int, ...]) -> list[Subset]:
    return [Subset(None, np.arange(shape[0]), 1)]


def on_half(
    shape: tuple[int, ...], alterations: Sequence[Alteration], key: jax.Array
) -> list[Subset]:
    """Returns a part for each alteration, of half the images, drawn independently."""
    number, rng = shape[0], host_generator(key)
    return [
        subset._replace(images=np.sort(rng.permutation(number)[: number // 2]))
        for subset in on_all(shape, alterations)
    ]


def on_all(shape: tuple[int, ...], alterations: Sequence[Alteration]) -> list[Subset]:
    every, image_shape = np.arange(shape[0]), shape[1:]
    return [
        Subset(fingerprinted_alteration(one, image_shape), every, copies(one))
        for one in alterations
    ]


LEVELS = ("random", "grid")


def random_levels(
    alteration: Alteration, shape: tuple[int, ...], key: jax.Array
) -> jax.Array:
    return jax.random.uniform(
        key, shape, jnp.float32, alteration.lower, alteration.upper
    )


def grid_levels(
    alteration: Alteration, num_copies: int, copy: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Returns the levels of the 2020 paper's scripts, one for each copy of an image."""
    # The upper end of the range and the point halfway there and, with four copies, the
    # same for the lower end. If the upper end is the identity, it is the lower end.
    identity = alteration.identity
    sides = (alteration.upper, alteration.lower)
    if identity == alteration.upper:
        sides = sides[::-1]
    ends = sides[: num_copies // 2]
    grid = [identity + share * (end - identity) for end in ends for share in (0.5, 1)]
    return jnp.broadcast_to(jnp.asarray(grid, jnp.float32)[copy], shape)


def copies(alteration: Alteration) -> int:
    """The number of altered copies of an image: "xn" in table II of the 2020 paper.

    It is 4 if levels lie on both sides of the identity, 2 if on one side only, and 2
    for rotation, whose two sides meet.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    one_sided = alteration.identity in (alteration.lower, alteration.upper)
    return 2 if one_sided or alteration.name == "rotation" else 4


def input_sizes(
    num_images: int, alterations: Sequence[Alteration], weak: Sequence[Alteration]
) -> dict[str, int]:
    """The images in an epoch of each method: table III of the 2020 paper, "input size".

    For its 210,593 originals, the paper's DA and NP have 824 fewer images than this
    function returns: its scripts lose some copies.

    Args:
      num_images: the number of originals.
      alterations: all alterations.
      weak: the alterations that the limited methods use.

    Returns:
      The sizes of "original", "DA", "LDA", "NP" and "LNP".
    """
    num_images = checked_integer("num_images", num_images, at_least=1)
    for name, some in (("alterations", alterations), ("weak", weak)):
        checked_sequence(name, some, Alteration, "jaxrob.Alteration", min_length=0)
    half = num_images // 2
    altered = half * sum(map(copies, alterations))
    weakly_altered = num_images * sum(map(copies, weak))
    return {
        "original": num_images,
        "DA": num_images + altered,
        "LDA": num_images + weakly_altered,
        "NP": altered,
        "LNP": weakly_altered,
    }


def mixture(
    subsets: Sequence[Subset], levels: str = "random", candidates: int = 1
) -> Callable[[int], Batches]:
    """Returns batches of all copies in random order, mixed as evenly as possible."""
    # Subsets keep their proportions, up to an image or two. Shapes are static: a step
    # alters as many of each subset as any batch holds, and trains on its batch's.
    total = sum(subset.size for subset in subsets)
    parts = [
        f"{subset.copies} of {len(subset.images)}, "
        f"{subset.alteration.description if subset.alteration else 'as they are'}"
        for subset in subsets
    ]
    description = f"{levels} levels, {candidates} candidates: {'; '.join(parts)}"

    def batches(batch_size: int) -> Batches:
        layout = _layout(subsets, total // batch_size, batch_size)
        make = functools.partial(
            _make, subsets, layout.num_read, levels=levels, candidates=candidates
        )
        draw = functools.partial(_draw, subsets, layout)
        return Batches(total, draw, make, description)

    return batches


class _Layout(NamedTuple):
    num_read: np.ndarray  # `[subsets]`, images that a step reads: the most in a batch
    starts: np.ndarray  # `[T, subsets]`, copies in all earlier batches
    chosen: np.ndarray  # int32 `[T, B]`, the images to train on, of those read


def _layout(subsets: Sequence[Subset], steps: int, batch_size: int) -> _Layout:
    # The copies of each subset are spaced evenly on [0, 1]; batches take them in order.
    sizes = [subset.size for subset in subsets]
    places = [(np.arange(size) + 0.5) / size for size in sizes]
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    kinds = kinds[np.argsort(np.concatenate(places), kind="stable")]
    kinds = kinds[: steps * batch_size].reshape(steps, batch_size)
    # `[T, subsets]`, the number of copies of each subset that each step trains on.
    counts = np.stack([(kinds == i).sum(axis=1) for i in range(len(sizes))], axis=1)
    num_read = counts.max(axis=0, initial=0)
    is_chosen = np.concatenate(
        [np.arange(most) < count[:, None] for most, count in zip(num_read, counts.T)],
        axis=1,
    )
    chosen = np.nonzero(is_chosen)[1].reshape(steps, batch_size).astype(np.int32)
    return _Layout(num_read, np.cumsum(counts, axis=0) - counts, chosen)


def _draw(
    subsets: Sequence[Subset], layout: _Layout, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draws the images that each step of an epoch reads, and the numbers of copies."""
    index, copy = [], []
    for subset, most, start in zip(subsets, layout.num_read, layout.starts.T):
        order = rng.permutation(subset.size)
        rows = start[:, None] + np.arange(most)
        order = order[np.minimum(rows, subset.size - 1)]
        index.append(subset.images[order // subset.copies])
        copy.append((order % subset.copies).astype(np.int32))
    return {
        "index": np.concatenate(index, axis=1),
        "copy": np.concatenate(copy, axis=1),
        "chosen": layout.chosen,
    }


def _make(
    subsets: Sequence[Subset],
    num_read: np.ndarray,
    images: jax.Array,
    labels: jax.Array,
    drawn: dict[str, jax.Array],
    key: jax.Array,
    losses: Losses,
    *,
    levels: str,
    candidates: int,
) -> tuple[jax.Array, jax.Array]:
    chosen = drawn["chosen"]
    cuts = np.cumsum(num_read)[:-1]
    blocks = zip(subsets, jnp.split(images, cuts), jnp.split(drawn["copy"], cuts))
    copies = [
        _altered_subset(*block, jax.random.fold_in(key, number), levels, candidates)
        for number, block in enumerate(blocks)
    ]
    images, labels = jnp.concatenate(copies, axis=1)[:, chosen], labels[chosen]
    if candidates == 1:
        return images[0], labels
    flat = images.reshape(-1, *images.shape[2:])
    loss = losses(flat, jnp.tile(labels, candidates))
    worst = loss.reshape(candidates, -1).argmax(axis=0)
    return images[worst, jnp.arange(len(chosen))], labels


def _altered_subset(
    subset: Subset,
    images: jax.Array,
    copy: jax.Array,
    key: jax.Array,
    levels: str,
    candidates: int,
) -> jax.Array:
    """Alters the images of one subset at their levels, `[candidates, b, ...]`."""
    alteration = subset.alteration
    if alteration is None:
        return jnp.broadcast_to(images, (candidates, *images.shape))
    level_key, noise_key = jax.random.split(key)
    shape = candidates, len(images)
    if levels == "grid":
        level = grid_levels(alteration, subset.copies, copy, shape)
    else:
        level = random_levels(alteration, shape, level_key)
    keys = jax.random.split(noise_key, len(images))
    prepared = jax.vmap(alteration.prepared)(images, keys)
    return jax.vmap(jax.vmap(alteration.at_level), (None, 0))(prepared, level)
