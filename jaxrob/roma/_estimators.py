"""The estimators that `assess` offers, each one row of a table.

An estimator is a function from N inputs to the probability near each; `_draws.py` has
the shortest. Three are cascades: plain draws, then costlier methods for the rest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_choice
from jaxrob._devices.blocks import put_at, taken
from jaxrob._engine.execution import Bar
from jaxrob.roma._algorithm1 import FITTED, roma, warn_of_contradictions
from jaxrob.roma._draws import COUNTED, Inputs, Settings, Work, count, counted
from jaxrob.roma._estimate import (
    MOST_MODES,
    SOME_HITS,
    UNDECIDED,
    UNSEEN,
    Answers,
    Estimate,
    unknown,
    with_estimates,
)
from jaxrob.roma._rare._importance import by_importance, importance_obstacle, least_cost
from jaxrob.roma._rare._splitting import (
    Candidates,
    by_splitting,
    draw_pilot,
    expected_cost,
    pairs_that_matter,
    splitting_obstacle,
)


class Estimator(NamedTuple):
    # `estimate(work, inputs, settings)`: an answer depends on the input, its index and
    # `work.key` alone. Raises ValueError for NaN; calls `settings.bar.update`.
    estimate: Callable[[Work, Inputs, Settings], Answers]
    # Those of its answers, with what such answers may miss without notice; "" for none.
    statuses: Mapping[str, str]
    # `obstacle(work, image_shape)`: why it cannot work ("needs a perturbation ...").
    obstacle: Callable[[Work, tuple[int, ...]], str | None] = lambda *_: None
    # About the most forward passes for an input beside its plain draws, by no budget.
    most: int = 0
    # The forward passes for an input by default; None if it takes no budget.
    budget: int | None = None
    # `doubt(log_probability, hits, num_samples)` warns of all answers together.
    doubt: Callable[[np.ndarray, np.ndarray, int], None] = lambda *_: None


# From this many hits on, counting is exact enough.
_ENOUGH_HITS = 50
# Below this log-probability, by a normal fit, all plain draws have the same margin.
_FLAT = -1e12
# Times the plain draws: the most where nothing but counting is possible, or allowed.
MOST_DRAWN = 17

#: The statuses of the cascade, and their caveats.
RARE = COUNTED | {
    "importance": (
        "the parts of the ball that count were sought by gradients from 16 to 64 "
        "starts in and far around it, and by particles without gradients; a part that "
        "is behind others nearly everywhere, because the margin is much steeper there, "
        "may have been missed, and so may a class that nothing came near"
    ),
    "splitting": (
        "particles climbed towards the boundary; a part of the ball that is behind "
        "others until late, because the margin is much steeper there, may have been "
        "missed"
    ),
    "bounded": (
        "the upper bound, `log_high`, holds for the parts of the ball that gradients "
        "and particles found"
    ),
    "untrusted": "",
    "incomplete": "",
    UNDECIDED: (
        "plain draws had hardly a hit, and the budget allowed for no other answer; "
        "only their interval is known"
    ),
}


# `method(work, candidates, estimate, bar)`: better estimates where untrusted.
Method = Callable[[Work, Candidates, Estimate, Bar], Estimate]


def importance(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Counts where every other plain draw is a hit: nothing to tilt towards."""
    enough = settings.num_samples // 2
    return _cascade(work, inputs, settings, [by_importance], enough)


