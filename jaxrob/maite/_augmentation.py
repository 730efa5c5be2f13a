"""Alterations as MAITE's augmentations."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._adapters.samples import as_array
from jaxrob._arguments.checks import check_type, checked_array
from jaxrob._arguments.images import checked_images
from jaxrob._arguments.naming import named, wrong_type
from jaxrob._dataset import checked_value_range
from jaxrob._keys import checked_key
from jaxrob._pixels import as_floats
from jaxrob.alterations import Alteration
from jaxrob.alterations._fingerprint import fingerprinted_alteration
from jaxrob.maite._metadata import ALTERATION, LEVEL

# Larger indices have another meaning, see `_keys.py`.
_MOST_INDEX = 2**32 - 3

Batch = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


# Not frozen: MAITE's protocols have metadata that can be written.
@dataclasses.dataclass(eq=False)
class Augmentation:
    """An alteration as a `maite.protocols.image_classification.Augmentation`.

    Every image comes back once for each level, with the same label. The metadata then
    hold the level ("jaxrob_level"), by which `Robustness` tells them apart, and the
    alteration ("jaxrob_alteration").

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        levels = np.linspace(0.0, 2.0, 9)
        found, _, _ = maite.tasks.evaluate(
            model=model,
            dataset=dataset,
            batch_size=16,
            augmentation=jaxrob.maite.Augmentation(blur, levels),
            metric=jaxrob.maite.Robustness(blur),
        )

    Images are `[C, H, W]`, uint8 or floating in [0, 1]. They are altered as floats, and
    come back in the type that they had: bytes are rounded.

    Attributes:
      alteration: the alteration.
      levels: `[L]` levels within its range, or one. A batch comes back L times as
        large.
      key: a random key, needed if the alteration is stochastic. An image's noise
        depends on the key and its id alone, and is the same at every level. Where ids
        are 0, 1, 2, ... it is that of `jaxrob.assess`.
      metadata: its "id" is the alteration with all its parameters, as text.

    Raises:
      TypeError: if an argument has a wrong type; in the call, if images are neither
        uint8 nor floating.
      ValueError: if a level is outside the range, or a key is missing; in the call, if
        an image is not `[C, H, W]` or outside [0, 1].
    """

    alteration: Alteration
    levels: Any
    key: jax.Array | None = None
    metadata: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_type("alteration", self.alteration, Alteration, "a jaxrob.Alteration")
        levels = checked_array("levels", self.levels, "...")
        levels = checked_array("levels", np.atleast_1d(levels), "L")
        self.alteration.canonical(levels)  # Checks their range.
        if self.key is None and self.alteration.stochastic:
            raise ValueError(
                f"{self.alteration.name} is stochastic and needs a key; got key=None"
            )
        self.key = checked_key(jax.random.key(0) if self.key is None else self.key)
        self.levels = levels.astype(np.float64)
        self.metadata = {"id": self.alteration.description}

    def __call__(self, batch: Batch, /) -> Batch:
        """Returns each image at every level, image by image, as MAITE's batches are.

        Args:
          batch: images, labels and metadata, one of each for each image.
        """
        images, labels, metadata = [], [], []
        # The alteration as it is now, traced once for each shape.
        now = functools.cache(
            functools.partial(fingerprinted_alteration, self.alteration)
        )
        for image, label, about in zip(*_checked_batch(batch)):
            added = {ALTERATION: self.alteration.description}
            for level, altered in zip(self.levels, self._altered(image, about, now)):
                images.append(altered)
                labels.append(label)
                metadata.append({**about, **added, LEVEL: float(level)})
        return images, labels, metadata

    def _altered(
        self, image: Any, about: Mapping[str, Any], now: Callable[..., Alteration]
    ) -> Iterator[np.ndarray]:
        """Yields an image at each level."""
        image = np.asarray(as_array(image))
        try:
            floats = _checked_pixels(image)
            index = _index_of(about["id"])
            levels = np.float32(self.alteration.canonical(self.levels))
            found = _at_levels(now(floats.shape), floats, levels, self.key, index)
        except (TypeError, ValueError) as error:
            raise type(error)(f"image {about['id']!r}: {error}") from error
        found = np.moveaxis(np.asarray(found), -1, 1)
        if image.dtype == np.uint8:
            found = np.rint(found * 255)
        yield from found.astype(image.dtype)


@functools.partial(jax.jit, static_argnums=0)
def _at_levels(
    alteration: Alteration,
    image: jax.Array,
    levels: jax.Array,
    key: jax.Array,
    index: jax.Array,
) -> jax.Array:
    """Returns an image `[H, W, C]` at each level, `[L, H, W, C]`."""
    key = jax.random.fold_in(key, index)
    prepared = alteration.prepared(image, key)
    return jax.lax.map(lambda level: alteration.at_level(prepared, level), levels)


def _checked_batch(batch: Any) -> Batch:
    """Returns a batch of as many images as labels and metadata.

    Raises:
      TypeError: if it is no triple, or metadata have no id.
      ValueError: if the numbers differ.
    """
    wanted = "(images, labels, metadata)"
    check_type("batch", batch, tuple | list, wanted)
    if len(batch) != 3 or len({len(part) for part in batch}) > 1:
        lengths = ", ".join(str(len(part)) for part in batch)
        raise ValueError(f"batch must be {wanted}, one for each image; got {lengths}")
    for about in batch[2]:
        if not isinstance(about, Mapping) or "id" not in about:
            raise wrong_type("metadata", "a mapping with an id", about)
    return batch[0], batch[1], batch[2]


def _checked_pixels(image: np.ndarray) -> jax.Array:
    """Returns an image `[C, H, W]` as float32 `[H, W, C]` in [0, 1]."""
    if image.ndim != 3:
        raise ValueError(f"it must have the shape [C, H, W]; got {named(image)}")
    images = checked_images(np.moveaxis(image, 0, -1)[None])
    checked_value_range(images)
    return as_floats(jnp.asarray(images[0]))


def _index_of(identity: Any) -> np.uint32:
    """Returns the index whose noise an image has: its id, or a digest of it."""
    is_index = isinstance(identity, int) and 0 <= identity <= _MOST_INDEX
    if is_index and not isinstance(identity, bool):
        return np.uint32(identity)
    found = hashlib.blake2b(str(identity).encode(), digest_size=4).digest()
    return np.uint32(min(int.from_bytes(found), _MOST_INDEX))
