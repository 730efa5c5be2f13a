"""The parts of mixtures and searches, and few dimensions in closed form."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import jaxrob
from jaxrob.roma._estimate import unknown
from jaxrob.roma._rare import _importance
from jaxrob.roma._rare._mixture import allotted, log_weights, weigh
from jaxrob.roma._rare._search import Line, Modes, _labels, _line, _stretch, no_nearer
from jaxrob.roma._rare._splitting import Evidence, unexplained
from jaxrob.roma._rare._tilt import TILTED_BALLS

EPSILON, DELTA = 0.1, 0.6
LOGIT = float(special.logit(DELTA))
CORNER, SLAB = range(2)


def shape(kind, *, gap=1.0, centre=0.0, direction=(0, 0), half=1.0):
    """A corner of the box, or a slab of the plane."""
    numbers = [np.float32(a) for a in (gap, centre, direction, half)]
    return jaxrob.Classifier(in_shape, (np.int32(kind), *numbers))


def in_shape(variables, images):
    # One function for all shapes, so that the tests share what is compiled.
    kind, gap, centre, direction, half = variables
    points = (images.reshape(len(images), -1) - 0.5) / EPSILON
    corner = 20 * (points.min(axis=1) - (1 - gap))
    along = jnp.matmul(points, direction, precision="highest")
    slab = 20 * (half - jnp.abs(along - centre))
    margin = jnp.stack([corner, slab])[kind] + LOGIT
    return jnp.stack([jnp.zeros_like(margin), margin], axis=1)


def check(classifier, log_p):
    """Of 6 intervals of 95 % at least 4, with probability 0.998; and none far off."""
    result = jaxrob.roma.assess(
        classifier,
        np.full((6, 2, 1, 1), 0.5, np.float32),
        epsilon=EPSILON,
        delta=DELTA,
        estimator="splitting",
        budget=math.inf,
        key=jax.random.key(0),
    )
    covers = (result.log_low <= log_p) & (log_p <= result.log_high)
    assert result.answered.all() and covers.sum() >= 4
    assert np.abs(result.log_adversarial_probability - log_p).max() < np.log(2)


@pytest.mark.slow
def test_shapes_of_few_dimensions():
    log_p = np.log(1e-5)
    check(shape(CORNER, gap=2e-2 * 10**-0.5), log_p)
    # A slab that is inclined and leaves the box on two sides. Its part of the box is
    # its width, over the cosine, of the box's height.
    angle, half = 0.3, 1e-5
    direction = np.cos(angle), np.sin(angle)
    slab = shape(SLAB, centre=0.2, direction=direction, half=half)
    check(slab, np.log(half / np.cos(angle)))


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
    x = rng.normal(means[rng.choice(3, 50_000, p=shares)])
    log_ratios = means * x[:, None] - means**2 / 2
    weights = np.exp(log_weights(log_ratios, shares))
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(len(x))
    assert weights.max() <= 1 / shares[0]
    assert np.mean(weights * (x > 3)) == pytest.approx(special.ndtr(-3), rel=0.08)


def test_what_draws_do_not_explain():
    hits = np.log(np.linspace(2, 1, 1000))
    odd = unexplained(np.log([0.5, 1.5, 1.9999, 2.1, 50.0]), hits)
    assert odd.tolist() == [False, False, True, True, True]
    assert unexplained(np.zeros(2), np.zeros(0)).all()


def searches_along(which, divergence):
    """One input's searches, each along one of a few orthogonal slopes."""
    number = len(which)
    slopes = np.eye(max(which) + 1, dtype=np.float32)[which]
    line = Line(slopes[:, :, None, None], np.zeros(number), np.zeros(number))
    each = np.arange(number)
    return Modes(each * 0, each, each * 0 + 1, line, divergence, each >= 0)


def test_a_lost_lane_does_not_put_off_the_others():
    # One alone, which seems next to the middle, and two modes of ten searches each.
    divergence = np.repeat([0.5, 14.0], [1, 20])
    searches = searches_along([0] + [1] * 10 + [2] * 10, divergence)
    assert sorted(np.bincount(_labels(searches, 0.7))) == [1, 10, 10]
    # Nor do modes count that are far less probable than a sure one.
    divergence[11:] = 30.0
    assert sorted(np.bincount(_labels(searches, 0.7) + 1)) == [1, 10, 10]
    assert (_labels(searches, 0.7)[11:] == -1).all()


def test_lanes_that_seem_nearer_than_they_can_be_do_not_put_off_the_others():
    # Gradients that lead to and fro leave many searches next to the middle.
    divergence = np.repeat([0.5, 14.0], 10)
    searches = searches_along([0] * 10 + [1] * 10, divergence)
    assert (_labels(searches, 0.7)[10:] == -1).all()
    # As probable as that nothing is, as particles have it.
    labels = _labels(no_nearer(searches, np.array([9.0])), 0.7)
    assert labels.tolist() == [0] * 10 + [1] * 10
    assert (searches.divergence == divergence).all()


