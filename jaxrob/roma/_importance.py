"""Importance sampling around inputs, by mixtures of tilts towards the modes found.

A method of the cascade (see `jaxrob.roma._cascade`).
"""

from typing import NamedTuple

import numpy as np
import scipy
from tqdm.auto import tqdm

from jaxrob._classifier import gradient_obstacle
from jaxrob.roma._ball import is_ball
from jaxrob.roma._blocks import joined, put_at, taken
from jaxrob.roma._estimate import MOST_MODES, Estimate, improved, unknown
from jaxrob.roma._evidence import Evidence, evidence, unexplained
from jaxrob.roma._mixture import (
    DRAWS,
    Draws,
    Mixtures,
    allotted,
    better_shares,
    draw,
    log_ratios_at,
    log_weights,
    mixtures,
    num_components,
    responsibilities,
    shares_of,
)
from jaxrob.roma._pairs import ANY_CLASS, Pairs
from jaxrob.roma._particles import is_thorough
from jaxrob.roma._pilot import Candidates
from jaxrob.roma._search import (
    LANE_COST,
    Lanes,
    find_lanes,
    lanes_from,
    refined,
)
from jaxrob.roma._weights import LARGEST_ERROR, WeightedDraws, nothing_drawn, weigh
from jaxrob.roma._work import Work

# Draws around each input, stage by stage as long as all of them are too few. Beyond
# their sum splitting is cheaper.
_STAGES = (DRAWS, 4 * DRAWS, *5 * (8 * DRAWS,))
# Intervals are wider than the standard error says by this times the error. The error is
# estimated from the same weights, the worse the larger it is.
_WIDENING = 2.0
# An estimate is not believed if it makes the plain draws' hits this improbable.
_IMPLAUSIBLE = 1e-4
# The share of unexplained particles from which on more modes are looked for at some of
# them, so often; and from which on, in the end, an estimate is not believed. Particles
# have few ancestors, so that one of these may leave many unexplained.
_LOOKED_INTO = 0.1
_ATTEMPTS = 3
_STARTS = 4
_CONTRADICTED = 0.25
# The first number of lanes that start at particles.
_FIRST_NUMBER = 1000
# Inputs whose draws are kept at once.
_GROUP = 64


def by_importance(
    work: Work, candidates: Candidates, estimate: Estimate, bar: tqdm
) -> Estimate:
    """The inputs' estimates by draws from mixtures.

    Args:
      work: the classifier and so on, placed.
      candidates: N inputs.
      estimate: what is known of them: nothing.
      bar: where progress is shown.
    """
    number = len(estimate.status)
    parts = [
        _of_group(work, candidates, np.arange(first, min(first + _GROUP, number)), bar)
        for first in range(0, number, _GROUP)
    ]
    return joined(parts)


def importance_obstacle(work: Work, image_shape: tuple[int, ...]) -> str | None:
    """Why importance sampling is impossible; None if it is possible."""
    # The ball first, because a gradient is traced anew for each classifier.
    if (
        is_ball(work.perturbation)
        and gradient_obstacle(work.classifier, image_shape) is None
    ):
        return None
    return (
        "needs a classifier that JAX can differentiate (no host function) and a ball; "
        f'got the perturbation {work.perturbation.name!r}; use "auto" or "splitting"'
    )


def _of_group(
    work: Work, candidates: Candidates, group: np.ndarray, bar: tqdm
) -> Estimate:
    """The estimates of some inputs, whose draws fit into memory together."""
    inputs = taken(candidates.inputs, group)
    plain_hits = candidates.plain_hits[group]
    lanes = find_lanes(work, inputs, candidates.classes[group], bar)
    seen = evidence(work, inputs)
    bar.update(int(seen.evaluations.sum()))
    found = unknown(len(group))._replace(
        evaluations=seen.evaluations + _cost(lanes, len(group)),
        other_log_probability=seen.log_probability,
        other_error=seen.standard_error,
    )
    left = np.arange(len(group))
    for attempt in range(_ATTEMPTS):
        mine = taken(inputs, left)
        modes = refined(work, mine, _of(lanes, left), bar)
        drawn = _sampled(work, mine, mixtures(work, modes, mine.images), bar)
        better = _believed(drawn.weighted, plain_hits[left], candidates.num_samples)
        share, new = _held_against(work, drawn, seen, left, attempt)
        status = np.where(share > _CONTRADICTED, "untrusted", better.status)
        known = taken(found, left)
        better = better._replace(
            status=status,
            evaluations=modes.cost + drawn.weighted.number,
            other_log_probability=known.other_log_probability,
            other_error=known.other_error,
            modes=_mode_shares(drawn.modes),
            effective=drawn.weighted.effective,
        )
        found = improved(found, left, better)
        # Where splitting has answered already, it is not worth another attempt.
        again = share > _LOOKED_INTO
        if new is None or is_thorough(inputs.images.shape[1:]):
            break
        left = left[again]
        new = lanes_from(work, inputs, *new, classes_of_points=True)
        spent = found.evaluations + _cost(new, len(group))
        found = found._replace(evaluations=spent)
        lanes = joined([lanes, new])
    return found


def _cost(lanes: Lanes, number: int) -> np.ndarray:
    return LANE_COST * np.bincount(lanes.owner, minlength=number)


