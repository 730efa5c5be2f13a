"""Batches of original and altered images, in fixed proportions."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.retraining._levels import altered, grid_levels, random_levels
from jaxrob.retraining._parts import Subset
from jaxrob.training import Batches, Losses


def mixture(
    subsets: Sequence[Subset], levels: str = "random", candidates: int = 1
) -> Callable[[int], Batches]:
    """Returns batches of all copies in random order, mixed as evenly as possible."""
    # Every batch holds each subset in the same proportion, up to an image or two. An
    # epoch holds each image once for each of its copies. To keep shapes static, a step
    # reads as many images of each subset as any batch holds. It alters them all, but
    # trains only on those of its batch: alterations run on a few more images than the
    # network.
    total = sum(subset.size for subset in subsets)
    description = f"{levels} levels, {candidates} candidates: " + "; ".join(
        f"{subset.copies} of {len(subset.images)}, "
        + (
            "as they are"
            if subset.alteration is None
            else subset.alteration.description
        )
        for subset in subsets
    )

    def batches(batch_size: int) -> Batches:
        layout = _layout(subsets, total // batch_size, batch_size)
        make = functools.partial(
            _make, subsets, layout.num_read, levels=levels, candidates=candidates
        )
        draw = functools.partial(_draw, subsets, layout)
        return Batches(total, draw, make, description)

    return batches


class _Layout(NamedTuple):
    """The division of an epoch's batches among the subsets.

    Attributes:
      num_read: `[subsets]`, the images of each subset that a step reads: the largest
        number in any batch.
      starts: `[T, subsets]`, the copies of each subset in all earlier batches.
      chosen: int32 `[T, B]`, indices of the images to train on, among the images that a
        step reads, subset by subset.
    """

    num_read: np.ndarray
    starts: np.ndarray
    chosen: np.ndarray


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
        # Rows that are not trained on may repeat the last copy.
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
    """Makes the batch of a step from the images that it read; traced."""
    chosen = drawn["chosen"]
    cuts = np.cumsum(num_read)[:-1]
    blocks = jnp.split(images, cuts), jnp.split(drawn["copy"], cuts)
    copies = [
        _altered_subset(
            subset, block, copy, jax.random.fold_in(key, number), levels, candidates
        )
        for number, (subset, block, copy) in enumerate(zip(subsets, *blocks))
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
    return altered(alteration, images, level, noise_key)
