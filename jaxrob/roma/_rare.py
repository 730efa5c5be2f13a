"""Probabilities of distinct misclassifications, by class, rare ones included."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from scipy import special
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier, trace_info
from jaxrob._runtime.memory import rows_that_fit
from jaxrob.roma._ball import ball
from jaxrob.roma._count import clopper_pearson, count_hits, observe_hits
from jaxrob.roma._draws import Inputs, Work, summarise_draws
from jaxrob.roma._importance import (
    LARGEST_ERROR,
    TILT_COST,
    estimate,
    find_tilts,
    pooled,
)
from jaxrob.roma._lanes import Lanes
from jaxrob.roma._logit import observe_classes
from jaxrob.roma._scores import class_score, log_probabilities
from jaxrob.roma._splitting import split
from jaxrob.roma._tilt import TILTS

# From this many hits on, counting is exact enough.
_ENOUGH_HITS = 50
# Classes less probable than the most probable one by this factor, as a normal fit to
# the plain draws has it, are left out: a log of 300.
_LARGEST_GAP = np.log(300.0)
# Draws for each class, stage by stage as long as all of them are too few. Beyond their
# sum splitting is cheaper.
_DRAWS = (1024, 4096, *5 * (8192,))
# A class whose upper estimate is below this share of the sum, or whose error adds less
# than this to the sum's relative one, needs no better estimate.
_NEGLIGIBLE_SHARE = 0.01
_NEGLIGIBLE_ERROR = 0.05
# Intervals of importance sampling are wider than its standard error says by this times
# the error: it is estimated from the same weights, the worse the larger it is.
_WIDENING = 2.0
# Importance sampling is not believed where the plain draws' hits are this improbable.
_IMPLAUSIBLE = 1e-4
# Plain draws, times this, where nothing but counting is possible.
_MORE_DRAWS = 16

_Z = special.ndtri(0.975)


class Rare(NamedTuple):
    """Estimates for N inputs; see `RomaResult` for the fields."""

    status: np.ndarray
    log_probability: np.ndarray
    log_low: np.ndarray
    log_high: np.ndarray
    hits: np.ndarray
    evaluations: np.ndarray


def count(work: Work, inputs: Inputs, num_samples: int, bar: tqdm) -> Rare:
    """Hits among plain draws, with Clopper and Pearson's interval."""
    hits = summarise_draws(work, inputs, num_samples, observe_hits, count_hits, bar)
    return _counted(hits, num_samples)


def importance(work: Work, inputs: Inputs, num_samples: int, bar: tqdm) -> Rare:
    """Tilted importance sampling alone, wherever its weights allow.

    Where every other plain draw is a hit there is nothing to tilt towards: counted.
    """
    enough = num_samples // 2
    return _cascade(work, inputs, num_samples, bar, enough, last="importance")


def splitting(work: Work, inputs: Inputs, num_samples: int, bar: tqdm) -> Rare:
    """Multilevel splitting alone."""
    return _cascade(work, inputs, num_samples, bar, enough_hits=None, first="splitting")


def auto(work: Work, inputs: Inputs, num_samples: int, bar: tqdm) -> Rare:
    """An answer for every input: counted, by importance sampling, or by splitting."""
    stochastic = work.classifier.stochastic
    tilts = can_tilt(work, inputs.images.shape[1:])
    if stochastic or (not tilts and work.perturbation.move is None):
        return _count_more(work, inputs, num_samples, bar)
    first = "importance" if tilts else "splitting"
    last = "importance" if work.perturbation.move is None else "splitting"
    return _cascade(work, inputs, num_samples, bar, _ENOUGH_HITS, first, last)


def can_tilt(work: Work, image_shape: tuple[int, ...]) -> bool:
    """Whether importance sampling is possible: a known ball, and gradients."""
    norm = work.perturbation.norm
    # A user's own perturbation may have a norm as well.
    known = norm in TILTS and work.perturbation.apply is ball(norm, 1.0).apply
    return known and is_differentiable(work.classifier, image_shape)


def is_differentiable(classifier: Classifier, image_shape: tuple[int, ...]) -> bool:
    """Whether JAX can differentiate the classifier; a host function it cannot."""
    if classifier.stochastic:
        return False

    def total(images):
        return class_score(log_probabilities(classifier, images), 0, 0.0).sum()

    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    try:
        jax.eval_shape(jax.grad(total), images)
    except (TypeError, ValueError):
        return False
    return True


