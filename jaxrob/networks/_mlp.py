"""The multilayer perceptron of the Bayesian paper."""

from collections.abc import Sequence

import jax
from flax import linen as nn

from jaxrob._arguments.checks import checked_integer, checked_integers


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
