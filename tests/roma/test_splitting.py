"""Multilevel splitting where few components matter, or particles are lost.

Its answers where many matter are in `test_rare`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.known_modes import linear_log_probability, threshold

import jaxrob
from jaxrob._devices.mesh import checked_mesh, put_whole
from jaxrob._engine.execution import Bar
from jaxrob.roma._draws import SPLITTING, Pairs, Work
from jaxrob.roma._estimate import unknown
from jaxrob.roma._perturbation import ball
from jaxrob.roma._rare import _splitting
from jaxrob.roma._rare._splitting import Candidates, by_splitting, split

pytestmark = pytest.mark.usefixtures("optimised")

KEY = jax.random.key(0)
DIM = 20
WEIGHTS = np.float32(np.random.default_rng(0).normal(size=DIM))
WEIGHTS /= np.linalg.norm(WEIGHTS)
N = 500
# The same programs serve most tests: what takes time is compiling.
SLOTS = 8


def features(function):
    """A classifier of one class of logit 0, and one of each feature's logit."""

    def apply(variables, images):
        logits = function(variables, images.reshape(len(images), -1))
        return jnp.concatenate([jnp.zeros((len(images), 1)), logits], axis=1)

    return apply


@features
def linear(weights, x):
    return x @ weights


@features
def in_steps(variables, x):
    weights, step = variables
    return jnp.floor(x @ weights / step) * step


def linear_classifier(weights):
    return jaxrob.Classifier(linear, jnp.float32(weights)[:, None])


def make_pairs(number, dim=DIM, cls=1):
    return Pairs(
        images=np.zeros((number, dim), np.float32),
        indices=np.arange(number, dtype=np.uint32),
        classes=np.full(number, cls, np.int32),
        excluded=np.zeros(number, np.int32),
    )


def work(classifier, perturbation, logit_delta, mesh=None):
    logit_delta = jnp.float32(logit_delta)
    over = checked_mesh(mesh)
    return put_whole(Work(classifier, perturbation, logit_delta, KEY, over), over)


def climb(classifier, pairs, logit_delta=10.0, **options):
    options = {"rows": SLOTS * N, "num_particles": N} | options
    return split(work(classifier, ball("linf", 1.0), logit_delta), pairs, **options)[0]


def complete(found):
    return found.status == "splitting"


def true_linf(t):
    return linear_log_probability(WEIGHTS, t, "linf")


def weights_of(log_p, reached=10):
    """Those with which the logit exceeds a number with this log-probability."""
    return reached / threshold(true_linf, log_p, 0.99 * np.abs(WEIGHTS).sum()) * WEIGHTS


@pytest.mark.parametrize(("dim", "gap"), [(3, 1.0), (20, 0.3)])
def test_the_truth_in_the_corner_of_a_cube(dim, gap):
    # Equal weights: above dim - 2 * gap there is a simplex, for gaps of at most 1.
    expected = dim * np.log(gap) - np.log(np.arange(1, dim + 1.0)).sum()
    found = linear_log_probability(np.ones(dim), dim - 2 * gap, "linf")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    log_p = np.log(1e-7)
    found = climb(linear_classifier(weights_of(log_p)), make_pairs(16))
    assert complete(found).all()
    z = (found.log_probability - log_p) / found.standard_error
    # Of 16 intervals of 95 % at least 12, with probability 0.999.
    assert (np.abs(z) < 1.96).sum() >= 12
    assert 0.5 < np.sqrt((z**2).mean()) < 1.5
    p = np.exp(found.log_probability - log_p)
    assert abs(p.mean() - 1) < 4 * p.std() / np.sqrt(16)
    # A quarter of the particles a level, ten moves of so few components at each.
    levels = np.ceil(log_p / np.log(0.25)) - 1
    assert (np.abs(found.evaluations / N - (1 + 10 * levels)) <= 10).all()


@features
def product(bound, x):
    return 200 * (x[:, :1] * x[:, 1:2] - bound)


@pytest.mark.slow
def test_two_coordinates_of_many_that_matter():
    # u1 u2 > t with two signs of four: (1 - t + t log t) / 2.
    bound = 0.99
    log_p = np.log((1 - bound + bound * np.log(bound)) / 2)
    classifier = jaxrob.Classifier(product, jnp.float32(bound))
    found = climb(classifier, make_pairs(16, 100), 0.0)
    off = found.log_probability - log_p
    assert complete(found).all()
    # Of 16 intervals of 95 % at least 12, with probability 0.999.
    assert (np.abs(off) < 1.96 * found.standard_error).sum() >= 12
    assert np.abs(off).max() < np.log(4)
    assert np.sqrt((off**2).mean()) < 0.6


# In 64 dimensions latents are 16-bit numbers, whose sums float32 holds exactly, in
# whatever order; so rounding cannot change a decision. Two pairs have one input.
EXACT = make_pairs(7, 64)._replace(
    indices=np.uint32([0, 1, 2, 3, 3, 5, 6]), classes=np.int32([1, 2, 1, 1, 2, 2, 1])
)


