"""Importance sampling, splitting and the cascade, against exact probabilities."""

import math

import jax
import numpy as np
import pytest
from common.timing import compilations
from scipy import special

from jaxrob._devices.blocks import taken
from jaxrob.roma import assess
from jaxrob.roma._draws import Pairs
from jaxrob.roma._rare import _importance, _splitting
from jaxrob.roma._rare._splitting import evidence, split

from .planes import DELTA, DIM, EPSILON, EVEN, ODD, SHAPE, WEIGHTS, classifier, plane


def two_modes():
    return classifier([plane(1e-6, EVEN), plane(3e-6, ODD)])


def run(classifier, estimator="importance", number=3, seed=2, **settings):
    # One image at many indices: independent repetitions, in one call.
    images = np.full((number, *SHAPE), 0.5, np.float32)
    settings = {"epsilon": EPSILON, "delta": DELTA, "budget": math.inf} | settings
    key = jax.random.key(seed)
    return assess(classifier, images, estimator=estimator, key=key, **settings)


def check(result, log_p, largest=0.2):
    """Errors are as large as intervals of 95 % say, and to both sides."""
    error = (result.log_high - result.log_low) / (2 * special.ndtri(0.975))
    assert (error < largest).all()
    z = (result.log_adversarial_probability - log_p) / error
    assert np.abs(z).max() < 3.5 and abs(z.mean()) < 3 / np.sqrt(len(z))


@pytest.mark.slow
def test_two_classes_add_up_within_the_budget():
    both = classifier([plane(1e-7)], [plane(3e-7, -WEIGHTS)])
    result = run(both, "auto", budget=None)
    assert (result.status == "importance").all()
    assert result.budget == 10_000 and result.evaluations.max() <= 10_000
    check(result, np.log(4e-7))
    np.testing.assert_allclose(result.modes[:, :2].mean(axis=0), [0.75, 0.25], atol=0.1)
    # A budget for the plain draws alone.
    result = run(both, "auto", budget=1000)
    assert (result.status == "undecided").all() and (result.evaluations == 1000).all()
    # The one that it names is enough.
    assert (1000 < result.needed).all() and (result.needed < 10_000).all()
    check(run(both, "auto", budget=int(result.needed.max())), np.log(4e-7))


@pytest.mark.slow
def test_two_modes_of_one_class_are_found():
    result = run(two_modes())
    assert (result.status == "importance").all()
    check(result, np.log(4e-6))
    np.testing.assert_allclose(result.modes[:, :2].mean(axis=0), [0.75, 0.25], atol=0.1)
    assert (result.modes[:, 2:] == 0).all()
    # Plain draws, 16 searches, two modes refined, draws from the mixture; the rest are
    # 64 particles that make five moves a level.
    spent = result.evaluations - (1000 + 16 * 43 + 2 * 386 + 1024)
    levels = (spent / 64 - 1) / 5
    assert set(levels) <= {8, 9, 10}
    assert (result.effective_sample_size > 50).all()


@pytest.mark.slow
def test_hopeless_boundaries_are_bounded():
    # No point of the ball is misclassified; the bound must not be below the limit of
    # tilts.
    far = 1.3 * WEIGHTS, -2.0 * np.abs(WEIGHTS).sum()
    result = run(classifier([far, (-far[0], far[1])]))
    assert (result.status == "bounded").all()
    assert (result.log_low == -np.inf).all()
    log_p = result.log_adversarial_probability
    assert (log_p < -40).all() and (-100 < log_p).all()
    assert (result.log_high >= log_p).all()


@pytest.mark.slow
def test_particles_contradict_by_a_greater_answer_or_where_no_draw_is(monkeypatch):
    def changed(*args, **kwargs):
        seen = evidence(*args, **kwargs)
        points = list(seen.points)
        # Fewer than a tenth are somewhere else, or more.
        for one, number in ((1, 6), (2, 7)):
            points[one] = np.concatenate([-points[one][:number], points[one][number:]])
        return seen._replace(
            points=points,
            log_probability=np.log(4e-6) + np.array([3, -9, 0]),
            standard_error=np.full(3, 0.5),
        )

    monkeypatch.setattr(_importance, "evidence", changed)
    found = run(two_modes(), "auto", budget=10_000)
    assert found.status.tolist() == ["undecided", "importance", "undecided"]


