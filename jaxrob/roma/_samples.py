"""Draws from the mixtures around inputs, stage by stage, and their estimates."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._devices.rows import joined, taken
from jaxrob._engine.bar import Bar
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
from jaxrob.roma._pairs import Pairs
from jaxrob.roma._search import Modes
from jaxrob.roma._weights import LARGEST_ERROR, WeightedDraws, nothing_drawn, weigh
from jaxrob.roma._work import Work

#: Draws around each input, stage by stage as long as all of them are too few. Beyond
#: their sum splitting is cheaper.
STAGES = (DRAWS, *3 * (4 * DRAWS,), *4 * (8 * DRAWS,))


class Sample(NamedTuple):
    """Draws from the mixture of one input; arrays have an axis of 1.

    Attributes:
      mixture: the mixture.
      draws: the draws.
      stage: how many of `STAGES` are drawn.
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


def without_draws(work: Work, modes: Modes, images: np.ndarray) -> list[Sample]:
    """The mixtures of N inputs' modes, before draws."""
    mixture = mixtures(work, modes, images)
    number = num_components(mixture)
    none, nothing = np.zeros((1, 0)), np.zeros((1, number))
    draws = Draws(none, np.zeros((1, 0, number), np.float32), none.astype(np.int32))
    return [
        Sample(
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


def draw_while_it_pays(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[Any, Sample],
    which: np.ndarray,
    bar: Bar,
    budget: np.ndarray,
    stages: Sequence[int] = STAGES,
) -> np.ndarray:
    """Draws until weights are even, or all stages will most likely not suffice."""
    left = which
    for stage, drawn in enumerate(np.cumsum(stages)):
        left = left[drawn <= budget[left]]
        if not len(left):
            break
        draw_on(work, inputs, samples, left, bar, stages)
        weighted = joined([samples[n].weighted for n in left])
        on = ~(weighted.trusted | weighted.bounded)
        if stage:
            best = weighted.standard_error * np.sqrt(weighted.number / sum(stages))
            on &= best < LARGEST_ERROR
        left = left[on]
    return np.array([int(samples[n].weighted.number[0]) for n in which])


def draw_on(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[Any, Sample],
    which: np.ndarray,
    bar: Bar,
    stages: Sequence[int] = STAGES,
) -> np.ndarray:
    """Draws the next stage for some inputs, together where shapes are equal."""
    number = [stages[samples[one].stage] for one in which]
    alike: dict[Any, list[Any]] = {}
    for one in which:
        shapes = [a.shape for a in jax.tree.leaves(samples[one].mixture.tilts)]
        alike.setdefault((samples[one].stage, *shapes), []).append(one)
    for (stage, *_), some in alike.items():
        mixture = joined([samples[n].mixture for n in some])
        by_hits = np.concatenate([samples[n].by_hits for n in some])
        shares = better_shares(mixture, by_hits if stage else None)
        component = allotted(shares, stages[stage])
        mine = taken(inputs, np.array(some))
        new = draw(work, mine, mixture, component, stage, bar)
        for place, one in enumerate(some):
            more = taken(new, slice(place, place + 1))
            samples[one] = _with(samples[one], more)
    return np.array(number, np.int64)


def weights_at(work: Work, sample: Sample, points: np.ndarray) -> np.ndarray:
    """`[m]` the log importance weights that draws at points would have."""
    log_ratio = log_ratios_at(work, sample.mixture, 0, points)
    return log_weights(log_ratio, sample.shares[0])


def _with(sample: Sample, more: Draws) -> Sample:
    """The sample with more draws."""
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
