"""Plain draws by class, and the pairs of an input and a class that they leave open."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob.roma._draws import summarise_draws
from jaxrob.roma._logit import observe_classes
from jaxrob.roma._pairs import Pairs
from jaxrob.roma._work import Array, Inputs, Settings, Work

# Classes less probable than the most probable one by this factor, as a normal fit to
# the plain draws has it, are left out: a log of 300.
_LARGEST_GAP = np.log(300.0)


class Pilot(NamedTuple, Generic[Array]):
    """What plain draws around N inputs say of each class; `[N, K]`.

    Attributes:
      possible: whether it is another class than the one predicted at the input.
      hits: int32, draws that are distinctly misclassified as it.
      mean: the mean of its margins.
      std: their standard deviation.
    """

    possible: Array
    hits: Array
    mean: Array
    std: Array


class Candidates(NamedTuple):
    """Pairs whose probabilities are to be estimated.

    Attributes:
      pairs: P pairs.
      owner: int `[P]`, the number of each pair's input among the inputs given.
      plain_hits: int32 `[P]`, plain draws that are distinctly misclassified as the
        class.
      num_samples: plain draws for each input.
    """

    pairs: Pairs[np.ndarray]
    owner: np.ndarray
    plain_hits: np.ndarray
    num_samples: int


def draw_pilot(work: Work, inputs: Inputs, settings: Settings) -> Pilot[np.ndarray]:
    """What plain draws say of each class, on the host."""
    return summarise_draws(work, inputs, settings, observe_classes, _by_class)


def pairs_that_matter(
    pilot: Pilot[np.ndarray], inputs: Inputs, num_samples: int
) -> Candidates:
    """The classes that each input may be mistaken for, by a normal fit to the margins.

    Args:
      pilot: what `draw_pilot` returned for the inputs.
      inputs: N inputs.
      num_samples: plain draws for each input.
    """
    mean = pilot.mean.astype(np.float64)
    # No deviation is 0, by which the mean is divided.
    std = np.maximum(pilot.std.astype(np.float64), 1e-12 * np.abs(mean) + 1e-300)
    log_p = np.where(pilot.possible, special.log_ndtr(mean / std), -np.inf)
    best = log_p.max(axis=1, keepdims=True)
    chosen = (log_p >= best - _LARGEST_GAP) | (pilot.hits > 0)
    owner, classes = np.nonzero(chosen & pilot.possible)
    pairs = Pairs(inputs.images[owner], inputs.indices[owner], classes.astype(np.int32))
    return Candidates(pairs, owner, pilot.hits[owner, classes], num_samples)


def _by_class(margins: jax.Array) -> Pilot[jax.Array]:
    """The summaries of `[b, n, K]` margins."""
    possible = margins[:, :1] > -jnp.inf
    margins = jnp.where(possible, margins, 0)
    return Pilot(
        possible=possible[:, 0],
        hits=((margins >= 0) & possible).sum(axis=1, dtype=jnp.int32),
        mean=margins.mean(axis=1),
        std=margins.std(axis=1),
    )