def test_gradients_that_are_nan_are_left_out():
    u = np.float32([[[1, 0], [0, 1]]])[..., None, None]
    gradients = np.float32([[[2, np.nan], [4, 6]]])[..., None, None]
    line = jax.device_get(jax.jit(_line)(u, np.float32([[5, 7]]), gradients))
    np.testing.assert_allclose(line.slope.ravel(), [3, 3])
    np.testing.assert_allclose([line.intercept[0], line.variance[0]], [3, 1])


def test_a_stretch_follows_the_curvature():
    # Margins that are quadratic in the tilt's normal coordinates along one direction.
    rng = np.random.default_rng(0)
    norm, number = TILTED_BALLS["l2"], 256
    slope = np.zeros((40, 1, 1), np.float32)
    slope[0] = 1

    @jax.jit
    def tilted(slope):
        tilt = norm.towards(slope, -0.3, 0.0)
        return tilt, norm.moments(tilt, slope).deviation, norm.theta(tilt, slope)

    tilt, *parts = jax.device_get(tilted(slope))
    scale, theta = parts[0].ravel(), parts[1]
    z = rng.standard_normal((number, 40))
    # Uncorrelated, of variance 1.
    z = np.linalg.qr(z - z.mean(axis=0))[0] * number**0.5
    bent = np.zeros(40)
    bent[3:5] = 0.6, 0.8
    # Half of the tilt's own curvature: it is twice as wide along it.
    gradients = slope.ravel() + np.outer(z @ bent, bent) * 0.5 / theta / scale
    u, gradients = (
        np.float32(part).reshape(number, 40, 1, 1) for part in (z * scale, gradients)
    )
    stretch = jax.jit(lambda *given: _stretch(norm, *given))
    found = jax.device_get(stretch(tilt, slope, u, gradients))
    widest = int(np.argmax(found.widths))
    assert found.widths[widest] == pytest.approx(2, rel=1e-3)
    assert np.delete(found.widths, widest) == pytest.approx(1)
    assert abs(found.directions[widest].ravel() @ bent) == pytest.approx(1, abs=1e-3)


def test_weigh_against_its_definition():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((3, 1000))
    log_weights = rng.standard_normal((3, 1000)) * 0.3 - 20
    found = weigh(scores, log_weights)
    terms = np.where(scores >= 0, np.exp(log_weights), 0)
    np.testing.assert_allclose(np.exp(found.log_probability), terms.mean(axis=1))
    error = terms.std(axis=1) / terms.mean(axis=1) / np.sqrt(1000)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)
    assert found.trusted.all() and not found.bounded.any()


def test_weigh_distrusts_uneven_weights_and_few_or_many_hits():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((4, 1000))
    log_weights = np.full((4, 1000), -5.0)
    log_weights[0] += rng.standard_normal(1000) * 3  # uneven
    scores[1] -= 5  # no hit
    scores[2] += 5  # nothing but hits
    found = weigh(scores, log_weights)
    np.testing.assert_array_equal(found.trusted, [False, False, False, True])
    assert found.log_probability[1] == -np.inf and not found.bounded.any()
    # A bound needs even weights too.
    log_weights = np.stack([np.full(1000, -60.0), -60 + 6 * rng.standard_normal(1000)])
    found = weigh(scores[1:2].repeat(2, 0), log_weights)
    np.testing.assert_array_equal(found.bounded, [True, False])
    assert found.log_probability[0] == pytest.approx(-60 + np.log(0.5), abs=1e-2)


def test_what_particles_that_a_budget_ended_say():
    nothing = np.full(6, np.nan)
    level = np.log([1e-9, 1e-9, 1e-9, 1e-9, 1e-6, 1e-9])
    level[5] = -np.inf  # They arrived.
    seen = Evidence([None] * 6, nothing, np.full(6, 0.7), np.zeros(6, int), level)
    status = np.array([*["untrusted"] * 3, *["importance"] * 2, "untrusted"])
    log_p = np.array([-np.inf, np.log(1e-8), -np.inf, -25, -25, -30])
    found = unknown(6)._replace(
        status=status,
        log_probability=log_p,
        standard_error=np.where(status == "importance", 0.1, np.inf),
    )
    found = _importance._bounded_by_particles(found, seen, np.array([0, 0, 1, 0, 0, 0]))
    # Not where the draws, or plain ones, went beyond that level, nor where it is low.
    assert found.status.tolist() == [
        "bounded", "untrusted", "untrusted", "importance", "untrusted", "untrusted"
    ]  # fmt: skip
    np.testing.assert_allclose(found.log_probability[[0, 3]], [np.log(1e-9), -25])
    assert found.standard_error[[0, 3]].tolist() == [0.7, 0.1]


def test_the_divergence_that_particles_allow():
    level = np.array([-np.inf, -np.inf, -np.inf, np.log(1e-9)])
    log_p = np.array([np.log(1e-6), np.nan, np.log(0.9), np.nan])
    error = np.array([0.5, np.nan, 0.1, 0.0])
    seen = Evidence([None] * 4, log_p, error, np.zeros(4, int), level)
    least = _importance._least_divergence(seen)
    p = np.array([1e-6 * np.exp(1.5), 0.5, 0.5, 1e-9])
    np.testing.assert_allclose(least, stats.norm.isf(p) ** 2 / 2, atol=1e-12)
