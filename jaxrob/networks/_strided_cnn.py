"""A small convolutional network that is cheap on CPUs."""

import jax
from flax import linen as nn

from jaxrob._runtime.checks import checked_integer


class StridedCNN(nn.Module):
    """Two convolutions with stride 2, each with ReLU, and two dense layers.

    106,122 parameters on images `[B, 28, 28, 1]` with ten classes, a tenth of
    `MnistCNN`'s work, and no pooling: strides instead (Springenberg et al., 2015).

    Attributes:
      num_classes: number of outputs K.
    """

    num_classes: int = 10

    def __post_init__(self) -> None:
        """Checks the attribute."""
        checked_integer("num_classes", self.num_classes, at_least=1)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits `[B, K]` of images `[B, H, W, C]`; `train` changes nothing."""
        del train
        for width, size in ((16, 5), (32, 3)):
            conv = nn.Conv(width, (size, size), strides=(2, 2), padding="SAME")
            x = nn.relu(conv(x))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(64)(x))
        return nn.Dense(self.num_classes)(x)
