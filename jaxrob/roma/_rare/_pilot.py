"""Plain draws by class, and the pairs of an input and a class that they leave open."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob.roma._draws import (
    ANY_CLASS,
    LARGEST_MARGIN,
    Array,
    Inputs,
    Pairs,
    Settings,
    Statistic,
    Work,
    distinct_margins,
    summarise_draws,
)

# Classes less probable than the most probable one by this factor, as a normal fit to
# the plain draws has it, are left out: a log of 300.
_LARGEST_GAP = np.log(300.0)
# Classes that are sought after around an input at most; plain draws or particles may
# meet others.
_SOUGHT = 4


class Pilot(NamedTuple, Generic[Array]):
    """What plain draws around N inputs say of each class; `[N, K]`."""

    possible: Array  # whether it is another class than the one predicted at the input
    hits: Array  # int32, draws that are distinctly misclassified as it
    mean: Array  # the mean of its margins
    # Their standard deviation, or that of those above the mean, if it is greater, as of
    # a class with modes on two sides.
    std: Array


class Candidates(NamedTuple):
    """Inputs whose probabilities are to be estimated, and the classes that matter."""

    inputs: Pairs[np.ndarray]  # N pairs of an input and `ANY_CLASS`
    classes: np.ndarray  # int32 `[N, T]`, those that matter, the most probable first
    pairs: Pairs[np.ndarray]  # P pairs of an input and a class that matters
    owner: np.ndarray  # int `[P]`, the number of each pair's input
    plain_hits: np.ndarray  # int32 `[N]`, plain draws that are distinctly misclassified
    num_samples: int  # plain draws for each input
    log_normal: np.ndarray  # `[P]` the pairs' log-probabilities by a normal fit
    budget: float  # forward passes left for each input; may be infinite
    confidence_level: float  # of the intervals


def draw_pilot(work: Work, inputs: Inputs, settings: Settings) -> Pilot[np.ndarray]:
    return summarise_draws(work, inputs, settings, _BY_CLASS)


def pairs_that_matter(
    pilot: Pilot[np.ndarray], inputs: Inputs, settings: Settings
) -> Candidates:
    """The classes each input may be mistaken for, by a normal fit to margins."""
    mean = pilot.mean.astype(np.float64)
    # No deviation is 0, by which the mean is divided.
    std = np.maximum(pilot.std.astype(np.float64), 1e-12 * np.abs(mean) + 1e-300)
    log_p = np.where(pilot.possible, special.log_ndtr(mean / std), -np.inf)
    best = log_p.max(axis=1, keepdims=True)
    chosen = (log_p >= best - _LARGEST_GAP) | (pilot.hits > 0)
    chosen &= pilot.possible
    owner, classes = np.nonzero(chosen)
    pairs = Pairs(
        inputs.images[owner],
        inputs.indices[owner],
        classes.astype(np.int32),
        inputs.excluded[owner],
    )
    any_class = np.full(len(inputs.indices), ANY_CLASS, np.int32)
    return Candidates(
        Pairs(inputs.images, inputs.indices, any_class, inputs.excluded),
        _nearest(np.where(chosen, log_p, -np.inf)),
        pairs,
        owner,
        np.asarray(pilot.hits).sum(axis=1),
        settings.num_samples,
        log_p[owner, classes],
        settings.budget - settings.num_samples,
        settings.confidence_level,
    )


def _nearest(log_p: np.ndarray) -> np.ndarray:
    """`[N, T]` the most probable classes; -inf for those that do not matter."""
    order = np.argsort(-log_p, axis=1, kind="stable")
    number = np.maximum((log_p > -np.inf).sum(axis=1, keepdims=True), 1)
    return np.take_along_axis(order, np.arange(_SOUGHT) % number, axis=1)


def observe_classes(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m, K]` margins within a limit, -inf for the class predicted at the input."""
    margins = distinct_margins(log_p, logit_delta)
    margins = jnp.clip(margins, -LARGEST_MARGIN, LARGEST_MARGIN)
    return jnp.where(jnp.arange(log_p.shape[-1]) == excluded, -jnp.inf, margins)


def _by_class(margins: jax.Array) -> Pilot[jax.Array]:
    """The summaries of `[b, n, K]` margins."""
    possible = margins[:, :1] > -jnp.inf
    margins = jnp.where(possible, margins, 0)
    # The deviation that those above the mean would have on both sides of it.
    above = jnp.maximum(margins - margins.mean(axis=1, keepdims=True), 0)
    upper = jnp.sqrt(2 * (above**2).mean(axis=1))
    return Pilot(
        possible=possible[:, 0],
        hits=((margins >= 0) & possible).sum(axis=1, dtype=jnp.int32),
        mean=margins.mean(axis=1),
        std=jnp.maximum(margins.std(axis=1), upper),
    )


_BY_CLASS = Statistic(observe_classes, _by_class)
