"""Preprocessing of pixels before a network's first layer."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_array, checked_flag, checked_integer
from jaxrob._arguments.images import looks_channels_first
from jaxrob._arguments.naming import named

_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """`(scale x - mean) / std` of pixels x in [0, 1], in the network's layout.

    Attributes:
      scale: the factor of pixels, one number or one for each channel; 255 for a network
        that takes 0 to 255.
      mean: one number, or one for each channel.
      std: one number, or one for each channel.
      channels_first: whether the network takes `[B, C, H, W]`.
      size: height and width of the images that the network takes, None for any.
    """

    scale: tuple[float, ...] = (1.0,)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels_first: bool = False
    size: tuple[int, int] | None = None

    @property
    def is_none(self) -> bool:
        """Whether images are unchanged."""
        return self == Preprocessing()

    def __call__(self, images: jax.Array) -> jax.Array:
        """Preprocesses images for the network."""
        if self.is_none:
            return images
        self._check(images.shape)
        scale, mean, std = map(_row, (self.scale, self.mean, self.std))
        if self.scale != (1.0,):
            images = images * scale
        if self.mean != (0.0,) or self.std != (1.0,):
            images = (images - mean) / std
        return jnp.moveaxis(images, -1, 1) if self.channels_first else images

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4:
            raise ValueError(
                "the classifier's preprocessing needs images [B, H, W, C]; got the "
                f"shape {shape}"
            )
        if self.size is not None and shape[1:3] != self.size:
            advice = (
                ". Resize and crop them on loading, for instance by "
                f"jaxrob.data.image_folder(path, size={self.size}); or, if the network "
                f"takes their size, make the classifier with size={shape[1:3]}"
            )
            raise ValueError(
                f"the classifier takes images of size={self.size}; got "
                f"{shape[1]}x{shape[2]} pixels"
                + ("" if looks_channels_first(shape[1:]) else advice)
            )
        for name in ("scale", "mean", "std"):
            values = getattr(self, name)
            if len(values) not in (1, shape[3]):
                grey = ""
                if (len(values), shape[3]) == (3, 1):
                    grey = '. Make grey pictures RGB in the source, convert("RGB"), or '
                    grey += "by np.repeat(images, 3, axis=-1)"
                raise ValueError(
                    f"{name} has {len(values)} numbers, but the images have "
                    f"{shape[3]} channel{'s' * (shape[3] > 1)}{grey}"
                )


def _row(values: tuple[float, ...]) -> jax.Array:
    """Builds an array inside the program; a constant array would count as captured."""
    return jnp.concatenate([jnp.full(1, value, jnp.float32) for value in values])


@dataclasses.dataclass(frozen=True)
class Preprocessed:
    """A function of variables and images, applied to preprocessed images."""

    function: Callable[..., Any]
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> Any:
        return self.function(variables, self.preprocessing(images))


def preprocessed(
    function: Callable[..., Any], preprocessing: Preprocessing
) -> Callable[..., Any]:
    """Puts the preprocessing before the function."""
    if preprocessing.is_none:
        return function
    return Preprocessed(function, preprocessing)


def checked_preprocessing(
    scale: Any, mean: Any, std: Any, channels_first: Any, size: Any
) -> Preprocessing:
    """Returns the preprocessing with these settings, each checked."""
    scales, stds = _numbers("scale", scale, 1.0), _numbers("std", std, 1.0)
    if (np.array(scales, np.float32) == 0).any():
        raise ValueError(f"scale must not be 0, which makes images black; got {scale}")
    if (np.array(stds, np.float32) <= 0).any():
        raise ValueError(f"std must be positive; got {std}")
    return Preprocessing(
        scales,
        _numbers("mean", mean, 0.0),
        stds,
        checked_flag("channels_first", channels_first),
        checked_size(size),
    )


def checked_size(size: Any) -> tuple[int, int] | None:
    """Returns height and width in pixels, or None. One number stands for both."""
    if size is None:
        return None
    is_array = isinstance(size, np.ndarray) and size.ndim > 0
    if is_array or (isinstance(size, Sequence) and not isinstance(size, str)):
        if len(size) != 2:
            raise ValueError(
                f"size must be (height, width) in pixels, or one number for both; got "
                f"{named(size)}"
            )
        height, width = size
    else:
        height = width = size
    return (
        checked_integer("size", height, at_least=1),
        checked_integer("size", width, at_least=1),
    )


def _numbers(name: str, value: Any, otherwise: float) -> tuple[float, ...]:
    if value is None:
        return (otherwise,)
    array = np.atleast_1d(checked_array(name, value, "..."))
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be a number, or one for each channel; got the shape "
            f"{array.shape}"
        )
    if np.abs(array).max() > _LARGEST:
        raise ValueError(f"{name} must be numbers that float32 holds; got {value}")
    return tuple(float(number) for number in array)
