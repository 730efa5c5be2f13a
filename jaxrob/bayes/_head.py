"""Heads: log-probabilities from a network's outputs, at fixed weights."""

import functools
import math
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.checks import check_choice, checked_integer
from jaxrob._codec import Integer, Text

HEADS = ("plain", "heteroscedastic")
#: The limit of samples in a file, far above any use; one evaluation would take days.
MOST_SAMPLES = 10**6


class Head(NamedTuple):
    """The conversion of outputs to log-probabilities.

    Attributes:
      name: "plain", outputs `[B, K]` are logits; "heteroscedastic", outputs `[B, 2K]`
        are the means of the logits and, before softplus, their standard deviations.
      noise_draws: draws of a heteroscedastic head's noise, M.
    """

    name: Annotated[str, Text(allowed=HEADS)]
    noise_draws: Annotated[int, Integer(1, MOST_SAMPLES)]

    @property
    def stochastic(self) -> bool:
        """Whether the log-probabilities need random bits."""
        return self.name == "heteroscedastic"

    def num_classes(self, num_outputs: int) -> int:
        """Returns K, from the number of the network's outputs."""
        if self.stochastic and num_outputs % 2:
            raise ValueError(
                "a heteroscedastic head needs an even number of outputs, the mean and "
                f"the scale of each logit; the module returns {num_outputs}"
            )
        num_classes = num_outputs // 2 if self.stochastic else num_outputs
        if num_classes < 2:
            raise ValueError(
                f"the module must return at least two classes; its {num_outputs} "
                f"outputs are {num_classes} with the {self.name} head"
            )
        return num_classes


def checked_head(name: str, noise_draws: int) -> Head:
    """Returns a head with these settings, checked."""
    check_choice("head", name, HEADS)
    return Head(name, checked_integer("noise_draws", noise_draws, at_least=1))


def log_probabilities(outputs: jax.Array, noise: jax.Array | None) -> jax.Array:
    """Computes log-probabilities at fixed weights w."""
    # With a heteroscedastic head, the logits are `Normal(mean, softplus(scale))` and `p
    # = mean over draws of softmax(mean + softplus(scale) noise)`. The noise belongs to
    # the data. It is averaged here, at each w, so that it does not count as epistemic
    # uncertainty (Kendall and Gal, What uncertainties do we need in Bayesian deep
    # learning for computer vision?, 2017, section 3.3).
    if noise is None:
        return jax.nn.log_softmax(outputs)
    # Images are the last axis: ten classes would not fill vector units.
    mean, scale = jnp.split(outputs.T, 2)
    log_p = jax.nn.log_softmax(mean + jax.nn.softplus(scale) * noise, axis=1)
    return jax.nn.logsumexp(log_p, axis=0).T - math.log(len(noise))


def normals(bits: jax.Array, num_draws: int) -> jax.Array:
    """Returns standard normals in antithetic pairs, evenly spread over the pairs."""
    # The first halves of the pairs are a Sobol' net, randomised by a digital shift
    # (random bits flip its binary digits) and mapped by the normal quantile function.
    # Each draw is standard normal and independent over the K coordinates, so that means
    # over draws are unbiased. With 8 draws, means of a softmax over 10 classes are as
    # accurate as with 35 independent draws.
    net = _net((num_draws + 1) // 2, bits.shape[1])
    shifted = bits.T ^ net[..., None]
    # 23 bits plus 0.5: exact in float32, and never 0 or 1 after scaling.
    uniform = (shifted >> 9).astype(jnp.float32) + 0.5
    half = math.sqrt(2) * jax.lax.erf_inv(uniform * 2.0**-22 - 1)
    return jnp.concatenate([half, -half])[:num_draws]


@functools.lru_cache(maxsize=64)
def _net(num_points: int, dimensions: int) -> np.ndarray:
    """Returns the first points of a Sobol' net, uint32 `[num_points, dimensions]`."""
    exponent = (num_points - 1).bit_length()
    points = scipy.stats.qmc.Sobol(dimensions, scramble=False).random_base2(exponent)
    return (points[:num_points] * 2**32).astype(np.uint32)
