"""The papers' networks, and three small ones, as Flax Linen modules.

All of them take float32 images `[B, H, W, C]` in [0, 1] and the argument `train`,
False by default.
"""

import functools
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrob._arguments.checks import (
    check_choice,
    checked_integer,
    checked_integers,
    checked_path,
)
from jaxrob._files import damage_of, read_npz

__all__ = (
    "MLP",
    "VGG16",
    "IdcCNN",
    "MnistCNN",
    "ResNet",
    "StridedCNN",
    "load_idc_weights",
)

_CHANNEL_ORDERS = ("rgb", "bgr")


class IdcCNN(nn.Module):
    """C_o, which classifies patches of breast histology: benign (0), malignant (1).

    Conv 32 (3x3, stride 2) - max-pool 3x3 - dropout 0.3 - conv 64 - conv 64 - max-pool
    2x2 - flatten - ReLU - batch normalisation - dropout 0.5 - dense 2 - sigmoid, each
    convolution followed by ReLU and batch normalisation. 63,106 numbers on images `[B,
    50, 50, 3]`: 60,738 parameters and 2,368 batch statistics. The two sigmoid
    activations do not add up to 1.

    Attributes:
      channel_order: the order of colours that the weights expect, "rgb" or "bgr", as
        the published ones. Images passed are always RGB.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section IV; where the
    text has gaps, the authors' released model.
    """

    channel_order: str = "bgr"

    def __post_init__(self) -> None:
        """Checks the attributes."""
        check_choice("channel_order", self.channel_order, _CHANNEL_ORDERS)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes activations `[B, 2]` of images `[B, H, W, C]`."""
        # Keras's defaults; with stride 2, SAME pads as TensorFlow does.
        norm = functools.partial(
            nn.BatchNorm, use_running_average=not train, momentum=0.99, epsilon=1e-3
        )
        drop = functools.partial(nn.Dropout, deterministic=not train)
        conv = functools.partial(nn.Conv, kernel_size=(3, 3), padding="SAME")
        if self.channel_order == "bgr":
            x = x[..., ::-1]
        x = norm()(nn.relu(conv(32, strides=(2, 2))(x)))
        x = max_pool(x, 3)
        x = drop(0.3)(x)
        x = norm()(nn.relu(conv(64)(x)))
        x = norm()(nn.relu(conv(64)(x)))
        x = max_pool(x, 2)
        x = x.reshape(x.shape[0], -1)
        x = norm()(nn.relu(x))
        x = drop(0.5)(x)
        return nn.sigmoid(nn.Dense(2)(x))


def load_idc_weights(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Loads the published weights of C_o, the network of the 2020 paper.

    Example::

        module = jaxrob.networks.IdcCNN()
        variables = jaxrob.networks.load_idc_weights("c_o.npz")
        classifier = jaxrob.Classifier.from_linen(module, variables, "sigmoid")

    `IdcCNN` takes RGB, and turns it into the BGR of these weights itself.

    Args:
      path: an npz file of arrays under their Keras names, such as `conv2d_1/kernel`;
        other parts may lie between the layer's and the array's name.

    Returns:
      The variables of `IdcCNN`, float32, in the collections "params" and "batch_stats".

    Raises:
      ValueError: if the file is not npz, or an array is missing, superfluous, damaged,
        not finite, or has a wrong shape or type.
      FileNotFoundError: if there is no such file.
    """
    path = str(checked_path("path", path))
    with damage_of(f"{path}: not a readable npz file"):
        members = read_npz(path, may_be_compressed=True)
    arrays: dict[str, np.ndarray] = {}
    for member, array in members.items():
        parts = member.split("/")
        name = f"{parts[0]}/{parts[-1]}"
        if name in arrays:
            raise ValueError(f"{path}: {name} twice")
        arrays[name] = array
    expected = _keras_arrays()
    missing = sorted(expected.keys() - arrays.keys())
    extra = sorted(arrays.keys() - expected.keys())
    if missing or extra:
        raise ValueError(f"{path}: missing arrays {missing}, superfluous {extra}")
    variables: dict[str, Any] = {"params": {}, "batch_stats": {}}
    for name, (collection, module, key, shape) in expected.items():
        array = arrays[name]
        if array.shape != shape or array.dtype.kind != "f":
            raise ValueError(
                f"{path}: {name}: {array.dtype} {array.shape}, expected floats {shape}"
            )
        if not np.isfinite(array).all():
            number = (~np.isfinite(array)).sum()
            raise ValueError(f"{path}: {name}: {number} values not finite")
        weights = jnp.asarray(array.astype(np.float32))
        variables[collection].setdefault(module, {})[key] = weights
    return variables