def splitting(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    return _cascade(work, inputs, settings, [by_splitting], None)


def auto(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    shape = inputs.images.shape[1:]
    rows = (importance_obstacle, by_importance), (splitting_obstacle, by_splitting)
    methods = [method for obstacle, method in rows if obstacle(work, shape) is None]
    return _cascade(work, inputs, settings, methods, _ENOUGH_HITS)


def _cascade(
    work: Work,
    inputs: Inputs,
    settings: Settings,
    methods: Sequence[Method],
    enough_hits: int | None,
) -> Answers:
    pilot = draw_pilot(work, inputs, settings)
    level = settings.confidence_level
    hits = np.asarray(pilot.hits).sum(axis=1)
    answers = counted(hits, settings.num_samples, level)
    left = np.arange(len(inputs.images))
    if enough_hits is not None:
        left = np.flatnonzero(answers.hits < enough_hits)
    answers = answers._replace(
        modes=np.zeros((len(answers.hits), MOST_MODES)),
        effective_sample_size=np.asarray(answers.hits, np.float64),
        needed=np.zeros(len(answers.hits), np.int64),
    )
    if not len(left):
        return answers
    if not methods:
        return _counted_further(work, inputs, settings, answers, left)
    candidates = pairs_that_matter(taken(pilot, left), taken(inputs, left), settings)
    estimate = unknown(len(left))
    for method in methods:
        estimate = method(work, candidates, estimate, settings.bar)
    if math.isinf(settings.budget):
        return with_estimates(answers, left, estimate, level)
    decided = ~np.isin(estimate.status, ["", "untrusted"])
    found = np.flatnonzero(decided)
    answers = with_estimates(answers, left[found], taken(estimate, found), level)
    answers.evaluations[left[~decided]] += estimate.evaluations[~decided]
    untried = left[~decided & (estimate.evaluations == 0)]
    answers = _counted_further(work, inputs, settings, answers, untried)
    cost = np.bincount(candidates.owner, expected_cost(work, candidates), len(left))
    if by_importance in methods:
        least = least_cost(work, inputs.images.shape[1:])
        cost = np.where(estimate.evaluations > 0, cost, np.minimum(cost, least))
    # Where all draws have one margin, as of one-hot outputs, nothing can climb.
    climbs = np.bincount(candidates.owner, candidates.log_normal > _FLAT, len(left)) > 0
    needed = settings.num_samples + cost.astype(np.int64)
    # Intervals alone where draws have hardly a hit.
    few = np.asarray(answers.effective_sample_size)[left] < SOME_HITS
    open_ = np.flatnonzero(~decided & few)
    one = taken(answers, left[open_])._replace(
        status=np.full(len(open_), UNDECIDED),
        log_adversarial_probability=np.full(len(open_), np.nan),
        needed=(needed * climbs)[open_],
    )
    return put_at(answers, left[open_], one)


def _counted_further(
    work: Work, inputs: Inputs, settings: Settings, answers: Answers, at: np.ndarray
) -> Answers:
    before = settings.num_samples
    number = int(min(settings.budget - before, (MOST_DRAWN - 1) * before))
    if not len(at) or number <= before:
        return answers
    # The same draws and others.
    more = count(work, taken(inputs, at), settings._replace(num_samples=number))
    better = taken(answers, at)._replace(
        log_adversarial_probability=more.log_adversarial_probability,
        log_low=more.log_low,
        log_high=more.log_high,
        effective_sample_size=np.asarray(more.hits, np.float64),
        evaluations=more.evaluations + before,
    )
    return put_at(answers, at, better)


# By default "auto" spends ten times the paper's passes.
_TABLE = {
    "roma": Estimator(roma, FITTED, doubt=warn_of_contradictions),
    "count": Estimator(count, COUNTED),
    "importance": Estimator(importance, RARE, importance_obstacle, most=50_000),
    "splitting": Estimator(splitting, RARE, splitting_obstacle, most=300_000),
    "auto": Estimator(auto, RARE, most=300_000, budget=10_000),
}

#: How the probability may be estimated; see `assess`.
ESTIMATORS = tuple(_TABLE)

#: The caveats of all statuses, "" for none.
STATUSES = {
    status: caveat
    for estimator in _TABLE.values()
    for status, caveat in estimator.statuses.items()
} | {
    UNSEEN: "not looked at; the mean of each category was known within the half width "
    "asked for without them"
}


def estimator_named(name: str) -> Estimator:
    check_choice("estimator", name, ESTIMATORS)
    return _TABLE[name]