def exact(pairs, rows):
    classifier = jaxrob.Classifier(linear, jnp.ones((64, 2)))
    return climb(classifier, pairs, 14.0, rows=rows, num_particles=100)


@pytest.mark.slow
def test_results_do_not_depend_on_the_order():
    found = exact(EXACT, rows=399).log_probability
    # All differ, also those of one input as two classes.
    assert len(np.unique(found)) == 7
    order = np.array([3, 5, 0, 6, 1, 2, 4])
    shuffled = exact(Pairs(*(part[order] for part in EXACT)), rows=399)
    np.testing.assert_array_equal(shuffled.log_probability, found[order])


def climb_in_steps(step, log_p, pairs):
    variables = jnp.float32(weights_of(log_p))[:, None], jnp.float32(step)
    return climb(jaxrob.Classifier(in_steps, variables), pairs)


@pytest.mark.slow
def test_small_steps_are_climbed_and_large_ones_not():
    log_p = np.log(1e-4)
    found = climb_in_steps(1.0, log_p, make_pairs(SLOTS))
    assert complete(found).all()
    z = (found.log_probability - log_p) / found.standard_error
    assert (np.abs(z) < 1.96).sum() >= 5
    assert abs(np.exp(found.log_probability - log_p).mean() - 1) < 0.5
    # Nothing shows the way to one in a hundred thousand.
    found = climb_in_steps(10.0, np.log(1e-5), make_pairs(SLOTS))
    assert not complete(found).any()
    assert (found.log_probability > np.log(1e-5)).all()


@pytest.mark.slow
def test_nan_that_few_particles_meet():
    # The logit overflows to infinity, whose softmax is NaN, in one image of 10^5.
    largest = np.finfo(np.float32).max
    weights = weights_of(np.log(1e-5), largest)
    with pytest.raises(ValueError, match="first of input 1"):
        climb(linear_classifier(weights), make_pairs(SLOTS), 0.99 * largest)


def fake_runs(monkeypatch, *runs):
    """Lets `split` return these log-probabilities, errors and statuses, in turn."""
    left, calls = list(runs), []

    def fake(work, pairs, *, use=SPLITTING, budget, **_):
        number = len(pairs.classes)
        calls.append((use, pairs.indices.tolist(), np.broadcast_to(budget, number)))
        log_p, error, status = (np.full(number, part) for part in left.pop(0))
        return unknown(number)._replace(
            status=status,
            log_probability=log_p,
            standard_error=error,
            evaluations=np.full(number, 1000),
        ), []

    monkeypatch.setattr(_splitting, "split", fake)
    return calls


def candidates(**changes):
    """Of input 0 two classes matter, of input 1 one."""
    pairs, inputs = make_pairs(3), make_pairs(2, cls=-1)
    pairs = pairs._replace(indices=np.uint32([0, 0, 1]), classes=np.int32([1, 2, 1]))
    fields = {
        "classes": np.ones((2, 4), np.int32),
        "owner": np.array([0, 0, 1]),
        "plain_hits": np.zeros(2, int),
        "num_samples": 1000,
        "log_normal": np.log([1e-4, 1e-4, 1e-9]),
        "budget": np.inf,
        "confidence_level": 0.95,
    }
    return Candidates(inputs=inputs, pairs=pairs, **(fields | changes))


def estimated(given):
    some = work(linear_classifier(WEIGHTS), ball("linf", 1.0), 1.0)
    return by_splitting(some, given, unknown(2), Bar(disable=True))


def test_runs_go_on_until_they_are_precise(monkeypatch):
    runs = [(-9.0, [0.6, 0.4, 0.6], "splitting"), (-9.0, 0.1, "splitting")]
    calls = fake_runs(monkeypatch, *runs)
    found = estimated(candidates())
    assert [(use, at) for use, at, _ in calls] == [(SPLITTING, [0, 0, 1]), (6, [0, 1])]
    np.testing.assert_allclose(found.log_probability, np.log([2, 1]) - 9)
    assert found.evaluations.tolist() == [3000, 2000]
    assert found.status.tolist() == ["splitting", "splitting"]


def test_a_budget_leaves_out_what_it_cannot_afford(monkeypatch):
    calls = fake_runs(monkeypatch, (-9.0, 0.4, "splitting"))
    # Particles reach 1e-4 in 7 levels, 1e-9 in 15, by ten moves at each but the first.
    found = estimated(candidates(budget=2 * 61_000))
    ((_, at, budget),) = calls
    assert at == [0, 0] and budget.tolist() == [61_000, 61_000]
    assert found.status.tolist() == ["splitting", ""]


def test_a_bound_that_plain_draws_contradict_is_no_answer(monkeypatch):
    fake_runs(monkeypatch, (-36.0, 0.1, "bounded"))
    found = estimated(candidates(plain_hits=np.array([1, 0])))
    assert found.status.tolist() == ["untrusted", "bounded"]
    assert np.isinf(found.standard_error).tolist() == [True, False]
