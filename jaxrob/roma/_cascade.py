"""The cascade: plain draws, then costlier methods for the classes that they leave open.

A method estimates the probabilities of inputs. It takes up what the methods before it
left open, and may hold its estimates against theirs. To add one, write a file with the
two functions that `Method` describes, and name the method in those estimators below
that use it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from jaxrob.roma._blocks import put_at, taken
from jaxrob.roma._count import count, counted
from jaxrob.roma._estimate import (
    MOST_MODES,
    Answers,
    Estimate,
    unknown,
    with_estimates,
)
from jaxrob.roma._importance import by_importance, importance_obstacle
from jaxrob.roma._pilot import Candidates, draw_pilot, pairs_that_matter
from jaxrob.roma._splitting import by_splitting, splitting_obstacle
from jaxrob.roma._work import Inputs, Settings, Work

# From this many hits on, counting is exact enough.
_ENOUGH_HITS = 50
# Plain draws, times this, where nothing but counting is possible.
_MORE_DRAWS = 16


class Method(NamedTuple):
    """A way to estimate the probabilities of inputs.

    Attributes:
      estimate: `estimate(work, candidates, estimate, bar)` takes the estimates of N
        inputs so far, and returns them, better where they are not trusted.
      obstacle: `obstacle(work, image_shape)`, as of an `Estimator`.
    """

    estimate: Callable[[Work, Candidates, Estimate, tqdm], Estimate]
    obstacle: Callable[[Work, tuple[int, ...]], str | None]


_IMPORTANCE = Method(by_importance, importance_obstacle)
_SPLITTING = Method(by_splitting, splitting_obstacle)


def importance(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "importance": tilted importance sampling, wherever its weights allow.

    Inputs are counted where every other plain draw is a hit, since there is nothing to
    tilt towards.
    """
    enough = settings.num_samples // 2
    return _cascade(work, inputs, settings, [_IMPORTANCE], enough)


def splitting(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "splitting": adaptive multilevel splitting for every input."""
    return _cascade(work, inputs, settings, [_SPLITTING], None)


def auto(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "auto": counted, by importance sampling, or by splitting."""
    shape = inputs.images.shape[1:]
    methods = [
        method
        for method in (_IMPORTANCE, _SPLITTING)
        if method.obstacle(work, shape) is None
    ]
    if not methods:
        return _count_more(work, inputs, settings)
    return _cascade(work, inputs, settings, methods, _ENOUGH_HITS)


def _cascade(
    work: Work,
    inputs: Inputs,
    settings: Settings,
    methods: Sequence[Method],
    enough_hits: int | None,
) -> Answers:
    """Plain draws, then method by method.

    Args:
      work: the classifier and so on, placed.
      inputs: N inputs.
      settings: what the caller asked for.
      methods: in the order in which they are tried.
      enough_hits: inputs with so many hits among the plain draws are counted; None
        counts no input.
    """
    pilot = draw_pilot(work, inputs, settings)
    answers = counted(np.asarray(pilot.hits).sum(axis=1), settings.num_samples)
    left = np.arange(len(inputs.images))
    if enough_hits is not None:
        left = np.flatnonzero(answers.hits < enough_hits)
    answers = answers._replace(
        modes=np.zeros((len(answers.hits), MOST_MODES)),
        effective_sample_size=np.asarray(answers.hits, np.float64),
    )
    if not len(left):
        return answers
    candidates = pairs_that_matter(
        taken(pilot, left), taken(inputs, left), settings.num_samples
    )
    estimate = unknown(len(left))
    for method in methods:
        estimate = method.estimate(work, candidates, estimate, settings.bar)
    return with_estimates(answers, left, estimate)


def _count_more(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Counts, and counts again among more draws where hits are few."""
    answers = count(work, inputs, settings)
    few = np.flatnonzero(answers.hits < _ENOUGH_HITS)
    if not len(few):
        return answers
    more_draws = settings._replace(num_samples=_MORE_DRAWS * settings.num_samples)
    more = count(work, taken(inputs, few), more_draws)
    # The same draws and others; hits stay those of the first `num_samples`.
    more = more._replace(
        hits=answers.hits[few], evaluations=more.evaluations + settings.num_samples
    )
    return put_at(answers, few, more)
