"""Several modes, few dimensions, other balls: against probabilities in closed form."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.linear_truth import linear_linf_log_probability, threshold
from scipy import special

import jaxrob
from jaxrob.roma._evidence import unexplained
from jaxrob.roma._mixture import allotted, log_weights
from jaxrob.roma._search import Line, Searches, _labels, no_nearer

pytestmark = pytest.mark.usefixtures("optimised")

EPSILON, DELTA = 0.1, 0.6
LOGIT = float(special.logit(DELTA))
KEYS = 12
MODES = 6


def points_of(images):
    return (images.reshape(len(images), -1) - 0.5) / EPSILON


def several(variables, images):
    """Two classes: the second has the greatest of several linear margins."""
    weights, offsets = variables
    margins = jnp.matmul(points_of(images), weights.T, precision="highest") + offsets
    wrong = margins.max(axis=1) + LOGIT
    return jnp.stack([jnp.zeros_like(wrong), wrong], axis=1)


def linear_modes(directions, log_p, steepness):
    """Margins that pass 0 with these log-probabilities, so steep in each deviation."""
    weights, offsets = [], []
    for direction, log_one, steep in zip(directions, log_p, steepness):

        def log_probability(t, direction=direction):
            if not t:
                return np.log(0.5)
            return linear_linf_log_probability(direction, t)

        far = threshold(log_probability, log_one, 0.999 * np.abs(direction).sum())
        scale = steep / np.sqrt((direction**2).sum() / 3)
        weights.append(scale * direction)
        offsets.append(-scale * far)
    # As many for all tests, so that they share what is compiled. The others are never
    # the greatest.
    rest = MODES - len(weights)
    weights += [np.zeros_like(weights[0])] * rest
    offsets += [-1e3] * rest
    variables = np.float32(weights), np.float32(offsets)
    return jaxrob.Classifier(several, variables)


def run(classifier, dim, estimator="auto", norm="linf", keys=KEYS, seed=0):
    return jaxrob.roma.assess(
        classifier,
        np.full((keys, dim, 1, 1), 0.5, np.float32),
        epsilon=EPSILON,
        delta=DELTA,
        norm=norm,
        estimator=estimator,
        budget=math.inf,
        key=jax.random.key(seed),
    )


def check(result, log_p):
    """Of 12 intervals of 95 % at least 9, with probability 0.998; and none far off."""
    covers = (result.log_low <= log_p) & (log_p <= result.log_high)
    assert result.answered.all()
    assert covers.sum() >= 9
    assert np.abs(result.log_adversarial_probability - log_p).max() < np.log(2)


def orthogonal(dim, number):
    rng = np.random.default_rng(0)
    places, directions = rng.permutation(dim), []
    for first in range(number):
        direction = np.zeros(dim)
        mine = places[first::number]
        direction[mine] = rng.standard_normal(len(mine))
        directions.append(direction)
    return directions


@pytest.mark.slow
@pytest.mark.parametrize(
    "shares",
    [(1, 1), (10, 1), pytest.param((1,) * 6, marks=pytest.mark.slow)],
)
def test_modes_of_one_class_are_all_found(shares):
    log_p = np.log(1e-6 * np.array(shares) / sum(shares))
    directions = orthogonal(48, len(shares))
    result = run(linear_modes(directions, log_p, [6] * len(shares)), 48)
    assert (result.status == "importance").all()
    check(result, np.log(1e-6))
    found = result.modes[:, : len(shares)].mean(axis=0)
    np.testing.assert_allclose(found, np.array(shares) / sum(shares), atol=0.1)
    assert (result.effective_sample_size > 50).all()


@pytest.mark.slow
def test_opposite_modes_are_found():
    direction = np.random.default_rng(1).standard_normal(48)
    log_p = np.log([5e-6, 5e-6])
    result = run(linear_modes([direction, -direction], log_p, [6, 6]), 48)
    check(result, np.log(1e-5))


@pytest.mark.slow
def test_a_steep_mode_behind_a_shallow_one_is_mostly_found():
    log_p = np.log([1e-6, 9e-6])
    result = run(linear_modes(orthogonal(48, 2), log_p, [6, 30]), 48)
    off = np.abs(result.log_adversarial_probability - np.log(1e-5))
    assert (off < np.log(2)).sum() >= KEYS - 1


CORNER, DISK, SLAB = range(3)


def shape(kind, *, gap=1.0, centre=(0, 0), radius=1.0, direction=(0, 0), half=1.0):
    """A corner of the box, or a disk or a slab of the plane."""
    numbers = [np.float32(a) for a in (gap, centre, radius, direction, half)]
    return jaxrob.Classifier(in_shape, (np.int32(kind), *numbers))


def in_shape(variables, images):
    # One function for all shapes, so that the tests share what is compiled.
    kind, gap, centre, radius, direction, half = variables
    points = points_of(images)
    corner = 20 * (points.min(axis=1) - (1 - gap))
    flat = points[:, :2]
    distance = jnp.sqrt(((flat - centre) ** 2).sum(axis=1) + 1e-12)
    disk = 5 * (radius - distance)
    along = jnp.matmul(flat, direction, precision="highest")
    slab = 20 * (half - jnp.abs(along - centre[0]))
    margin = jnp.stack([corner, disk, slab])[kind] + LOGIT
    return jnp.stack([jnp.zeros_like(margin), margin], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["auto", "splitting"])
@pytest.mark.parametrize("dim", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_a_corner_of_few_dimensions(dim, estimator):
    log_p = np.log(1e-5)
    classifier = shape(CORNER, gap=2 * np.exp(log_p / dim))
    check(run(classifier, dim, estimator), log_p)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", ["splitting", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_an_island_and_a_thin_slab(estimator):
    radius = np.sqrt(4e-5 / np.pi)
    classifier = shape(DISK, centre=(0.3, -0.5), radius=radius)
    check(run(classifier, 2, estimator), np.log(1e-5))
    # A slab that is inclined and leaves the box on two sides. Its part of the box is
    # its width, over the cosine, of the box's height.
    angle, half = 0.3, 1e-5
    direction = np.cos(angle), np.sin(angle)
    classifier = shape(SLAB, centre=(0.2, 0), direction=direction, half=half)
    log_p = np.log(half / np.cos(angle))
    check(run(classifier, 2, estimator), log_p)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["importance", "splitting"])
def test_the_l1_ball(estimator):
    # A coordinate of a uniform point exceeds t with probability (1 - t)^d / 2.
    dim, log_p = 30, np.log(1e-5)
    t = 1 - (2e-5) ** (1 / dim)
    weights = np.zeros((1, dim), np.float32)
    weights[0, 3] = 60
    classifier = jaxrob.Classifier(several, (weights, np.float32([-60 * t])))
    result = run(classifier, dim, estimator, norm="l1")
    assert (result.status == estimator).all()
    check(result, log_p)


def test_draws_are_allotted_by_shares():
    shares = np.array([[0.05, 0.7, 0.25, 0], [1, 0, 0, 0]])
    which = allotted(shares, 1000)
    numbers = np.stack([np.bincount(row, minlength=4) for row in which])
    assert np.abs(numbers - 1000 * shares).max() <= 1
    assert (np.diff(which, axis=1) >= 0).all()


def test_weights_of_a_mixture_have_a_mean_of_one_under_it():
    # Normal components of other means, against the standard normal distribution.
    rng = np.random.default_rng(0)
    means, shares = np.array([0.0, 2.0, -3.0]), np.array([0.2, 0.5, 0.3])
    x = rng.normal(means[rng.choice(3, 200000, p=shares)])
    log_ratios = means * x[:, None] - means**2 / 2
    weights = np.exp(log_weights(log_ratios, shares))
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(len(x))
    assert weights.max() <= 1 / shares[0]
    tail = np.mean(weights * (x > 3))
    assert tail == pytest.approx(special.ndtr(-3), rel=0.05)


def test_what_draws_do_not_explain():
    hits = np.log(np.linspace(2, 1, 1000))
    odd = unexplained(np.log([0.5, 1.5, 1.9999, 2.1, 50.0]), hits)
    assert odd.tolist() == [False, False, True, True, True]
    assert unexplained(np.zeros(2), np.zeros(0)).all()


def test_a_lost_lane_does_not_put_off_the_others():
    # One alone, which seems next to the middle, and two modes of ten searches each.
    slopes = np.eye(3, dtype=np.float32)[[0] + [1] * 10 + [2] * 10]
    number = len(slopes)
    line = Line(slopes[:, :, None, None], np.zeros(number), np.zeros(number))
    divergence = np.where(np.arange(number) == 0, 0.5, 14.0)
    which = np.arange(number)
    searches = Searches(which * 0, which, which * 0 + 1, line, divergence, which >= 0)
    labels = _labels(searches, 0.7)
    assert sorted(np.bincount(labels)) == [1, 10, 10]
    # Nor do modes count that are far less probable than a sure one.
    divergence[11:] = 30.0
    assert sorted(np.bincount(_labels(searches, 0.7) + 1)) == [1, 10, 10]
    assert (_labels(searches, 0.7)[11:] == -1).all()


def test_lanes_that_seem_nearer_than_they_can_be_do_not_put_off_the_others():
    # Gradients that lead to and fro leave many searches next to the middle.
    slopes = np.eye(2, dtype=np.float32)[[0] * 10 + [1] * 10]
    number = len(slopes)
    line = Line(slopes[:, :, None, None], np.zeros(number), np.zeros(number))
    which = np.arange(number)
    divergence = np.where(which < 10, 0.5, 14.0)
    searches = Searches(which * 0, which, which * 0 + 1, line, divergence, which >= 0)
    assert (_labels(searches, 0.7)[10:] == -1).all()
    # As probable as that nothing is, as particles have it.
    labels = _labels(no_nearer(searches, np.array([9.0])), 0.7)
    assert labels.tolist() == [0] * 10 + [1] * 10
    assert (searches.divergence == divergence).all()
