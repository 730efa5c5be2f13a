"""Multilevel splitting, against exact probabilities of linear classifiers."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.linear_truth import (
    linear_l2_log_probability,
    linear_linf_log_probability,
    threshold,
)

import jaxrob
from jaxrob._devices.mesh import checked_mesh
from jaxrob.roma import _particles, _splitting
from jaxrob.roma._ball import ball
from jaxrob.roma._pairs import Pairs
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._splitting import split
from jaxrob.roma._work import Work, placed

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
    return placed(Work(classifier, perturbation, logit_delta, KEY, checked_mesh(mesh)))


def climb(classifier, pairs, logit_delta=10.0, norm="linf", **options):
    options = {"rows": SLOTS * N, "num_particles": N} | options
    return split(work(classifier, ball(norm, 1.0), logit_delta), pairs, **options)[0]


def complete(found):
    return found.status == "splitting"


def true_linf(t):
    return linear_linf_log_probability(WEIGHTS, t)


def true_l2(t):
    return linear_l2_log_probability(np.linalg.norm(WEIGHTS.astype(float)), DIM, t)


HIGHEST = {"linf": 0.99 * np.abs(WEIGHTS).sum(), "l2": 0.99}
TRUTH = {"linf": true_linf, "l2": true_l2}


def weights_of(log_p, norm="linf"):
    """Those with which the logit exceeds 10 with this log-probability."""
    return 10 / threshold(TRUTH[norm], log_p, HIGHEST[norm]) * WEIGHTS


class TestTruth:
    @pytest.mark.parametrize("dim", [3, 8, 20])
    @pytest.mark.parametrize("gap", [1.0, 0.3])
    def test_corner_of_a_cube(self, dim, gap):
        # Equal weights: above dim - 2 * gap there is a simplex, for gaps of at most 1.
        expected = dim * np.log(gap) - np.log(np.arange(1, dim + 1.0)).sum()
        found = linear_linf_log_probability(np.ones(dim), dim - 2 * gap)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)

    @pytest.mark.parametrize("deviations", [-0.5, 0.0, 1.0, 2.5])
    @pytest.mark.parametrize("norm", ["linf", "l2"])
    def test_direct_draws(self, norm, deviations):
        random, number = np.random.default_rng(1), 100_000
        if norm == "linf":
            u = random.uniform(-1, 1, (number, DIM))
        else:
            u = random.normal(size=(number, DIM))
            radius = random.uniform(size=(number, 1)) ** (1 / DIM)
            u *= radius / np.linalg.norm(u, axis=1, keepdims=True)
        values = u @ WEIGHTS
        t = deviations * values.std()
        p = np.exp(TRUTH[norm](t))
        error = np.sqrt(p * (1 - p) / number)
        assert abs((values >= t).mean() - p) < 4 * error

    def test_both_norms_are_nearly_normal_in_many_dimensions(self):
        # The weights' sum in the cube, and one coordinate in the ball, both in standard
        # deviations.
        cube = linear_linf_log_probability(np.ones(10_000), 5 * np.sqrt(10_000 / 3))
        ball = linear_l2_log_probability(np.sqrt(10_002), 10_000, 5.0)
        np.testing.assert_allclose(cube, ball, atol=0.02)


@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "log_p", [np.log(1e-7), pytest.param(np.log(1e-2), marks=pytest.mark.slow)]
)
def test_intervals_cover_the_truth(norm, log_p):
    classifier = linear_classifier(weights_of(log_p, norm))
    found = climb(classifier, make_pairs(40), norm=norm)
    assert complete(found).all()
    z = (found.log_probability - log_p) / found.standard_error
    # Of 40 intervals of 95 % at least 33, with probability 0.999.
    assert (np.abs(z) < 1.96).sum() >= 33
    assert 0.5 < np.sqrt((z**2).mean()) < 1.5
    p = np.exp(found.log_probability - log_p)
    assert abs(p.mean() - 1) < 4 * p.std() / np.sqrt(40)
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


def test_standard_error_of_independent_particles():
    # As many draws as particles, and no move.
    p = 0.4
    found = climb(linear_classifier(weights_of(np.log(p))), make_pairs(SLOTS))
    assert (found.evaluations == N).all()
    q = np.exp(found.log_probability)
    assert np.abs(q - p).max() < 4 * np.sqrt(p * (1 - p) / N)
    expected = np.sqrt(1.25 * (1 - q) / (q * N))
    np.testing.assert_allclose(found.standard_error, expected, rtol=1e-4)


# In 64 dimensions latents are 16-bit numbers, whose sums float32 holds exactly, in
# whatever order; so rounding cannot change a decision. Two pairs have one input.
EXACT = make_pairs(7, 64)._replace(
    indices=np.uint32([0, 1, 2, 3, 3, 5, 6]), classes=np.int32([1, 2, 1, 1, 2, 2, 1])
)


def exact(pairs, rows):
    classifier = jaxrob.Classifier(linear, jnp.ones((64, 2)))
    return climb(classifier, pairs, 14.0, rows=rows, num_particles=100)


@pytest.mark.slow
def test_results_do_not_depend_on_blocks_order_or_devices(tmp_path):
    found = exact(EXACT, rows=399).log_probability
    # All differ, also those of one input as two classes.
    assert len(np.unique(found)) == 7

    order = np.array([3, 5, 0, 6, 1, 2, 4])
    shuffled = exact(Pairs(*(part[order] for part in EXACT)), rows=399)
    np.testing.assert_array_equal(shuffled.log_probability, found[order])

    script = """
        import sys
        import jax, numpy as np, jax.numpy as jnp, jaxrob
        from jax.sharding import Mesh
        from jaxrob._devices.hosts import put
        from jaxrob._devices.mesh import checked_mesh, sharded
        from jaxrob.roma import _particles, _splitting
        from jaxrob.roma._ball import ball
        from jaxrob.roma._pairs import Pairs
        from jaxrob.roma._work import Work, placed
        def apply(variables, images):
            logit = images.sum(axis=1)
            return jnp.stack([jnp.zeros_like(logit), logit, logit], axis=1)
        folder = sys.argv[1]
        pairs = Pairs(**np.load(f"{folder}/pairs.npz"))
        mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
        mesh = checked_mesh(mesh)
        linf, key = ball("linf", 1.0), jax.random.key(0)
        work = placed(Work(jaxrob.Classifier(apply), linf, jnp.float32(14), key, mesh))
        found, _ = _splitting.split(work, pairs, rows=400, num_particles=100)
        np.save(f"{folder}/found.npy", found.log_probability)

        image = jax.ShapeDtypeStruct((64,), jnp.float32)
        systems = _particles.empty_systems(linf, image, 4, 100)
        systems = put(systems, sharded(mesh))
        four = Pairs(*(part[:4] for part in pairs))
        fresh, use = np.ones(4, bool), np.uint32(0)
        text = _particles.step.lower(work, systems, four, fresh, use,
                                     num_particles=100).as_text()
        assert "num_partitions = 4" in text, text[:500]
        for collective in ("all_reduce", "all_gather", "all_to_all",
                           "collective_permute", "reduce_scatter"):
            assert collective not in text, collective
    """
    np.savez(tmp_path / "pairs.npz", **EXACT._asdict())
    environment = dict(os.environ, JAX_NUM_CPU_DEVICES="4")
    command = [sys.executable, "-c", textwrap.dedent(script), tmp_path]
    subprocess.run(command, env=environment, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), found)


def test_more_pairs_and_new_parameters_compile_nothing():
    classifiers = [linear_classifier(weights_of(np.log(p))) for p in (0.1, 0.01)]
    climb(classifiers[0], make_pairs(9))
    before = _particles.step._cache_size()
    climb(classifiers[1], make_pairs(12), logit_delta=9.0)
    assert _particles.step._cache_size() == before


@pytest.mark.slow
def test_a_host_function_gets_a_block_in_one_call():
    sizes = []
    log_p = np.log(1e-3)
    weights = weights_of(log_p)

    def function(images):
        sizes.append(len(images))
        logits = images @ weights
        return np.stack([np.zeros_like(logits), logits], axis=1)

    found = climb(jaxrob.Classifier.from_host(function, 2), make_pairs(SLOTS))
    assert set(sizes) == {SLOTS * N}
    z = (found.log_probability - log_p) / found.standard_error
    assert (np.abs(z) < 3).all()


def test_no_pairs():
    found = climb(linear_classifier(WEIGHTS), make_pairs(0))
    assert {len(part) for part in found} == {0}


class TestIncomplete:
    def test_impossible(self):
        weights = 9.9 / np.abs(WEIGHTS).sum() * WEIGHTS
        found = climb(linear_classifier(weights), make_pairs(SLOTS))
        assert not complete(found).any()
        assert (found.log_probability <= _splitting.FLOOR).all()
        assert (found.log_probability > 2 * _splitting.FLOOR).all()

    def test_constant_score(self):
        found = climb(linear_classifier(0 * WEIGHTS), make_pairs(SLOTS))
        assert not complete(found).any()
        np.testing.assert_array_equal(found.log_probability, 0)
        np.testing.assert_array_equal(found.standard_error, 0)
        np.testing.assert_array_equal(found.evaluations, N)

    def in_steps(self, step, log_p, pairs):
        variables = jnp.float32(weights_of(log_p))[:, None], jnp.float32(step)
        return climb(jaxrob.Classifier(in_steps, variables), pairs)

    @pytest.mark.slow
    def test_all_or_nothing(self):
        # Nothing shows the way to one in a hundred thousand.
        log_p = np.log(1e-5)
        found = self.in_steps(10.0, log_p, make_pairs(SLOTS))
        assert not complete(found).any()
        assert (found.log_probability > log_p).all()

    @pytest.mark.slow
    def test_small_steps_are_climbed(self):
        log_p = np.log(1e-4)
        found = self.in_steps(1.0, log_p, make_pairs(24))
        assert complete(found).all()
        z = (found.log_probability - log_p) / found.standard_error
        assert (np.abs(z) < 1.96).sum() >= 19
        assert abs(np.exp(found.log_probability - log_p).mean() - 1) < 0.3


class TestModes:
    """A feature that leads for long, and one that overtakes it at the very end."""

    # Orthogonal to the weights, so that few images have much of both.
    STEEP = np.float32(np.where(np.arange(DIM) % 2, 1, -1) * WEIGHTS[::-1])
    # Twenty times as steep above `START`, which is rare, and far behind below it.
    START, TOP = 2.5, 2.9

    @staticmethod
    @features
    def apply(one_class, x):
        """A class for each feature, or one class for both."""
        start, top = TestModes.START, TestModes.TOP
        late = start + 20 * (x @ TestModes.STEEP - start)
        # Far below 0 where they are no answer, so that they don't add up.
        early, late = 4 * (x @ WEIGHTS - top), 4 * (late - top)
        joined = jnp.stack([jnp.maximum(early, late), 0 * late - 50], axis=1)
        return jnp.where(one_class, joined, jnp.stack([early, late], axis=1))

    def truth(self):
        crossing = self.START + (self.TOP - self.START) / 20
        return true_linf(self.TOP), linear_linf_log_probability(self.STEEP, crossing)

    @pytest.mark.slow
    def test_of_two_classes_both_are_found(self):
        pairs = make_pairs(40)._replace(classes=np.int32([1, 2] * 20))
        found = climb(jaxrob.Classifier(self.apply, False), pairs, 0.0)
        assert complete(found).all()
        for cls, log_p in zip((1, 2), self.truth()):
            mine = pairs.classes == cls
            z = (found.log_probability - log_p)[mine] / found.standard_error[mine]
            assert (np.abs(z) < 1.96).sum() >= 15

    @pytest.mark.slow
    def test_of_one_class_the_late_one_is_missed(self):
        # What splitting cannot do, and hardly notices.
        found = climb(jaxrob.Classifier(self.apply, True), make_pairs(24), 0.0)
        early, late = self.truth()
        assert late > early + np.log(30)
        assert complete(found).all()
        error = found.log_probability - np.logaddexp(early, late)
        assert np.median(error / found.standard_error) < -3


class TestRefusals:
    def test_nan_late(self):
        # The logit overflows to infinity, whose softmax is NaN, in one image of 10^5.
        largest = np.finfo(np.float32).max
        weights = (
            largest / threshold(true_linf, np.log(1e-5), HIGHEST["linf"]) * WEIGHTS
        )
        with pytest.raises(
            ValueError, match="of the inputs, first of input 1, is no distribution"
        ):
            climb(linear_classifier(weights), make_pairs(SLOTS), 0.99 * largest)

    def test_no_move(self):
        still = Perturbation("noise", jax.random.normal, lambda image, *_: image)
        classifier = linear_classifier(WEIGHTS)
        with pytest.raises(ValueError, match="a move; noise has none"):
            split(work(classifier, still, 1.0), make_pairs(1), rows=N)

    def test_too_few_particles(self):
        with pytest.raises(
            ValueError, match="num_particles must be at least 40; got 39"
        ):
            climb(linear_classifier(WEIGHTS), make_pairs(1), num_particles=39)


# No image of the ball reaches the confidence asked for.
UNREACHABLE = {
    "epsilon": 0.04,
    "estimator": "splitting",
    "delta": 0.9,
    "key": KEY,
}


@pytest.mark.slow
def test_an_input_whose_climb_ends_on_a_plateau_has_no_answer():
    variables = -jnp.ones((DIM, 1), jnp.float32), jnp.float32(0.1)
    images = np.linspace(0.1, 0.2, 2 * DIM, dtype=np.float32).reshape(2, DIM, 1, 1)
    classifier = jaxrob.Classifier(in_steps, variables)
    found = jaxrob.roma.assess(classifier, images, **UNREACHABLE)
    assert (found.status == "incomplete").all()
    assert not found.answered.any()
    assert np.isnan(found.plr).all()
    assert (found.confidence_interval[:, 1] == 1).all()
    np.testing.assert_array_equal(
        found.confidence_interval[:, 0], -np.expm1(found.log_high)
    )
    assert found.categorial().answered.tolist() == [0]
    assert np.isnan(found.categorial().plr).all()


@pytest.mark.slow
def test_what_is_next_to_impossible_is_bounded():
    classifier = jaxrob.Classifier(linear, -jnp.ones((DIM, 1), jnp.float32))
    images = np.linspace(0.1, 0.2, 2 * DIM, dtype=np.float32).reshape(2, DIM, 1, 1)
    found = jaxrob.roma.assess(classifier, images, **UNREACHABLE)
    assert (found.status == "bounded").all() and found.answered.all()
    assert (found.log_low == -np.inf).all() and (found.log_high < np.log(1e-14)).all()
    assert (found.plr > 1 - 1e-14).all()


@pytest.mark.slow
def test_a_bound_that_plain_draws_contradict_is_no_answer():
    """Particles climb to one corner; the draws' hits lie on an island in another."""

    def island(variables, images):
        x = images.reshape(len(images), -1)
        inside = (x[:, :4] > 0.93).all(1)
        logits = jnp.where(inside, 5.0, -3.0 - x.sum(1))
        return jnp.stack([jnp.zeros(len(images)), logits], axis=1)

    images = np.full((2, DIM, 1, 1), 0.5, np.float32)
    settings = {"epsilon": 0.5, "num_samples": 200_000, "key": KEY}
    found = jaxrob.roma.assess(
        jaxrob.Classifier(island), images, estimator="splitting", **settings
    )
    assert (found.hits > 0).all() and (found.status == "untrusted").all()
    assert not found.answered.any()
