"""Importance sampling around inputs, by mixtures of tilts towards the modes found.

A method of the cascade (see `jaxrob.roma._cascade`).
"""

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy
from tqdm.auto import tqdm

from jaxrob._classifier import gradient_obstacle
from jaxrob.roma._ball import is_ball
from jaxrob.roma._blocks import joined, taken
from jaxrob.roma._estimate import MOST_MODES, Estimate, unknown
from jaxrob.roma._evidence import evidence, unexplained
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
    Modes,
    find_lanes,
    has_another_mode,
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
# them, and, where there are none, more particles are asked; and from which on, in the
# end, an estimate is not believed. Particles have few ancestors, so that one of these
# may leave many unexplained.
_LOOKED_INTO = 0.1
_STARTS = 4
_ATTEMPTS = 8
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
    inputs, number = taken(candidates.inputs, group), len(group)
    lanes = find_lanes(work, inputs, candidates.classes[group], bar)
    seen = evidence(work, inputs)
    bar.update(int(seen.evaluations.sum()))
    cost = seen.evaluations + _cost(lanes, number)
    samples: dict[int, _Sample] = {}
    odd: dict[int, np.ndarray] = {}
    anew, further = np.arange(number), np.arange(0)
    for attempt in range(_ATTEMPTS):
        if len(anew):
            mine = taken(inputs, anew)
            modes = refined(work, mine, _of(lanes, anew), bar)
            cost[anew] += modes.cost
            for one, sample in zip(anew, _without_draws(work, modes, mine.images)):
                samples[one] = sample
            cost[anew] += _draw_while_it_pays(work, inputs, samples, anew, bar)
        cost[further] += _draw_on(work, inputs, samples, further, bar)
        for one in (*anew, *further):
            odd[one] = _odd_particles(work, samples[one], seen.points[one])
        shares = np.array([odd[one].mean() for one in range(number)])
        doubtful = np.flatnonzero(shares > _LOOKED_INTO)
        # Where splitting has answered already, it is not worth another attempt.
        last = attempt == _ATTEMPTS - 1 or is_thorough(inputs.images.shape[1:])
        if last or not len(doubtful):
            break
        points = [
            _spread_out(work, samples[one], seen.points[one][odd[one]])
            for one in doubtful
        ]
        owners = np.repeat(doubtful, _STARTS)
        new = _lanes_at_odd_ones(work, inputs, lanes, points, owners)
        cost += _cost(new, number)
        is_another = [has_another_mode(*_of_both(lanes, new, one)) for one in doubtful]
        lanes = joined([lanes, new])
        anew, further = doubtful[is_another], doubtful[np.logical_not(is_another)]
        further = np.array([n for n in further if samples[n].stage < len(_STAGES)], int)
        if not len(anew) + len(further):
            break
    each = [samples[one] for one in range(number)]
    weighted = joined([sample.weighted for sample in each])
    plain_hits = candidates.plain_hits[group]
    found = _believed(weighted, plain_hits, candidates.num_samples)
    return found._replace(
        status=np.where(shares > _CONTRADICTED, "untrusted", found.status),
        evaluations=cost,
        other_log_probability=seen.log_probability,
        other_error=seen.standard_error,
        modes=np.concatenate([_mode_shares(sample.by_hits) for sample in each]),
        effective=weighted.effective,
    )


def _cost(lanes: Lanes, number: int) -> np.ndarray:
    return LANE_COST * np.bincount(lanes.owner, minlength=number)


def _of(lanes: Lanes, left: np.ndarray) -> Lanes:
    """The lanes of some inputs, which are numbered anew."""
    lanes = taken(lanes, np.isin(lanes.owner, left))
    return lanes._replace(owner=np.searchsorted(left, lanes.owner))


def _of_both(lanes: Lanes, new: Lanes, one: int) -> tuple[Lanes, Lanes]:
    """An input's lanes among both."""
    return taken(lanes, lanes.owner == one), taken(new, new.owner == one)


class _Sample(NamedTuple):
    """What draws from the mixture of one input say; arrays have an axis of 1.

    Attributes:
      mixture: the mixture.
      draws: the draws.
      stage: how many of `_STAGES` are drawn.
      weighted: the estimate.
      shares: `[1, C]`, of all draws, that are from each component.
      by_hits: `[1, C]`, each component's share of the hits' weights.
      hits: the logarithms of the hits' weights, descending.
    """

    mixture: Mixtures
    draws: Draws
    stage: int
    weighted: WeightedDraws
    shares: np.ndarray
    by_hits: np.ndarray
    hits: np.ndarray


