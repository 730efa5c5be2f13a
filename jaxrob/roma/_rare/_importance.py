"""Importance sampling around inputs, by mixtures of tilts towards the modes found."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob._classifiers.trace import gradient_obstacle
from jaxrob._devices.blocks import joined, taken
from jaxrob._engine.execution import Bar
from jaxrob.roma._draws import ANY_CLASS, MORE_SCOUTS, Pairs, Work
from jaxrob.roma._estimate import MOST_MODES, Estimate, excluded, unknown
from jaxrob.roma._perturbation import is_ball
from jaxrob.roma._rare._mixture import (
    DRAWS,
    STAGES,
    Sample,
    WeightedDraws,
    draw_on,
    draw_while_it_pays,
    nothing_drawn,
    weights_at,
    without_draws,
)
from jaxrob.roma._rare._particles import is_thorough
from jaxrob.roma._rare._search import (
    BATCH,
    MODE_COST,
    SEARCH_COST,
    Modes,
    has_another_mode,
    no_nearer,
    refined,
    refinement_cost,
    run_searches,
    searches_from,
    wants_more_searches,
)
from jaxrob.roma._rare._splitting import (
    Candidates,
    Evidence,
    cost_down_to,
    evidence,
    unexplained,
)

# Standard errors grow by 1 + this times the error: large ones are less reliable.
_WIDENING = 2.0
# An estimate is rejected if it makes the plain draws' hits this improbable.
_IMPLAUSIBLE = 1e-4
# With more unexplained particles, modes are sought at some, or more is drawn.
_LOOKED_INTO = 0.1
_STARTS = 4
# With a larger share in the end, an estimate is rejected: one ancestor leaves many.
_CONTRADICTED = 0.25
# Between these shares draws end after this many stages; above both, more particles
# climb before draws go on.
_STAGES_IN_DOUBT = 4
# Particles' estimates are too low by at most this many standard errors.
_SURE = 3.0
_FIRST_NUMBER = 1000
# Inputs whose draws are in memory together.
_GROUP = 64
# The first searches' part of a budget, with which particles must reach this deep.
_SEARCH_PART = 1 / 6
_DEEP_ENOUGH = math.log(1e-8)


def by_importance(
    work: Work, candidates: Candidates, estimate: Estimate, bar: Bar
) -> Estimate:
    if candidates.budget < least_cost(work, candidates.inputs.images.shape[1:]):
        return estimate
    number = len(estimate.status)
    parts = [
        _of_group(work, candidates, np.arange(first, min(first + _GROUP, number)), bar)
        for first in range(0, number, _GROUP)
    ]
    return joined(parts)


def least_cost(work: Work, image_shape: tuple[int, ...]) -> int:
    """The forward passes for an input, beside its plain draws, with which it tries."""
    deep = cost_down_to(_DEEP_ENOUGH, work, image_shape)
    return BATCH * SEARCH_COST + MODE_COST + DRAWS + deep


def importance_obstacle(work: Work, image_shape: tuple[int, ...]) -> str | None:
    # The ball first, because the gradient of each classifier is traced.
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
    work: Work, candidates: Candidates, group: np.ndarray, bar: Bar
) -> Estimate:
    inputs, number = taken(candidates.inputs, group), len(group)
    budget, limited = candidates.budget, math.isfinite(candidates.budget)
    classes = candidates.classes[group]
    # In small steps where a budget limits them.
    stages = (DRAWS,) * int(budget // DRAWS) if limited else STAGES
    searches = run_searches(work, inputs, classes, bar, _SEARCH_PART * budget)
    cost = SEARCH_COST * np.bincount(searches.owner, minlength=number)
    rest = budget - cost - refinement_cost(searches, number)
    deep = cost_down_to(_DEEP_ENOUGH, work, inputs.images.shape[1:])
    seen = evidence(work, inputs, budget=np.maximum(rest / 2, deep))
    bar.update(int(seen.evaluations.sum()))
    cost += seen.evaluations
    # Without a limit splitting answers there, and misses fewer of many modes.
    least = _least_divergence(seen) if limited else np.zeros(number)
    searches = no_nearer(searches, least)
    groups = [[] if some is None else [some] for some in seen.points]
    samples: dict[Any, Sample] = {}
    opinions: dict[Any, _Opinion] = dict.fromkeys(range(number), _NO_OPINION)
    restarted = np.flatnonzero(
        budget - cost >= refinement_cost(searches, number) + DRAWS
    )
    further, asked = np.arange(0), np.zeros(number, bool)
    for attempt in range(1 + len(STAGES)):
        if len(restarted):
            mine = taken(inputs, restarted)
            some = _of(searches, restarted)
            modes, spent = refined(
                work, mine, some, bar, least[restarted], stretched=not limited
            )
            cost[restarted] += spent
            samples |= zip(restarted, without_draws(work, modes, mine.images))
            rest = budget - cost
            cost[restarted] += draw_while_it_pays(
                work, inputs, samples, restarted, bar, rest, stages
            )
        cost[further] += draw_on(work, inputs, samples, further, bar)
        # What happens to an input depends on its own draws alone.
        active = np.sort(np.concatenate([restarted, further]))
        for one in active:
            opinions[one] = _opinion(work, samples[one], groups[one])
        # Splitting has answered in few dimensions, and a budget allows no more.
        thorough = is_thorough(inputs.images.shape[1:])
        if attempt == len(STAGES) or thorough or limited:
            break
        stage = np.array([samples[one].stage for one in range(number)])
        ask = active[~asked[active] & (stage[active] >= _STAGES_IN_DOUBT)]
        ask = ask[_shares(opinions)[ask] > _CONTRADICTED]
        cost[ask] += _more_particles(work, inputs, ask, groups)
        asked[ask] = True
        opinions |= ((one, _opinion(work, samples[one], groups[one])) for one in ask)
        shares = _shares(opinions)
        doubtful = active[shares[active] > _LOOKED_INTO]
        if not len(doubtful):
            break
        points = [_spread_out(opinions[one]) for one in doubtful]
        new = _searches_at(work, inputs, searches, np.repeat(doubtful, _STARTS), points)
        cost += SEARCH_COST * np.bincount(new.owner, minlength=number)
        own = [taken(searches, searches.owner == n) for n in doubtful]
        late = [taken(new, new.owner == n) for n in doubtful]
        is_new = np.array(list(map(has_another_mode, own, late)))
        searches = joined([searches, new])
        restarted, further = doubtful[is_new], doubtful[~is_new]
        most = np.where(shares[further] > _CONTRADICTED, len(STAGES), _STAGES_IN_DOUBT)
        further = further[stage[further] < most]
    each = [samples.get(one) for one in range(number)]
    weighted = joined([one.weighted if one else nothing_drawn(1) for one in each])
    plain_hits = candidates.plain_hits[group]
    found = _believed(weighted, plain_hits, candidates.num_samples)
    doubted = _shares(opinions) > (_LOOKED_INTO if limited else _CONTRADICTED)
    # Where a budget ended the particles' climb, they may have contradicted later.
    doubted |= np.isfinite(seen.log_open) & wants_more_searches(searches, number)
    # Few particles often miss a part themselves, so only a higher estimate counts.
    more = seen.log_probability > found.log_probability
    doubted |= more & excluded(found, seen.log_probability, seen.standard_error)
    untrusted = doubted | (found.status == "untrusted")
    found = found._replace(
        status=np.where(untrusted, "untrusted", found.status),
        # No interval, because the draws may lack a part.
        standard_error=np.where(untrusted, np.inf, found.standard_error),
    )
    if limited:
        found = _bounded_by_particles(found, seen, plain_hits)
    no_hits = np.zeros((1, 1))
    by_hits = [one.by_hits if one else no_hits for one in each]
    return found._replace(
        evaluations=cost,
        other_log_probability=seen.log_probability,
        other_error=seen.standard_error,
        modes=np.concatenate([_mode_shares(one) for one in by_hits]),
        effective=weighted.effective,
    )


def _bounded_by_particles(
    found: Estimate, seen: Evidence, plain_hits: np.ndarray
) -> Estimate:
    """The estimates, bounded where a budget ended the climb of the particles."""
    # A level that particles reached bounds what draws leave open, if it is deep.
    deep = np.isfinite(seen.log_open) & (seen.log_open <= _DEEP_ENOUGH)
    bounded = deep & (found.status == "untrusted") & (plain_hits == 0)
    bounded &= ~(found.log_probability > seen.log_open)
    shallow = seen.log_open > _DEEP_ENOUGH
    return found._replace(
        status=np.select([bounded, shallow], ["bounded", "untrusted"], found.status),
        log_probability=np.where(bounded, seen.log_open, found.log_probability),
        standard_error=np.where(bounded, seen.standard_error, found.standard_error),
    )


def _least_divergence(seen: Evidence) -> np.ndarray:
    """`[N]` nats to the half-space of a normal that the particles allow at most."""
    most = np.where(np.isfinite(seen.log_open), seen.log_open, seen.log_probability)
    most = np.nan_to_num(most + _SURE * seen.standard_error, nan=0.0, posinf=0.0)
    # Not below a half.
    far = -scipy.special.ndtri(np.exp(np.minimum(most, math.log(0.5))))
    return far**2 / 2


def _of(searches: Modes, left: np.ndarray) -> Modes:
    """The searches of some inputs, which are renumbered from 0."""
    searches = taken(searches, np.isin(searches.owner, left))
    return searches._replace(owner=np.searchsorted(left, searches.owner))


class _Opinion(NamedTuple):
    """A check of the draws around an input by m particles."""

    points: np.ndarray  # `[m, H, W, C]`, the particles
    # `[m]`, the log importance weights that draws there would have.
    log_weight: np.ndarray
    odd: np.ndarray  # bool `[m]`, whether the draws do not explain the particle


_NO_OPINION = _Opinion(np.zeros(0), np.zeros(0), np.zeros(0, bool))


def _opinion(work: Work, sample: Sample, groups: list[np.ndarray]) -> _Opinion:
    if not groups:
        return _NO_OPINION
    # Group by group, because all groups have one size.
    log_weight = np.concatenate([weights_at(work, sample, some) for some in groups])
    odd = unexplained(log_weight, sample.hits)
    return _Opinion(np.concatenate(groups), log_weight, odd)


def _shares(opinions: dict[Any, _Opinion]) -> np.ndarray:
    """`[N]` the shares of unexplained particles."""
    odd = [opinion.odd for _, opinion in sorted(opinions.items())]
    return np.array([some.mean() if len(some) else 0.0 for some in odd])


def _more_particles(
    work: Work, inputs: Pairs[np.ndarray], ask: np.ndarray, groups: list
) -> np.ndarray | int:
    """Adds groups of particles around some inputs; the passes spent on each."""
    if not len(ask):
        return 0
    more = [evidence(work, taken(inputs, ask), use) for use in MORE_SCOUTS]
    for place, one in enumerate(ask):
        found = (seen.points[place] for seen in more)
        groups[one] += [points for points in found if points is not None]
    return sum(seen.evaluations for seen in more)


def _spread_out(opinion: _Opinion) -> np.ndarray:
    order = np.argsort(-opinion.log_weight[opinion.odd], kind="stable")
    some = order[np.linspace(0, len(order) - 1, _STARTS).round().astype(int)]
    return opinion.points[opinion.odd][some]


def _searches_at(
    work: Work,
    inputs: Pairs[np.ndarray],
    searches: Modes,
    owner: np.ndarray,
    points: list[np.ndarray],
) -> Modes:
    """Runs searches from particles, `[_STARTS, H, W, C]` of each input."""
    # Numbers that no other search of an input has.
    before = np.array([np.count_nonzero(searches.owner == one) for one in owner])
    within = np.tile(np.arange(_STARTS), len(points))
    begun = Modes(
        owner,
        (_FIRST_NUMBER + before + within).astype(np.uint32),
        np.full(len(owner), ANY_CLASS, np.int32),
    )
    points_of_all = np.concatenate(points)
    return searches_from(work, inputs, begun, points_of_all, classes_of_points=True)


def _mode_shares(modes: np.ndarray) -> np.ndarray:
    """`[n, M]` the shares of the modes among the hits, the greatest first."""
    sizes = -np.sort(-modes[:, 1:], axis=1)
    wide = np.zeros((len(modes), MOST_MODES))
    wide[:, : sizes.shape[1]] = sizes[:, :MOST_MODES]
    return wide


def _believed(weighted: WeightedDraws, hits: np.ndarray, number: int) -> Estimate:
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
