"""Batches of original and altered images, mixed in fixed parts."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._dataset import Dataset
from jaxrob.alterations import Alteration
from jaxrob.retraining._sizes import copies
from jaxrob.training import Feed

LEVELS = ("random", "grid")


class Part(NamedTuple):
    """Copies of some images, all altered in the same way.

    Attributes:
      alteration: None for the originals.
      images: rows of the data set.
      copies: of each image.
    """

    alteration: Alteration | None
    images: np.ndarray
    copies: int


def check(dataset: Dataset, alterations: Sequence[Alteration], levels: str) -> None:
    """Refuses what is no data set, no alterations, or no way to choose levels."""
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a jaxrob.Dataset in memory; got {type(dataset).__name__}"
        )
    if isinstance(alterations, Alteration):
        raise TypeError("alterations must be a sequence; give [alteration]")
    for alteration in alterations:
        if not isinstance(alteration, Alteration):
            raise TypeError(
                "alterations must be jaxrob.Alteration; got "
                f"{type(alteration).__name__}"
            )
    if not len(alterations):
        raise ValueError("alterations is empty; at least one is needed")
    if levels not in LEVELS:
        raise ValueError(f"levels must be one of {LEVELS}; got {levels!r}")


def originals(dataset: Dataset) -> list[Part]:
    """Every image as it is."""
    return [Part(None, np.arange(len(dataset)), 1)]


def on_half(
    dataset: Dataset, alterations: Sequence[Alteration], key: jax.Array
) -> list[Part]:
    """Each alteration on half of the images, drawn for itself."""
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, 4)))
    return [
        Part(
            alteration,
            np.sort(rng.permutation(len(dataset))[: len(dataset) // 2]),
            copies(alteration),
        )
        for alteration in alterations
    ]


def on_all(dataset: Dataset, alterations: Sequence[Alteration]) -> list[Part]:
    """Each alteration on every image."""
    every = np.arange(len(dataset))
    return [Part(alteration, every, copies(alteration)) for alteration in alterations]


def mixture(
    parts: Sequence[Part], levels: str = "random", candidates: int = 1
) -> Callable[[int], Feed]:
    """A feed of all copies in random order, mixed as evenly as possible.

    Every batch holds each part in the same proportion, up to an image or two, and each
    image once in an epoch for each of its copies. A step reads as many images of each
    part as any batch holds of it, so that shapes are static, alters them, and trains
    on those that count: the alterations run on a few images more than the network.

    Args:
      parts: the parts.
      levels: how levels are chosen. "random": uniformly in the range, anew for each
        copy in each epoch. "grid": the copies of an image share out half of the range
        and all of it, on either side of the identity if they are four; see `_grid`.
      candidates: random levels for each image, of which it is trained on at the one
        where its loss is highest.

    Returns:
      A function from the batch size to the feed, as `jaxrob.training.fit` takes it.
    """
    sizes = [len(part.images) * part.copies for part in parts]
    total = sum(sizes)

    def feed(batch_size):
        steps = total // batch_size
        counts = _counts(sizes, steps, batch_size)
        slots = counts.max(axis=0, initial=0)
        starts = np.cumsum(counts, axis=0) - counts
        # Of all that a step alters, the rows that it trains on.
        counted = np.concatenate(
            [np.arange(slot) < count[:, None] for slot, count in zip(slots, counts.T)],
            axis=1,
        )
        chosen = np.nonzero(counted)[1].reshape(steps, batch_size).astype(np.int32)

        def epoch(rng):
            index, copy = [], []
            for part, size, slot, start in zip(parts, sizes, slots, starts.T):
                order = rng.permutation(size)
                # Rows that do not count may repeat the last copy.
                rows = start[:, None] + np.arange(slot)
                order = order[np.minimum(rows, size - 1)]
                index.append(part.images[order // part.copies])
                copy.append((order % part.copies).astype(np.int32))
            return {
                "index": np.concatenate(index, axis=1),
                "copy": np.concatenate(copy, axis=1),
                "chosen": chosen,
            }

        def batch(images, labels, part, key, losses):
            chosen = part["chosen"]
            cuts = np.cumsum(slots)[:-1]
            blocks = jnp.split(images, cuts), jnp.split(part["copy"], cuts)
            altered = [
                _alter(kind, *block, jax.random.fold_in(key, number))
                for number, (kind, *block) in enumerate(zip(parts, *blocks))
            ]
            images, labels = jnp.concatenate(altered, axis=1)[:, chosen], labels[chosen]
            if candidates == 1:
                return images[0], labels
            flat = images.reshape(-1, *images.shape[2:])
            loss = losses(flat, jnp.tile(labels, candidates))
            worst = loss.reshape(candidates, -1).argmax(axis=0)
            return images[worst, jnp.arange(batch_size)], labels

        return Feed(total, epoch, batch, name)

    def _alter(part, images, copy, key):
        """The images at their levels, `[candidates, b, ...]`."""
        alteration = part.alteration
        if alteration is None:
            return jnp.broadcast_to(images, (candidates, *images.shape))
        level_key, noise_key = jax.random.split(key)
        shape = (candidates, len(images))
        if levels == "grid":
            grid = jnp.asarray(_grid(alteration, part.copies), jnp.float32)
            level = jnp.broadcast_to(grid[copy], shape)
        else:
            level = jax.random.uniform(
                level_key, shape, minval=alteration.lower, maxval=alteration.upper
            )
        keys = jax.random.split(noise_key, len(images))
        prepared = (
            jax.vmap(alteration.prepared)(images, keys)
            if alteration.stochastic
            else jax.vmap(alteration.prepared)(images)
        )
        over_images = jax.vmap(alteration.at_level)
        return jax.vmap(over_images, (None, 0))(prepared, level)

    name = f"{levels} levels, {candidates} candidates: " + "; ".join(
        f"{part.copies} of {len(part.images)}, "
        + ("as they are" if part.alteration is None else part.alteration.description)
        for part in parts
    )
    return feed


def _counts(sizes, steps, batch_size):
    """`[T, parts]` how many images of each part each step trains on."""
    # The copies of each part stand evenly spaced on a line, and are taken in order.
    places = [(np.arange(size) + 0.5) / size for size in sizes]
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    kinds = kinds[np.argsort(np.concatenate(places), kind="stable")]
    kinds = kinds[: steps * batch_size].reshape(steps, batch_size)
    return np.stack([(kinds == i).sum(axis=1) for i in range(len(sizes))], axis=1)


def _grid(alteration, number):
    """The levels of the authors' scripts.

    Half of the way to the upper end and all of it and, if there are four, to the lower
    end too. Where the identity is the upper end, the other side.
    """
    identity = alteration.identity
    sides = (alteration.upper, alteration.lower)
    if identity == alteration.upper:
        sides = sides[::-1]
    ends = sides[: number // 2]
    return [identity + share * (end - identity) for end in ends for share in (0.5, 1)]