def _without_draws(work: Work, modes: Modes, images: np.ndarray) -> list[_Sample]:
    """The mixtures of N inputs' modes, before draws."""
    mixture = mixtures(work, modes, images)
    number = num_components(mixture)
    none, nothing = np.zeros((1, 0)), np.zeros((1, number))
    draws = Draws(none, np.zeros((1, 0, number), np.float32), none.astype(np.int32))
    return [
        _Sample(
            taken(mixture, slice(n, n + 1)),
            draws,
            0,
            nothing_drawn(1),
            nothing,
            nothing,
            np.zeros(0),
        )
        for n in range(len(images))
    ]


def _draw_while_it_pays(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[int, _Sample],
    which: np.ndarray,
    bar: tqdm,
) -> np.ndarray:
    """Draws until weights are even, or all stages together will most likely not do.

    Returns:
      How many draws around each.
    """
    left = which
    for stage in range(len(_STAGES)):
        _draw_on(work, inputs, samples, left, bar)
        weighted = joined([samples[n].weighted for n in left])
        on = ~(weighted.trusted | weighted.bounded)
        if stage:
            best = weighted.standard_error * np.sqrt(weighted.number / sum(_STAGES))
            on &= best < LARGEST_ERROR
        left = left[on]
        if not len(left):
            break
    return np.array([int(samples[n].weighted.number[0]) for n in which])


def _draw_on(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[int, _Sample],
    which: np.ndarray,
    bar: tqdm,
) -> np.ndarray:
    """The next stage of some inputs' draws, together where they are alike.

    Returns:
      How many draws around each.
    """
    number = [_STAGES[samples[one].stage] for one in which]
    alike: dict[Any, list[int]] = {}
    for one in which:
        shapes = [a.shape for a in jax.tree.leaves(samples[one].mixture.tilts)]
        alike.setdefault((samples[one].stage, *shapes), []).append(one)
    for (stage, *_), some in alike.items():
        mixture = joined([samples[n].mixture for n in some])
        by_hits = np.concatenate([samples[n].by_hits for n in some])
        which = allotted(
            better_shares(mixture, by_hits if stage else None), _STAGES[stage]
        )
        new = draw(work, taken(inputs, np.array(some)), mixture, which, stage, bar)
        for place, one in enumerate(some):
            more = taken(new, slice(place, place + 1))
            samples[one] = _with(samples[one], more)
    return np.array(number, np.int64)


def _with(sample: _Sample, more: Draws) -> _Sample:
    """What the draws so far and more of them say together."""
    both = zip(sample.draws, more)
    draws = Draws(*(np.concatenate(pair, axis=1) for pair in both))
    shares = shares_of(draws)
    log_weight = log_weights(draws.log_ratios, shares)
    return sample._replace(
        draws=draws,
        stage=sample.stage + 1,
        weighted=weigh(draws.margins, log_weight),
        shares=shares,
        by_hits=responsibilities(draws, log_weight),
        hits=-np.sort(-log_weight[draws.margins >= 0]),
    )


def _odd_particles(
    work: Work, sample: _Sample, points: np.ndarray | None
) -> np.ndarray:
    """Bool `[m]`, which particles the draws around an input do not explain."""
    if points is None:
        return np.zeros(1, bool)
    return unexplained(_weights_at(work, sample, points), sample.hits)


def _weights_at(work: Work, sample: _Sample, points: np.ndarray) -> np.ndarray:
    log_ratio = log_ratios_at(work, sample.mixture, 0, points)
    return log_weights(log_ratio, sample.shares[0])


def _spread_out(work: Work, sample: _Sample, points: np.ndarray) -> np.ndarray:
    """Some of the points, from the greatest weight to the least."""
    order = np.argsort(-_weights_at(work, sample, points), kind="stable")
    return points[order[np.linspace(0, len(order) - 1, _STARTS).round().astype(int)]]


def _lanes_at_odd_ones(
    work: Work,
    inputs: Pairs[np.ndarray],
    lanes: Lanes,
    points: list[np.ndarray],
    owner: np.ndarray,
) -> Lanes:
    """Lanes from unexplained particles."""
    # Numbers that no other lane of an input has.
    before = np.array([np.count_nonzero(lanes.owner == one) for one in owner])
    within = np.tile(np.arange(_STARTS), len(points))
    return lanes_from(
        work,
        inputs,
        owner,
        (_FIRST_NUMBER + before + within).astype(np.uint32),
        np.full(len(owner), ANY_CLASS, np.int32),
        np.concatenate(points),
        classes_of_points=True,
    )


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