def _keras_arrays() -> dict[str, tuple[str, str, str, tuple[int, ...]]]:
    arrays = {}
    for i, shape in enumerate(((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 64))):
        arrays[f"conv2d_{i + 1}/kernel"] = ("params", f"Conv_{i}", "kernel", shape)
        arrays[f"conv2d_{i + 1}/bias"] = ("params", f"Conv_{i}", "bias", shape[-1:])
    for i, width in enumerate((32, 64, 64, 1024)):
        for keras, collection, flax in (
            ("gamma", "params", "scale"),
            ("beta", "params", "bias"),
            ("moving_mean", "batch_stats", "mean"),
            ("moving_variance", "batch_stats", "var"),
        ):
            arrays[f"batch_normalization_{i + 1}/{keras}"] = (
                collection,
                f"BatchNorm_{i}",
                flax,
                (width,),
            )
    arrays["dense_1/kernel"] = ("params", "Dense_0", "kernel", (1024, 2))
    arrays["dense_1/bias"] = ("params", "Dense_0", "bias", (2,))
    return arrays


class _Network(nn.Module):
    """A network whose numbers are from 1; only an `MLP` may have no layer of them."""

    def __post_init__(self) -> None:
        """Checks the attributes."""
        least = 0 if isinstance(self, MLP) else 1
        for name, value in vars(self).items():
            if name in ("blocks", "features"):
                checked_integers(name, value, at_least=1, min_length=least)
            elif name in ("width", "stem_stride", "num_classes"):
                checked_integer(name, value, at_least=1)
        super().__post_init__()


