"""VGG16 for images of 32x32 pixels."""

import functools

import jax
from flax import linen as nn

from jaxrob._arguments.checks import checked_integer
from jaxrob.networks._pool import max_pool

_STAGES = ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)


class VGG16(nn.Module):
    """Thirteen convolutions with batch normalisation and two dense layers.

    Each convolution is 3x3 and followed by ReLU, batch normalisation and, except the
    last of a stage, dropout (0.3 in the first stage, 0.4 in the others). A stage ends
    in 2x2 max-pooling. Dropout of 0.5 surrounds the dense layer of 512 units.

    15,001,418 numbers on images `[B, 32, 32, 3]` with ten classes: 14,991,946
    parameters and 9,472 batch statistics.

    Attributes:
      num_classes: number of outputs K.

    Source: Simonyan and Zisserman, Very deep convolutional networks for large-scale
    image recognition, 2014, as Liu and Deng, Very deep convolutional neural network
    based image classification using small training sample size, 2015, fit it to
    CIFAR-10. Levy and Katz, RoMA, 2022, assess a VGG16 on CIFAR-10 without describing
    it.
    """

    num_classes: int = 10

    def __post_init__(self) -> None:
        """Checks the attribute."""
        checked_integer("num_classes", self.num_classes, at_least=1)
        super().__post_init__()

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