def _of(lanes: Lanes, left: np.ndarray) -> Lanes:
    """The lanes of some inputs, which are numbered anew."""
    lanes = taken(lanes, np.isin(lanes.owner, left))
    return lanes._replace(owner=np.searchsorted(left, lanes.owner))


class _Sampled(NamedTuple):
    """What draws from N mixtures say.

    Attributes:
      weighted: the estimates.
      mixture: the mixtures.
      shares: `[N, C]`, of all draws, that are from each component.
      modes: `[N, C]`, each component's share of the hits' weights.
      hits: for each input, the logarithms of its hits' weights, descending.
    """

    weighted: WeightedDraws
    mixture: Mixtures
    shares: np.ndarray
    modes: np.ndarray
    hits: list[np.ndarray]


def _sampled(
    work: Work, inputs: Pairs[np.ndarray], mixture: Mixtures, bar: tqdm
) -> _Sampled:
    """Draws from N mixtures, as many as are needed and pay."""
    number = len(inputs.indices)
    weighted = nothing_drawn(number)
    shares, modes = np.zeros((2, number, num_components(mixture)))
    hits: list[np.ndarray] = [np.zeros(0)] * number
    left, draws, next_shares = np.arange(number), None, better_shares(mixture, None)
    for stage, num_draws in enumerate(_STAGES):
        which = allotted(next_shares, num_draws)
        new = draw(work, taken(inputs, left), taken(mixture, left), which, stage, bar)
        draws = new if draws is None else _with(draws, new)
        now = shares_of(draws)
        log_weight = log_weights(draws.log_ratios, now)
        found = weigh(draws.margins, log_weight)
        by_hits = responsibilities(draws, log_weight)
        weighted, shares = put_at(weighted, left, found), put_at(shares, left, now)
        modes = put_at(modes, left, by_hits)
        for place, hit, logs in zip(left, draws.margins >= 0, log_weight):
            hits[place] = -np.sort(-logs[hit])
        on = ~(found.trusted | found.bounded)
        if stage:
            # Only where all stages together will most likely do.
            best = found.standard_error * np.sqrt(found.number / sum(_STAGES))
            on &= best < LARGEST_ERROR
        if not on.any():
            break
        left, draws = left[on], taken(draws, on)
        next_shares = better_shares(taken(mixture, left), by_hits[on])
    return _Sampled(weighted, mixture, shares, modes, hits)


def _with(draws: Draws, more: Draws) -> Draws:
    return Draws(*(np.concatenate(both, axis=1) for both in zip(draws, more)))


def _held_against(
    work: Work, drawn: _Sampled, seen: Evidence, left: np.ndarray, attempt: int
) -> tuple[np.ndarray, tuple | None]:
    """Draws held against particles.

    Returns:
      `[n]` the share of the particles of each of n inputs that are unexplained, and the
      lanes that are to start at some of these, as `lanes_from` takes them; None if
      there are none.
    """
    share, owner, points = np.zeros(len(left)), [], []
    for place, number in enumerate(left):
        mine = seen.points[number]
        if mine is None:
            continue
        log_ratio = log_ratios_at(work, drawn.mixture, place, mine)
        log_weight = log_weights(log_ratio, drawn.shares[place])
        odd = unexplained(log_weight, drawn.hits[place])
        share[place] = odd.mean()
        if share[place] > _LOOKED_INTO:
            order = np.argsort(-log_weight[odd], kind="stable")
            some = order[np.linspace(0, len(order) - 1, _STARTS).round().astype(int)]
            points.append(mine[odd][some])
            owner += [number] * _STARTS
    if not owner:
        return share, None
    first = _FIRST_NUMBER + _STARTS * attempt
    numbers = first + np.tile(np.arange(_STARTS, dtype=np.uint32), len(points))
    classes = np.full(len(owner), ANY_CLASS, np.int32)
    return share, (np.array(owner), numbers, classes, np.concatenate(points))


def _mode_shares(modes: np.ndarray) -> np.ndarray:
    """`[n, M]` the shares of the modes among the hits, the greatest first."""
    sizes = -np.sort(-modes[:, 1:], axis=1)
    wide = np.zeros((len(modes), MOST_MODES))
    wide[:, : sizes.shape[1]] = sizes[:, :MOST_MODES]
    return wide


def _believed(weighted: WeightedDraws, hits: np.ndarray, number: int) -> Estimate:
    """Estimates from weighted draws, held against plain ones.

    Args:
      weighted: of n inputs.
      hits: int `[n]`, distinct misclassifications among plain draws.
      number: of these draws.
    """
    p = np.exp(weighted.log_probability)
    fewer = scipy.stats.binom.cdf(hits, number, p)
    more = scipy.stats.binom.sf(hits - 1, number, p)
    plausible = np.minimum(fewer, more) > _IMPLAUSIBLE
    error = weighted.standard_error * (1 + _WIDENING * weighted.standard_error)
    status = np.select(
        [weighted.trusted & plausible, weighted.bounded & plausible],
        ["importance", "bounded"],
        "untrusted",
    )
    return unknown(len(hits))._replace(
        status=status,
        log_probability=weighted.log_probability,
        standard_error=np.where(plausible, error, np.inf),
    )
