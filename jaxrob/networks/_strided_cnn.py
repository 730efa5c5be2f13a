"""A small convolutional network that is cheap on CPUs."""

from collections.abc import Sequence

import jax
from flax import linen as nn

from jaxrob._arguments.checks import checked_integer, checked_integers


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