def test_more_particles_and_searches_decide_where_few_are_in_doubt(monkeypatch):
    first, more = [], []

    def changed(work, inputs, *use, **kwargs):
        if use:
            more.append((inputs.indices.tolist(), *use))
            return taken(first[0], inputs.indices)
        seen = evidence(work, inputs, **kwargs)
        first.append(seen._replace(points=np.stack(seen.points)))
        # A third of those of two inputs.
        some = [np.concatenate([-points[:20], points[20:]]) for points in seen.points]
        return seen._replace(points=[seen.points[0], *some[1:]])

    monkeypatch.setattr(_importance, "evidence", changed)
    found = run(two_modes())
    assert (found.status == "importance").all()
    assert more == [([1, 2], 9), ([1, 2], 10)]
    check(found, np.log(4e-6))


@pytest.fixture
def works(monkeypatch):
    """Lets splitting have as many particles as evidence, and says with what work."""
    works = []

    def with_few(work, *args, num_particles=None, **kwargs):
        if num_particles is None:
            works.append(work)
        return split(work, *args, **kwargs, num_particles=64)

    monkeypatch.setattr(_splitting, "split", with_few)
    return works


@pytest.mark.slow
def test_splitting(works):
    result = run(classifier([plane(1e-2)]), "splitting")
    assert (result.status == "splitting").all()
    check(result, np.log(1e-2), 0.5)
    images = np.full((24, *SHAPE), 0.5, np.float32)
    first = np.ones(24, np.int32)
    pairs = Pairs(images, np.arange(24, dtype=np.uint32), first, 0 * first)
    found, _ = split(works[0], pairs, rows=4 * 64, num_particles=64)
    # A quarter of the particles a level, five moves at each.
    assert set(found.evaluations) <= {64 * (1 + 5 * levels) for levels in (2, 3, 4)}
    off = found.log_probability - np.log(1e-2)
    p = np.exp(off)
    assert abs(p.mean() - 1) < 3 * p.std() / 24**0.5
    z = off / found.standard_error
    # Of 24 intervals of 95 % at least 19, with probability 0.999.
    assert (np.abs(z) < 1.96).sum() >= 19 and 0.5 < z.std() < 1.5


def test_splitting_by_its_first_draws_alone(works):
    found = run(classifier([plane(0.4)]), "splitting")
    assert (found.evaluations == 1000 + 64).all()
    q = np.exp(found.log_adversarial_probability)
    # As of independent particles.
    error = (found.log_high - found.log_low) / (2 * special.ndtri(0.975))
    np.testing.assert_allclose(error, np.sqrt(1.25 * (1 - q) / (q * 64)), rtol=1e-4)
    # Scores that are equal: nothing shows the way.
    with compilations() as programs:
        found = run(classifier([plane(1e-3)]), "splitting", epsilon=1e-9, delta=0.7)
    assert not programs
    assert (found.status == "incomplete").all() and not found.answered.any()
    assert (found.evaluations == 1000 + 64).all()
    np.testing.assert_allclose(np.exp(found.log_high), 1 - 0.025**1e-3, rtol=1e-6)


@pytest.mark.slow
def test_other_balls(works):
    result = run(classifier([plane(1e-6, np.eye(DIM)[5], norm="l1")]), norm="l1")
    assert (result.status == "importance").all()
    check(result, np.log(1e-6))
    result = run(classifier([plane(1e-2, norm="l2")]), "splitting", norm="l2")
    assert (result.status == "splitting").all()
    check(result, np.log(1e-2), 0.5)


@pytest.mark.slow
def test_three_modes_and_a_steep_one_behind_a_shallow_one():
    thirds = [np.where(np.arange(DIM) % 3 == n, WEIGHTS, 0) for n in range(3)]
    result = run(classifier([plane(1e-6, one) for one in thirds]))
    check(result, np.log(3e-6))
    np.testing.assert_allclose(result.modes[:, :3].mean(axis=0), 1 / 3, atol=0.1)
    result = run(classifier([plane(1e-6, EVEN), plane(9e-6, ODD, steep=30)]))
    assert (np.abs(result.log_adversarial_probability - np.log(1e-5)) < np.log(2)).all()


@pytest.mark.slow
def test_without_gradients_particles_bound_or_split(works):
    blind = classifier([plane(1e-10, EVEN), plane(3e-10, ODD)], blind=True)
    found = run(blind, "auto", budget=None, seed=0)
    assert (found.status == "bounded").all() and found.evaluations.max() <= 10_000
    assert (np.log(4e-10) < found.log_high).all() and (found.log_high < -16).all()
    # What is next to impossible.
    far = classifier([(1.3 * WEIGHTS, -2.0 * np.abs(WEIGHTS).sum())])
    found = run(far, "splitting")
    assert (found.status == "bounded").all() and (found.log_low == -np.inf).all()
    assert (found.log_high < np.log(1e-13)).all()
    # Neither weights nor particles say anything of a plateau.
    found = run(blind, "auto", epsilon=1e-9)
    assert (found.status == "incomplete").all() and not found.answered.any()