class MnistCNN(_Network):
    """Two convolutions, each with ReLU and max-pooling, and two dense layers.

    421,642 parameters on images `[B, 28, 28, 1]` with ten classes; similar to LeNet
    (LeCun et al., 1998), without dropout or normalisation.

    Attributes:
      num_classes: number of outputs K.
    """

    num_classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes logits `[B, K]` of images `[B, H, W, C]`; `train` has no effect."""
        del train
        for width in (32, 64):
            x = nn.relu(nn.Conv(width, (3, 3), padding="SAME")(x))
            x = max_pool(x, 2)
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(128)(x))
        return nn.Dense(self.num_classes)(x)


_STAGES = ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)


class VGG16(_Network):
    """Thirteen convolutions with batch normalisation and two dense layers.

    Each convolution is 3x3 and followed by ReLU, batch normalisation and, except the
    last of a stage, dropout (0.3 in the first stage, 0.4 in the others). A stage ends
    in 2x2 max-pooling. Dropout of 0.5 surrounds the dense layer of 512 units.
    15,001,418 numbers on images `[B, 32, 32, 3]` with ten classes: 14,991,946
    parameters and 9,472 batch statistics.

    Attributes:
      num_classes: number of outputs K.

    Source: Simonyan and Zisserman, Very deep convolutional networks for large-scale
    image recognition, 2014, fitted to CIFAR-10 by Liu and Deng, Very deep convolutional
    neural network based image classification using small training sample size, 2015.
    Levy and Katz, RoMA, 2022, assess a VGG16 without describing it.
    """

    num_classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes the logits."""
        norm = functools.partial(
            nn.BatchNorm, use_running_average=not train, momentum=0.99, epsilon=1e-3
        )
        drop = functools.partial(nn.Dropout, deterministic=not train)
        for stage, widths in enumerate(_STAGES):
            for index, width in enumerate(widths):
                if index > 0:
                    x = drop(0.3 if stage == 0 else 0.4)(x)
                x = norm()(nn.relu(nn.Conv(width, (3, 3), padding="SAME")(x)))
            x = max_pool(x, 2)
        x = drop(0.5)(x)
        x = x.reshape(x.shape[0], -1)
        x = norm()(nn.relu(nn.Dense(512)(x)))
        x = drop(0.5)(x)
        return nn.Dense(self.num_classes)(x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def max_pool(x: jax.Array, size: int) -> jax.Array:
    """Computes the largest value of each window of `size` by `size`, without overlap.

    Flax's own gradient is a serial scatter on CPUs, ten times as slow as the forward
    pass.
    """
    return nn.max_pool(x, (size, size), strides=(size, size))


@max_pool.defjvp
def _max_pool_jvp(
    size: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    largest = max_pool(x, size)
    is_largest = _windows(x, size) == largest[:, :, None, :, None]
    share = is_largest / is_largest.sum(axis=(2, 4), keepdims=True, dtype=x.dtype)
    return largest, (share * _windows(tangent, size)).sum(axis=(2, 4))


def _windows(x: jax.Array, size: int) -> jax.Array:
    """Splits images into windows, `[B, H // size, size, W // size, size, C]`."""
    batch, height, width, channels = x.shape
    rows, columns = height // size, width // size
    x = x[:, : rows * size, : columns * size]
    return x.reshape(batch, rows, size, columns, size, channels)


class ResNet(_Network):
    """A residual network for images of about 32x32 pixels, with batch normalisation.

    A 3x3 convolution, stages of residual blocks, the mean over all pixels, and a dense
    layer. Each stage but the first halves height and width and doubles the channels.
    The default is ResNet-8, and `blocks=(3, 3, 3)` ResNet-20: on images `[B, 32, 32,
    3]` with ten classes 75,290 and 269,722 parameters, and 672 and 1,376 batch
    statistics.

    Attributes:
      blocks: residual blocks in each stage.
      width: channels of the first stage.
      stem_stride: stride of the first convolution. With 2 the network takes a quarter
        of the operations, for CPUs.
      num_classes: number of outputs K.

    Source: He, Zhang, Ren and Sun, Deep residual learning for image recognition, 2016,
    section 4.2, with its shortcuts of option A.
    """

    blocks: Sequence[int] = (1, 1, 1)
    width: int = 16
    stem_stride: int = 1
    num_classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes the logits."""
        norm = functools.partial(
            nn.BatchNorm, use_running_average=not train, momentum=0.9, epsilon=1e-5
        )
        conv = functools.partial(
            nn.Conv, kernel_size=(3, 3), padding="SAME", use_bias=False
        )
        x = nn.relu(norm()(conv(self.width, strides=self.stem_stride)(x)))
        for stage, number in enumerate(self.blocks):
            width = self.width * 2**stage
            for block in range(number):
                stride = 2 if stage and not block else 1
                y = nn.relu(norm()(conv(width, strides=stride)(x)))
                y = norm()(conv(width)(y))
                x = nn.relu(y + _shortcut(x, stride, width))
        return nn.Dense(self.num_classes)(x.mean(axis=(1, 2)))


def _shortcut(x: jax.Array, stride: int, width: int) -> jax.Array:
    x = x[:, ::stride, ::stride]
    return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, width - x.shape[-1])))


class MLP(_Network):
    """Dense layers with ReLU between them, on flattened images.

    The default, 784-100-10 on images `[B, 28, 28, 1]`, has 79,510 parameters.

    Attributes:
      features: widths of the hidden layers.
      num_classes: number of outputs K.

    Source: Essbai, Bombarda, Bonfanti and Gargantini, A framework for including
    uncertainty in robustness evaluation of Bayesian neural network classifiers, 2024.
    """

    features: Sequence[int] = (100,)
    num_classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes logits `[B, K]` of images `[B, H, W, C]`; `train` has no effect."""
        del train
        x = x.reshape(x.shape[0], -1)
        for width in self.features:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.num_classes)(x)


class StridedCNN(_Network):
    """Convolutions with stride 2, each with ReLU, and two dense layers.

    By default 106,122 parameters on images `[B, 28, 28, 1]` with ten classes, and a
    tenth of `MnistCNN`'s work: strides in place of pooling (Springenberg et al., 2015).
    `features=(32, 64, 128)` suits photographs of 32x32.

    Attributes:
      num_classes: number of outputs K.
      features: channels of the convolutions. The first is 5x5, the others 3x3.
    """

    num_classes: int = 10
    features: Sequence[int] = (16, 32)

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes logits `[B, K]` of images `[B, H, W, C]`; `train` has no effect."""
        del train
        for index, width in enumerate(self.features):
            size = 3 if index else 5
            conv = nn.Conv(width, (size, size), strides=(2, 2), padding="SAME")
            x = nn.relu(conv(x))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(64)(x))
        return nn.Dense(self.num_classes)(x)
