"""A small convolutional network for MNIST."""

import jax
from flax import linen as nn

from jaxrob._arguments.checks import checked_integer
from jaxrob.networks._pool import max_pool


class MnistCNN(nn.Module):
    """Two convolutions, each with ReLU and max-pooling, and two dense layers.

    421,642 parameters on images `[B, 28, 28, 1]` with ten classes.

    Attributes:
      num_classes: number of outputs K.

    Source: the usual network for MNIST, similar to LeNet (LeCun et al., 1998), without
    dropout or normalisation.
    """

    num_classes: int = 10

    def __post_init__(self) -> None:
        """Checks the attribute."""
        checked_integer("num_classes", self.num_classes, at_least=1)
        super().__post_init__()

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
