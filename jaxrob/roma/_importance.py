"""Importance sampling of pairs of an input and a class, stage by stage.

A method of the cascade (see `jaxrob.roma._cascade`).
"""

import numpy as np
import scipy
from tqdm.auto import tqdm

from jaxrob._classifier import gradient_obstacle
from jaxrob.roma._ball import ball
from jaxrob.roma._blocks import put_at, taken
from jaxrob.roma._estimate import Estimate, improved, worth_more
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._pilot import Candidates
from jaxrob.roma._tilt import TILTS
from jaxrob.roma._tilted_draws import TILT_COST, draw_tilted, find_tilts
from jaxrob.roma._weights import (
    LARGEST_ERROR,
    WeightedDraws,
    nothing_drawn,
    pooled,
    weigh,
)
from jaxrob.roma._work import Work, stochastic_obstacle

# Draws for each pair, stage by stage as long as all of them are too few. Beyond their
# sum splitting is cheaper.
_DRAWS = (1024, 4096, *5 * (8192,))
# Intervals are wider than the standard error says by this times the error. The error is
# estimated from the same weights, the worse the larger it is.
_WIDENING = 2.0
# An estimate is not believed if it makes the plain draws' hits this improbable.
_IMPLAUSIBLE = 1e-4


def by_importance(
    work: Work, candidates: Candidates, estimate: Estimate, bar: tqdm
) -> Estimate:
    """The pairs' estimates, improved by tilted draws where they are worth more.

    Args:
      work: the classifier and so on, placed.
      candidates: P pairs, for all of which a tilt is found.
      estimate: what is known of them.
      bar: where progress is shown.
    """
    pairs, owner = candidates.pairs, candidates.owner
    tilts = find_tilts(work, pairs, bar)
    estimate = estimate._replace(evaluations=estimate.evaluations + TILT_COST)
    weighted = nothing_drawn(len(owner))
    for stage, draws in enumerate(_DRAWS):
        left = worth_more(estimate, owner)
        if stage > 1:
            # Only where all stages together will most likely do.
            best = weighted.standard_error * np.sqrt(weighted.number / sum(_DRAWS))
            left = left[best[left] < LARGEST_ERROR]
        if not len(left):
            break
        mine = taken(pairs, left), taken(tilts, left)
        new = weigh(*draw_tilted(work, *mine, draws, stage, bar))
        weighted = put_at(weighted, left, pooled(taken(weighted, left), new))
        better = _believed(taken(weighted, left), candidates, left)
        spent = np.full(len(left), draws)
        estimate = improved(estimate, left, better._replace(evaluations=spent))
    return estimate


def importance_obstacle(work: Work, image_shape: tuple[int, ...]) -> str | None:
    """Why importance sampling is impossible; None if it is possible."""
    if (obstacle := stochastic_obstacle(work)) is not None:
        return obstacle
    # The ball first, because a gradient is traced anew for each classifier.
    is_known = _is_known_ball(work.perturbation)
    if is_known and gradient_obstacle(work.classifier, image_shape) is None:
        return None
    return (
        "needs a classifier that JAX can differentiate (no host function) and "
        'norm="linf" or "l2"; got the perturbation '
        f'{work.perturbation.name!r}; use "auto" or "splitting"'
    )


def _is_known_ball(perturbation: Perturbation) -> bool:
    """Whether it is a ball that can be tilted; a user's own may have a norm as well."""
    norm = perturbation.norm
    if norm is None or norm not in TILTS:
        return False
    return perturbation.apply is ball(norm, 1.0).apply


def _believed(
    weighted: WeightedDraws, candidates: Candidates, at: np.ndarray
) -> Estimate:
    """Estimates from weighted draws, held against the plain ones.

    The plain draws are a check that no other part of the ball is overlooked.

    Args:
      weighted: of the candidates at the positions `at`.
      candidates: the pairs.
      at: `[m]` positions.

    Returns:
      The m estimates; no evaluations are counted.
    """
    p = np.exp(weighted.log_probability)
    hits, number = candidates.plain_hits[at], candidates.num_samples
    fewer = scipy.stats.binom.cdf(hits, number, p)
    more = scipy.stats.binom.sf(hits - 1, number, p)
    plausible = np.minimum(fewer, more) > _IMPLAUSIBLE
    error = weighted.standard_error * (1 + _WIDENING * weighted.standard_error)
    status = np.select(
        [weighted.trusted & plausible, weighted.bounded & plausible],
        ["importance", "bounded"],
        "untrusted",
    )
    none = np.zeros(len(at), np.int64)
    return Estimate(
        status, weighted.log_probability, np.where(plausible, error, np.inf), none
    )
