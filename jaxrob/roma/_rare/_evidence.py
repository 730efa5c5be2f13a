"""Evidence about rare probabilities that needs neither gradients nor tilts.

A few particles climb around each input, by multilevel splitting. Those that arrive are
a sample of everything that is distinctly misclassified. If many of them have greater
importance weights than the draws from a mixture, the mixture misses a part of the ball.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.roma._draws import SCOUTS, Pairs, Work, rows_on_a_device
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._rare._particles import KEEP, is_thorough, num_moves
from jaxrob.roma._rare._splitting import NUM_PARTICLES, split

# Particles around each input. In few dimensions, where shapes are the oddest and passes
# the cheapest, they are as many as splitting takes.
_FEW_PARTICLES = 64
# A particle is unexplained if less than this part of the probability has weights as
# great as its own.
_TAIL = 0.002


class Evidence(NamedTuple):
    """Particles around N inputs."""

    # For each input, `[m, H, W, C]` points of the unit ball that are distinctly
    # misclassified, or None.
    points: list[np.ndarray | None]
    log_probability: np.ndarray  # `[N]`, by splitting; NaN where it got stuck
    standard_error: np.ndarray  # `[N]`
    evaluations: np.ndarray  # int64 `[N]`, forward passes
    # `[N]`, the log-probability of the last level that they reached, where a budget
    # ended their climb; -inf elsewhere.
    log_open: np.ndarray


def cost_down_to(log_p: float, work: Work, shape: tuple[int, ...]) -> int:
    moves = num_moves(work.perturbation, math.prod(shape))
    return _number(shape) * (1 + moves * math.ceil(log_p / math.log(KEEP)))


def evidence(
    work: Work,
    inputs: Pairs[np.ndarray],
    use: int = SCOUTS,
    budget: np.ndarray | float = math.inf,
) -> Evidence:
    shape = inputs.images.shape[1:]
    rows = rows_on_a_device(work, shape) * work.mesh.size
    found, hits = split(
        work,
        inputs,
        rows=rows,
        num_particles=_number(shape),
        use=use,
        keep_hits=True,
        budget=budget,
    )
    in_unit_ball = functools.partial(_in_unit_ball, work.perturbation, shape=shape)
    return Evidence(
        [None if latents is None else in_unit_ball(latents) for latents in hits],
        np.where(found.status == "splitting", found.log_probability, np.nan),
        found.standard_error,
        found.evaluations,
        np.where(found.status == "", found.log_probability, -np.inf),
    )


def unexplained(log_weight: np.ndarray, hits: np.ndarray) -> np.ndarray:
    if not len(hits):
        return np.ones(len(log_weight), bool)
    mass = np.cumsum(np.exp(hits - hits[0]))
    # The part of the probability that has at least such a weight.
    as_great = np.searchsorted(-hits, -log_weight, side="right")
    return np.append(0.0, mass / mass[-1])[as_great] < _TAIL


def _number(shape: tuple[int, ...]) -> int:
    return NUM_PARTICLES if is_thorough(shape) else _FEW_PARTICLES


def _in_unit_ball(
    perturbation: Perturbation, latents: Any, shape: tuple[int, ...]
) -> np.ndarray:
    points = _points(latents, apply=perturbation.apply, shape=shape)
    return np.asarray(points)


@functools.partial(jax.jit, static_argnames=("apply", "shape"))
def _points(latents: Any, *, apply: Any, shape: tuple[int, ...]) -> jax.Array:
    return jax.vmap(apply, (None, 0, None))(jnp.zeros(shape, jnp.float32), latents, 1.0)