def _cascade(
    work, inputs, num_samples, bar, enough_hits, first="importance", last="splitting"
):
    """Plain draws, then the classes that matter by ever dearer means."""
    pilot = summarise_draws(work, inputs, num_samples, observe_classes, _by_class, bar)
    found = _counted(pilot["hits"].sum(axis=1), num_samples)
    todo = np.arange(len(inputs.images))
    if enough_hits is not None:
        todo = np.flatnonzero(found.hits < enough_hits)
    if not len(todo):
        return found
    which, classes = _classes_that_matter(_taken(pilot, todo))
    lanes = Lanes(
        _floating(inputs.images[todo])[which],
        inputs.index[todo][which],
        classes.astype(np.int32),
    )
    state = _LaneState.start(len(which))
    if first == "importance":
        _sample_importance(
            work,
            lanes,
            which,
            state,
            pilot["hits"][todo[which], classes],
            num_samples,
            bar,
        )
    if last == "splitting":
        left = _worth_more(which, state)
        if len(left):
            _split(work, _taken(lanes, left), left, state, bar)
    return _merged(found, todo, which, state)


class _LaneState(NamedTuple):
    """What is known of each lane, filled in stage by stage."""

    log_p: np.ndarray
    error: np.ndarray
    status: np.ndarray
    evaluations: np.ndarray

    @staticmethod
    def start(number):
        return _LaneState(
            np.full(number, np.nan),
            np.full(number, np.inf),
            np.full(number, "", "U16"),
            np.zeros(number, np.int64),
        )


def _sample_importance(work, lanes, which, state, hits, num_samples, bar):
    tilts = find_tilts(work, lanes, bar)
    state.evaluations[:] += TILT_COST
    found = None
    for stage, draws in enumerate(_DRAWS):
        left = _worth_more(which, state)
        if stage > 1:
            # Only where all stages together will most likely do.
            best = found.error * np.sqrt(found.number / sum(_DRAWS))
            left = left[best[left] < LARGEST_ERROR]
        if not len(left):
            return
        new = estimate(
            work, _taken(lanes, left), _taken(tilts, left), draws, bar, stage
        )
        state.evaluations[left] += draws
        if stage:
            new = pooled(_taken(found, left), new)
            for whole, part in zip(found, new):
                whole[left] = part
        else:
            found = new
        # The plain draws are a check that no other part of the ball is overlooked.
        p = np.exp(new.log_probability)
        fewer = scipy.stats.binom.cdf(hits[left], num_samples, p)
        more = scipy.stats.binom.sf(hits[left] - 1, num_samples, p)
        plausible = np.minimum(fewer, more) > _IMPLAUSIBLE
        state.log_p[left] = new.log_probability
        error = new.error * (1 + _WIDENING * new.error)
        state.error[left] = np.where(plausible, error, np.inf)
        state.status[left] = np.select(
            [new.trusted & plausible, new.bounded & plausible],
            ["importance", "bounded"],
            "untrusted",
        )


def _split(work, lanes, left, state, bar):
    found = split(
        work.classifier,
        work.perturbation,
        lanes,
        work.logit_delta,
        work.key,
        rows=_rows(work, lanes),
        mesh=work.mesh,
    )
    state.log_p[left] = found.log_probability
    state.error[left] = found.standard_error
    state.status[left] = np.where(found.complete, "splitting", "incomplete")
    state.evaluations[left] += found.evaluations
    bar.update(int(found.evaluations.sum()))


def _worth_more(which, state):
    """Lanes without a trusted answer that may matter to their input's sum."""
    open_lanes = np.isin(state.status, ["", "untrusted"])
    known = np.where(open_lanes, -np.inf, np.nan_to_num(state.log_p, nan=-np.inf))
    total = _by_input(which, known)
    # Without a hit, -inf and inf: NaN, which may matter.
    with np.errstate(invalid="ignore"):
        upper = state.log_p + _Z * state.error
        little = upper < total[which] + np.log(_NEGLIGIBLE_SHARE)
        # A rough estimate of a class is good enough beside a far likelier one.
        little |= np.exp(upper - total[which]) * state.error < _NEGLIGIBLE_ERROR
    return np.flatnonzero(open_lanes & ~little)


def _by_input(which, log_p):
    """The logarithm of the sum over each input's lanes."""
    total = np.full(which.max() + 1, -np.inf)
    np.logaddexp.at(total, which, log_p)
    return total


