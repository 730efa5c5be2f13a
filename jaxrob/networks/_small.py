"""Networks for small images."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrob._arguments.checks import checked_integer, checked_integers


class ResNet(nn.Module):
    """A residual network for images of about 32x32 pixels, with batch normalisation.

    A 3x3 convolution, stages of residual blocks, the mean over all pixels, and a dense
    layer. Each stage but the first halves height and width and doubles the channels. A
    block is conv 3x3 - batch normalisation - ReLU - conv 3x3 - batch normalisation,
    added to the block's input, and ReLU. Where the shape changes, the shortcut is every
    second pixel of the input, padded with channels of zeros; it has no parameters.

    With n blocks in each of three stages it has 6n + 2 layers: the default is
    ResNet-8, and `blocks=(3, 3, 3)` ResNet-20. On images `[B, 32, 32, 3]` with ten
    classes these have 75,290 and 269,722 parameters, and 672 and 1,376 batch
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

    def __post_init__(self) -> None:
        """Checks the attributes."""
        checked_integers("blocks", self.blocks, at_least=1)
        checked_integer("width", self.width, at_least=1)
        checked_integer("stem_stride", self.stem_stride, at_least=1)
        checked_integer("num_classes", self.num_classes, at_least=1)
        super().__post_init__()

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
    """Returns every `stride`-th pixel, padded with channels of zeros to `width`."""
    x = x[:, ::stride, ::stride]
    return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, width - x.shape[-1])))


class MLP(nn.Module):
    """Dense layers with ReLU between them, on flattened images.

    The default, 784-100-10 on images `[B, 28, 28, 1]`, has 79,510 parameters.

    Attributes:
      features: widths of the hidden layers.
      num_classes: number of outputs K.

    Source: the deterministic network that Essbai, Bombarda, Bonfanti and Gargantini,
    A framework for including uncertainty in robustness evaluation of Bayesian neural
    network classifiers, 2024, compare with a Bayesian one of the same structure.
    """

    features: Sequence[int] = (100,)
    num_classes: int = 10

    def __post_init__(self) -> None:
        """Checks the attributes."""
        checked_integers("features", self.features, at_least=1, min_length=0)
        checked_integer("num_classes", self.num_classes, at_least=1)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Computes logits `[B, K]` of images `[B, H, W, C]`; `train` has no effect."""
        del train
        x = x.reshape(x.shape[0], -1)
        for width in self.features:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.num_classes)(x)


class StridedCNN(nn.Module):
    """Convolutions with stride 2, each with ReLU, and two dense layers.

    The default has two convolutions: 106,122 parameters on images `[B, 28, 28, 1]` with
    ten classes, a tenth of `MnistCNN`'s work, and no pooling: strides instead
    (Springenberg et al., 2015). `features=(32, 64, 128)` suits photographs of 32x32.

    Attributes:
      num_classes: number of outputs K.
      features: channels of the convolutions. The first is 5x5, the others 3x3.
    """

    num_classes: int = 10
    features: Sequence[int] = (16, 32)

    def __post_init__(self) -> None:
        """Checks the attributes."""
        checked_integer("num_classes", self.num_classes, at_least=1)
        checked_integers("features", self.features, at_least=1)
        super().__post_init__()

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
