"""A network as a classifier's parts: preprocessing, variables, where it runs."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import (
    check_hashable,
    check_type,
    checked_array,
    checked_flag,
    checked_size,
    looks_channels_first,
)
from jaxrob._arguments.texts import required
from jaxrob._devices.host_function import HostFunction, host_callback
from jaxrob._identity.digest import hashable_partial
from jaxrob._identity.program import Fingerprinted

_LARGEST = float(np.finfo(np.float32).max)

# One number, or one for each channel; a height and a width, or one number for both.
Numbers = float | Sequence[float] | np.ndarray
Size = int | tuple[int, int] | None


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """What is done to pixels in [0, 1] before a network's first layer.

    Alterations see images `[B, H, W, C]` of pixels in [0, 1]; the network sees
    `(scale * pixels - mean) / std`, in its own layout.

    Example::

        imagenet = jaxrob.Preprocessing(
            mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), size=224
        )
        classifier = jaxrob.Classifier.from_torch(module, preprocessing=imagenet)

    Attributes:
      scale: the factor of pixels, one number or one for each channel; 255 for a network
        that takes 0 to 255. By default 1.
      mean: the number subtracted then, or one for each channel; by default 0.
      std: the divisor applied last, or one for each channel; by default 1.
      channels_first: whether the network takes `[B, C, H, W]`, or `[B, H, W, C]`. By
        default what its framework does: the former for torch and Equinox, the latter
        for NNX, Keras and functions; of ONNX what the input's shape says.
      size: the height and width of the images that it takes, or one number for both;
        by default any, and of ONNX what the input's shape says. Images of other sizes
        are rejected. Resize images on loading, see `jaxrob.data.image_folder`, so that
        levels in pixels keep their meaning.

    Raises:
      TypeError: if one of them has a wrong type.
      ValueError: if one of them is outside its range.
    """

    scale: Numbers = 1.0
    mean: Numbers = 0.0
    std: Numbers = 1.0
    channels_first: bool | None = None
    size: Size = None

    def __post_init__(self) -> None:
        for name in ("scale", "mean", "std"):
            numbers = _numbers(name, getattr(self, name))
            object.__setattr__(self, name, numbers)
        if (np.array(self.scale, np.float32) == 0).any():
            raise ValueError(
                f"scale must not be 0, which makes images black; got {self.scale}"
            )
        if (np.array(self.std, np.float32) <= 0).any():
            raise ValueError(f"std must be positive; got {self.std}")
        if self.channels_first is not None:
            first = checked_flag("channels_first", self.channels_first)
            object.__setattr__(self, "channels_first", first)
        object.__setattr__(self, "size", checked_size(self.size))

    @property
    def is_none(self) -> bool:
        """Whether images are unchanged."""
        return self.laid_out(False) == Preprocessing(channels_first=False)

    def laid_out(self, channels_first: bool) -> "Preprocessing":
        """Returns it with a framework's layout, unless it has one."""
        if self.channels_first is not None:
            return self
        return dataclasses.replace(self, channels_first=channels_first)

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
                f"takes their size, make its Preprocessing with size={shape[1:3]}"
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


def _row(values: Any) -> jax.Array:
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


@dataclasses.dataclass(frozen=True)
class OnHost:
    """An `apply_fn` that preprocesses images on the device and calls the host."""

    function: HostFunction
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> jax.Array:
        del variables
        return host_callback(self.function, self.preprocessing(images))


def on_host(apply_fn: Any) -> OnHost | None:
    """Returns the host network behind an `apply_fn`, or None."""
    function = apply_fn.function if isinstance(apply_fn, Fingerprinted) else apply_fn
    return function if isinstance(function, OnHost) else None


class Network(NamedTuple):
    """The parts of a classifier, as its framework says them; see `Classifier`."""

    function: Callable[..., Any]
    outputs: str = "logits"
    name: str | None = None
    num_classes: int | None = None  # None if not yet known
    variables: Any = ()
    class_names: tuple[str, ...] | None = None


def snapshot(tree: Any) -> Any:
    """Copies a pytree's arrays and containers."""
    # A module trained in place may write into its NumPy arrays, assign to its
    # variables, or donate the buffers of its arrays.
    return jax.tree.map(
        lambda leaf: leaf.copy() if hasattr(leaf, "copy") else leaf, tree
    )


def checked_layout(
    preprocessing: Preprocessing | None, channels_first: bool
) -> Preprocessing:
    """Returns what was given, or nothing, in a framework's layout."""
    wanted = "a jaxrob.Preprocessing or None"
    check_type("preprocessing", preprocessing, Preprocessing | None, wanted)
    return (preprocessing or Preprocessing()).laid_out(channels_first)


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    array = np.atleast_1d(checked_array(name, value, "..."))
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be a number, or one for each channel; got the shape "
            f"{array.shape}"
        )
    if np.abs(array).max() > _LARGEST:
        raise ValueError(f"{name} must be numbers that float32 holds; got {value}")
    return tuple(float(number) for number in array)


_PURPOSE = "Classifier.from_equinox"


def nnx_network(module: Any, outputs: str, preprocessing: Preprocessing) -> Network:
    """See `Classifier.from_nnx`."""
    from flax import nnx

    check_type("module", module, nnx.Module, "a Flax NNX module")
    graph, state = nnx.split(module)
    function = preprocessed(hashable_partial(_apply_nnx, graph=graph), preprocessing)
    return Network(function, outputs, variables=snapshot(state))


def equinox_network(
    module: Any, state: Any, outputs: str, preprocessing: Preprocessing
) -> Network:
    """See `Classifier.from_equinox`."""
    equinox = required("equinox", _PURPOSE, "equinox")
    check_type("module", module, equinox.Module, "an Equinox module")
    wanted = "an equinox.nn.State or None"
    check_type("state", state, equinox.nn.State | None, wanted)
    own = equinox.nn.inference_mode(module)
    arrays, rest = equinox.partition(own, _is_array)
    check_hashable("module", rest)
    function = preprocessed(hashable_partial(_apply, rest=rest), preprocessing)
    return Network(function, outputs, variables=snapshot((arrays, state)))


def _apply_nnx(state: Any, images: Any, *, graph: Any) -> Any:
    from flax import nnx

    module = nnx.merge(graph, state)
    module.eval()
    return module(images)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _apply(variables: Any, images: jax.Array, *, rest: Any) -> Any:
    equinox = required("equinox", _PURPOSE, "equinox")
    arrays, state = variables
    module = equinox.combine(arrays, rest)
    if state is None:
        return jax.vmap(module)(images)
    # In inference mode no image changes the state.
    return jax.vmap(lambda image: module(image, state)[0])(images)