# Sums without a hit are -inf, with an infinite error.
@np.errstate(invalid="ignore")
def _merged(found, todo, which, state):
    """The inputs' answers with those of their classes put in."""
    found = Rare(*(np.array(part) for part in found))
    by_input = [[] for _ in todo]
    for lane, number in enumerate(which):
        by_input[number].append(lane)
    # The weakest stage that a class which matters went through.
    order = ["importance", "splitting", "bounded", "incomplete", "untrusted"]
    worth_more = np.zeros(len(which), bool)
    worth_more[_worth_more(which, state)] = True
    for number, mine in zip(todo, by_input):
        log_p = np.nan_to_num(state.log_p[mine], nan=-np.inf)
        total = special.logsumexp(log_p)
        share = np.exp(log_p - total) if np.isfinite(total) else np.ones(len(mine))
        error = np.sqrt(
            np.sum((share * np.where(share > 0, state.error[mine], 0)) ** 2)
        )
        rough = (state.status[mine] == "untrusted") & ~worth_more[mine]
        matters = ((share > _NEGLIGIBLE_SHARE) & ~rough) | worth_more[mine]
        main = state.status[mine][matters]
        status = max(main, key=order.index) if len(main) else "untrusted"
        found.evaluations[number] += state.evaluations[mine].sum()
        high = min(total + _Z * error, 0.0)
        # Where splitting got stuck, on a plateau say, counting may bound it better.
        if status == "incomplete" and high > found.log_high[number]:
            continue
        low = total - _Z * error
        if status in ("bounded", "incomplete"):
            low = -np.inf
        untrusted = status == "untrusted"
        found.status[number] = status
        found.log_probability[number] = np.nan if untrusted else min(total, 0.0)
        found.log_low[number] = np.nan if untrusted else low
        found.log_high[number] = np.nan if untrusted else high
    return found


def _by_class(scores):
    """Each class's hits, mean and standard deviation, `[b, K]`, from `[b, n, K]`."""
    possible = scores[:, :1] > -jnp.inf
    scores = jnp.where(possible, scores, 0)
    return {
        "possible": possible[:, 0],
        "hits": ((scores >= 0) & possible).sum(axis=1, dtype=jnp.int32),
        "mean": scores.mean(axis=1),
        "std": scores.std(axis=1),
    }


def _classes_that_matter(pilot):
    """Lanes: the inputs' positions and the classes, by a normal fit to the scores."""
    mean = pilot["mean"].astype(np.float64)
    std = np.maximum(pilot["std"].astype(np.float64), 1e-12 * np.abs(mean) + 1e-300)
    log_p = np.where(pilot["possible"], special.log_ndtr(mean / std), -np.inf)
    best = log_p.max(axis=1, keepdims=True)
    chosen = (log_p >= best - _LARGEST_GAP) | (pilot["hits"] > 0)
    return np.nonzero(chosen & pilot["possible"])


def _count_more(work, inputs, num_samples, bar):
    found = count(work, inputs, num_samples, bar)
    few = np.flatnonzero(found.hits < _ENOUGH_HITS)
    if not len(few):
        return found
    more = count(work, _taken(inputs, few), _MORE_DRAWS * num_samples, bar)
    # The same draws and others; hits stay those of the first `num_samples`.
    more = more._replace(
        hits=found.hits[few], evaluations=more.evaluations + num_samples
    )
    found = Rare(*(np.array(part) for part in found))
    for part, better in zip(found, more):
        part[few] = better
    return found


def _counted(hits, num_samples):
    low, high = clopper_pearson(hits, num_samples)
    with np.errstate(divide="ignore"):
        logs = [np.log(part) for part in (hits / num_samples, low, high)]
    status = np.full(len(hits), "counted", "U16")
    evaluations = np.full(len(hits), num_samples, np.int64)
    return Rare(status, *logs, np.asarray(hits, np.int64), evaluations)


def _floating(images):
    # NumPy rounds the quotient correctly, as `unit_range` does.
    bytes_ = images.dtype == np.uint8
    return images / np.float32(255) if bytes_ else images


def _taken(tree, chosen):
    return jax.tree.map(lambda array: array[chosen], tree)


def _rows(work, lanes):
    found = trace_info(work.classifier, lanes.images.shape[1:])
    return rows_that_fit(found.largest_array, lanes.images.shape[1:], work.mesh)
