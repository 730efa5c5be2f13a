"""`assess` as a whole: what it depends on, what it refuses, and black boxes."""

import json
import math
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from numpyro import distributions
from scipy import special, stats

import jaxrob
from jaxrob import roma
from jaxrob.roma import assess

KEY = jax.random.key(0)
SHAPE = (4, 5, 1)
SETTINGS = {"epsilon": 0.15, "num_samples": 300, "key": KEY}
# What needs more passes than are spent by default.
UNLIMITED = SETTINGS | {"budget": math.inf}


def network(variables, images):
    """A small nonlinear network of four classes."""
    first, second = variables
    hidden = jnp.tanh((images.reshape(len(images), -1) - 0.5) @ first)
    return hidden @ second


def make_variables(seed):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((20, 16)).astype(np.float32)
    return first, np.float32(rng.standard_normal((16, 4)) * 1.5)


@pytest.fixture(scope="module")
def classifier():
    return jaxrob.Classifier(network, make_variables(0))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(1).integers(0, 256, (70, *SHAPE), dtype=np.uint8)


@pytest.fixture(scope="module")
def results(classifier, images):
    """By estimator, for 65 inputs."""
    return {
        name: assess(classifier, images[:65], estimator=name, **UNLIMITED)
        for name in ("roma", "count", "logit", "auto")
    }


def check_same(result, reference, number, atol=1e-6):
    assert len(result.status) == number
    np.testing.assert_array_equal(result.status, reference.status[:number])
    np.testing.assert_array_equal(result.excluded, reference.excluded[:number])
    np.testing.assert_array_equal(result.hits, reference.hits[:number])
    np.testing.assert_array_equal(result.evaluations, reference.evaluations[:number])
    for name in ("log_adversarial_probability", "log_low", "log_high"):
        np.testing.assert_allclose(
            getattr(result, name),
            getattr(reference, name)[:number],
            rtol=atol,
            atol=atol,
        )


@pytest.mark.slow
def test_the_fixture_has_answers_of_all_kinds(results):
    assert {"transformed", "failed"} <= set(results["roma"].status)
    assert {"counted", "importance"} <= set(results["auto"].status)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "number"),
    [
        ("roma", 1),
        ("auto", 7),
        ("roma", 64),
        ("count", 64),
        ("logit", 64),
        ("auto", 64),
    ],
)
def test_further_inputs_change_nothing(classifier, images, results, estimator, number):
    result = assess(classifier, images[:number], estimator=estimator, **UNLIMITED)
    check_same(result, results[estimator], number)


@pytest.mark.slow
def test_labels_group_and_do_no_more(classifier, images, results):
    labels = np.arange(65) % 4
    result = assess(classifier, images[:65], labels, estimator="roma", **SETTINGS)
    check_same(result, results["roma"], 65, 0)
    np.testing.assert_array_equal(result.categorial().inputs, np.bincount(labels))
    grouped = results["roma"].categorial()
    present, counts = np.unique(result.excluded, return_counts=True)
    assert grouped.names == tuple(map(str, present))
    np.testing.assert_array_equal(grouped.inputs, counts)


@pytest.mark.slow
def test_uint8_and_float_images(classifier, images, results):
    scaled = images[:65] / np.float64(255)
    result = assess(classifier, scaled, estimator="count", **SETTINGS)
    check_same(result, results["count"], 65)


@pytest.mark.slow
def test_a_jax_array_is_an_array(classifier, images, results):
    result = assess(classifier, jnp.array(images[:65]), estimator="count", **SETTINGS)
    check_same(result, results["count"], 65, 0)


@pytest.mark.slow
def test_every_answer_has_a_reason_and_every_interval_its_middle(results):
    for name, result in results.items():
        log_p = result.log_adversarial_probability
        unanswered = {"failed", "constant", "unresolved", "untrusted", "incomplete"}
        np.testing.assert_array_equal(
            np.isnan(log_p), np.isin(result.status, list(unanswered))
        )
        np.testing.assert_array_equal(result.answered, ~np.isnan(log_p))
        assert np.nanmax(log_p) <= 0
        if name in ("count", "auto"):
            assert (result.log_low <= log_p).all() and (log_p <= result.log_high).all()
            interval = result.confidence_interval
            assert (interval[:, 0] <= result.plr).all()
            assert (result.plr <= interval[:, 1]).all()
        else:
            assert np.isnan(result.confidence_interval).all()


@pytest.mark.slow
def test_estimators_agree(classifier, images, results):
    truth = assess(
        classifier, images[:65], estimator="count", **{**SETTINGS, "num_samples": 20000}
    )
    known = truth.hits > 100
    log_p = truth.log_adversarial_probability
    auto = results["auto"]
    low, high = auto.log_low - 0.1, auto.log_high + 0.1
    assert ((low <= log_p) & (log_p <= high))[known].mean() > 0.93
    sampled = known & (auto.status == "importance")
    assert sampled.sum() >= 3
    extrapolated = results["logit"].log_adversarial_probability
    assert np.abs(extrapolated - log_p)[known].max() < np.log(3)
    # "roma" overestimates where it errs.
    paper = results["roma"].log_adversarial_probability
    errors = (paper - log_p)[known & ~np.isnan(paper)]
    assert errors.size and errors.min() > -np.log(2)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["roma", "logit"])
def test_nothing_is_compiled_anew(images, results, estimator):
    many = np.concatenate([images, images])
    other = jaxrob.Classifier(network, make_variables(5))
    settings = SETTINGS | {"epsilon": 0.12, "delta": 0.7, "key": jax.random.key(3)}
    with compilations() as compiled:
        assess(other, many[:130], estimator=estimator, **settings)
    # `jax.random.key`, and the unperturbed answers of another number of images.
    assert len(compiled) <= 2, len(compiled)
    with compilations() as compiled:
        settings["epsilon"], settings["delta"] = 0.1, 0.8
        assess(other, many[:130], estimator=estimator, **settings)
    assert len(compiled) == 0, len(compiled)


@pytest.mark.slow
def test_the_cascade_compiles_nothing_for_new_parameters(images):
    # How many searches, modes and draws there are depends on the numbers.
    other = jaxrob.Classifier(network, make_variables(0))
    first = assess(other, images, estimator="auto", **UNLIMITED)
    with compilations() as compiled:
        again = assess(other, images, estimator="auto", **UNLIMITED)
    assert len(compiled) == 0, len(compiled)
    np.testing.assert_array_equal(again.log_high, first.log_high)


@pytest.mark.slow
def test_eight_devices_give_the_answers_of_one(images, results, tmp_path):
    np.save(tmp_path / "images.npy", images)
    script = f"""
    import jax, numpy as np, jaxrob, sys
    sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
    from test_assess import UNLIMITED, make_variables, network
    assert jax.device_count() == 8
    images = np.load({str(tmp_path / "images.npy")!r})[:65]
    classifier = jaxrob.Classifier(network, make_variables(0))
    result = jaxrob.roma.assess(classifier, images, estimator="auto", **UNLIMITED)
    np.savez({str(tmp_path / "result.npz")!r}, status=result.status, hits=result.hits,
             log_p=result.log_adversarial_probability, evaluations=result.evaluations)
    """
    environment = dict(os.environ, JAX_NUM_CPU_DEVICES="8")
    command = [sys.executable, "-c", textwrap.dedent(script)]
    subprocess.run(command, env=environment, check=True)
    found, reference = np.load(tmp_path / "result.npz"), results["auto"]
    np.testing.assert_array_equal(found["status"], reference.status)
    np.testing.assert_array_equal(found["hits"], reference.hits)
    np.testing.assert_array_equal(found["evaluations"], reference.evaluations)
    # Sums over fewer rows round otherwise, which puts one draw of hundreds on the
    # boundary's other side now and then; what a device lost would be an eighth.
    expected = reference.log_adversarial_probability
    np.testing.assert_allclose(found["log_p"], expected, atol=0.02)
    alike = np.isclose(found["log_p"], expected, atol=1e-3, rtol=1e-4)
    assert alike.sum() >= 62, "of 65"


@pytest.mark.slow
def test_samples_count_by_their_mean_probability(images):
    variables = [make_variables(seed) for seed in (0, 7)]

    def logits(variables, images):
        return jnp.stack([network(v, images) for v in variables])

    def mean(variables, images):
        return jax.nn.softmax(logits(variables, images)).mean(axis=0)

    settings = SETTINGS | {"estimator": "count", "delta": 0.55}
    samples = assess(jaxrob.Classifier(logits, variables), images[:7], **settings)
    means = assess(
        jaxrob.Classifier(mean, variables, "probabilities"), images[:7], **settings
    )
    np.testing.assert_array_equal(samples.excluded, means.excluded)
    assert np.abs(samples.hits - means.hits).max() <= 1 and samples.hits.any()


def test_hits_below_a_delta_of_one_half(classifier, images):
    """Definition 3 asks for the class as well as for its confidence."""
    few, number = images[:7], 4000
    rng = np.random.default_rng(0)
    x = few[:, None] / np.float32(255) + SETTINGS["epsilon"] * rng.uniform(
        -1, 1, (7, number, *SHAPE)
    )
    flat = np.float32(x).reshape(-1, *SHAPE)
    p = special.softmax(np.float64(network(classifier.variables, flat)), axis=-1)
    p = p.reshape(7, number, 4)
    settings = SETTINGS | {"num_samples": number}
    for delta in (0.3, 0.45):
        result = assess(classifier, few, delta=delta, estimator="count", **settings)
        wrong = p.argmax(axis=-1) != result.excluded[:, None]
        expected = (wrong & (p.max(axis=-1) >= delta)).mean(axis=1)
        error = np.sqrt(2 * expected.clip(1e-3) * (1 - expected) / number)
        assert (np.abs(result.hits / number - expected) < 4 * error + 1e-3).all()
        assert (expected > 0.02).any()
        # The cascade's hits are sums over classes, whose events exclude each other.
        auto = assess(classifier, few, delta=delta, estimator="auto", **settings)
        np.testing.assert_array_equal(auto.hits, result.hits)


def host(images):
    # Not traceable: NumPy alone.
    return np.asarray(network(make_variables(0), np.asarray(images)))


@pytest.mark.slow
def test_black_boxes_are_counted_or_split(images, results):
    classifier = jaxrob.Classifier.from_host(host, 4)
    plain = results["auto"].status[:7]
    result = assess(classifier, images[:7], estimator="auto", **UNLIMITED)
    np.testing.assert_array_equal(result.status == "counted", plain == "counted")
    assert set(result.status) <= {"counted", "splitting"}
    assert (result.status == "splitting").any()
    difference = (
        result.log_adversarial_probability
        - results["auto"].log_adversarial_probability[:7]
    )
    assert np.abs(difference).max() < 1.5
    with pytest.raises(ValueError, match="that JAX can differentiate"):
        assess(classifier, images[:7], estimator="importance", **SETTINGS)


@pytest.mark.slow
def test_stochastic_classifiers_are_answered(images):
    def noisy(variables, images, keys):
        noise = jax.vmap(lambda key: jax.random.normal(key, (4,)))(keys)
        return network(variables, images) + noise

    classifier = jaxrob.Classifier(noisy, make_variables(0), stochastic=True)
    # An answer is drawn together with the perturbation: a hit in either way of drawing.
    many = assess(
        classifier, images[:7], estimator="count", **SETTINGS | {"num_samples": 100000}
    )
    for estimator in ("auto", "importance", "splitting"):
        result = assess(classifier, images[:7], estimator=estimator, **UNLIMITED)
        known = result.answered & (many.hits >= 30)
        assert known.sum() >= 3
        assert (result.log_low <= many.log_high)[known].all()
        assert (result.log_high >= many.log_low)[known].all()


# What says nothing, says so.


@pytest.mark.slow
def test_constant_and_unresolved_confidences(classifier, images):
    tiny = SETTINGS | {"epsilon": 1e-9}
    result = assess(classifier, images[:7], estimator="roma", **tiny)
    assert set(result.status) <= {"constant", "unresolved"}
    assert not result.answered.any()
    small = assess(
        classifier, images[:7], estimator="roma", **(SETTINGS | {"epsilon": 1e-6})
    )
    assert (small.status == "unresolved").all()
    for estimator in ("count", "logit", "auto"):
        result = assess(
            classifier, images[:7], estimator=estimator, budget=math.inf, **tiny
        )
        # Not misclassified, and no measure of robustness may call it so.
        assert not (result.plr <= 0.99).any()
        assert result.mean_plr_interval[1] == 1
        # Nothing tells outputs that never change from an event too rare to be hit.
        assert (result.status == "incomplete").all() == (estimator == "auto")
        assert result.answered.all() == (estimator != "auto")


def constant(variables, images):
    return jnp.tile(variables, (len(images), 1))


@pytest.mark.slow
@pytest.mark.filterwarnings("error", "ignore::jaxrob.RobustnessWarning")
def test_a_constant_classifier_is_robust(images):
    classifier = jaxrob.Classifier(constant, np.float32([1, 0, 0]))
    for estimator, status in (
        ("roma", "constant"),
        ("logit", "extrapolated"),
        ("importance", "untrusted"),
        ("auto", "incomplete"),
    ):
        result = assess(classifier, images[:2], estimator=estimator, **UNLIMITED)
        assert (result.status == status).all(), estimator
        if result.answered.all():
            assert (result.plr == 1).all()
            assert (result.log_adversarial_probability == -np.inf).all()
        if status == "incomplete":
            assert (result.log_high < math.log(0.02)).all()


@pytest.mark.slow
def test_json(classifier, images, tmp_path):
    settings = SETTINGS | {"num_samples": np.int64(8), "epsilon": np.float32(1e-9)}
    for estimator in ("roma", "count"):
        result = assess(classifier, images[:2], [0, 1], estimator=estimator, **settings)
        text = result.to_json(tmp_path / "result.json")
        assert (tmp_path / "result.json").read_text() == text
        document = json.loads(text, parse_constant=pytest.fail)
        assert document["status"] == result.status.tolist()
        assert document["num_samples"] == 8 and document["labels"] == [0, 1]
        assert document["caveats"] == list(result.caveats)
        expected = None if estimator == "roma" else "-inf"
        assert document["log_adversarial_probability"] == [expected] * 2
        assert roma.RomaResult.from_json(text).to_json() == text


# Other perturbations.


def levels_drawn(perturbation, number=4000):
    image = jnp.zeros(SHAPE)
    keys = jax.random.split(jax.random.key(4), number)
    found = jax.vmap(
        lambda key: perturbation.perturbed(image, perturbation.draw(key, image))
    )(keys)
    return np.asarray(found)[:, 0, 0, 0]


SHIFT = jaxrob.Alteration("shift", lambda image, level: image + level, -0.5, 1.5, 0.0)


def test_levels_have_the_distribution_given():
    drawn = levels_drawn(roma.from_alteration(SHIFT))
    assert stats.kstest(drawn, stats.uniform(-0.5, 2).cdf).pvalue > 1e-3
    beta = distributions.Beta(0.5, 0.5)
    drawn = levels_drawn(roma.from_alteration(SHIFT, beta))
    assert stats.kstest(drawn, stats.beta(0.5, 0.5).cdf).pvalue > 1e-3
    # Renormalised to the alteration's range.
    normal = distributions.Normal(1.0, 1.0)
    drawn = levels_drawn(roma.from_alteration(SHIFT, normal))
    assert stats.kstest(drawn, stats.truncnorm(-1.5, 0.5, 1, 1).cdf).pvalue > 1e-3
    drawn = levels_drawn(roma.from_alteration(SHIFT, clip=True))
    assert drawn.min() == 0 and drawn.max() == 1


def brightness(variables, images):
    mean = images.mean(axis=(1, 2, 3))
    return jnp.stack([0 * mean, 20 * (mean - variables)], axis=1)


def shifted(key, image):
    return image + jax.random.uniform(key, (), minval=-1, maxval=1)


@pytest.mark.parametrize("perturbation", [SHIFT, shifted])
def test_alterations_and_samplers(perturbation):
    classifier = jaxrob.Classifier(brightness, np.float32(0.8))
    images = np.full((3, *SHAPE), 0.5, np.float32)
    number = 3000
    settings = {"perturbation": perturbation, "key": KEY, "num_samples": number}
    result = assess(classifier, images, estimator="auto", **settings)
    assert (result.status == "counted").all()
    assert result.epsilon is None and result.perturbation in ("shift", "shifted")
    # The mean must pass 0.8 + logit(0.6) / 20.
    shift = 0.3 + special.logit(0.6) / 20
    p = (1.5 - shift) / 2 if perturbation is SHIFT else (1 - shift) / 2
    assert (
        stats.chisquare(
            np.ravel([result.hits, number - result.hits]),
            number * np.repeat([p, 1 - p], 3),
        ).pvalue
        > 1e-3
    )
    with pytest.raises(ValueError, match="and a ball"):
        assess(classifier, images, estimator="importance", **settings)
    if perturbation is not SHIFT:
        with pytest.raises(ValueError, match="needs a perturbation with a move"):
            assess(classifier, images, estimator="splitting", **settings)


@pytest.mark.parametrize("log10_p", [-2, -5])
def test_rare_levels_are_split(log10_p):
    shift = -0.5 + 2 * (1 - 10.0**log10_p)
    brightest = 0.5 + shift - special.logit(0.6) / 20
    classifier = jaxrob.Classifier(brightness, np.float32(brightest))
    images = np.full((6, *SHAPE), 0.5, np.float32)
    asked = {"perturbation": SHIFT, "budget": math.inf, "key": KEY}
    result = assess(classifier, images, estimator="auto", **asked)
    assert set(result.status) <= {"splitting"}
    truth = log10_p * np.log(10)
    assert ((result.log_low <= truth) & (truth <= result.log_high)).all()
    assert np.abs(result.log_adversarial_probability - truth).max() < 0.5


# Refusals.


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon must be positive"),
        ({"epsilon": np.nan}, ValueError, "epsilon must be positive"),
        ({"delta": 0.0}, ValueError, r"delta must lie in \(0, 1\); got 0"),
        ({"delta": 1}, ValueError, r"delta must lie in \(0, 1\); got 1"),
        ({"delta": np.nan}, ValueError, r"delta must lie in \(0, 1\); got nan"),
        ({"num_samples": 7}, ValueError, "num_samples must be at least 8; got 7"),
        ({"num_samples": 10.5}, TypeError, "float"),
        ({"norm": "l7"}, ValueError, "norm must be one of"),
        ({"estimator": "best"}, ValueError, "estimator must be one of"),
        ({"images": np.zeros((0, 4, 5, 1))}, ValueError, "empty"),
        ({"images": np.full((1, 4, 5, 1), np.nan)}, ValueError, "must be finite"),
        ({"images": np.full((1, 4, 5, 1), 2.0)}, ValueError, r"must lie in \[0, 1\]"),
        ({"images": np.zeros((1, 4, 5, 1), int)}, TypeError, "uint8 or floating"),
        ({"images": np.zeros((1, 3, 3, 1))}, ValueError, "failed on images"),
        ({"labels": [4]}, ValueError, "below the classifier's number of classes, 4"),
        ({"labels": [-1]}, ValueError, "labels must be at least 0; got -1"),
        ({"labels": [0, 1]}, ValueError, "labels must have the shape"),
        ({"classifier": network}, TypeError, "must be a jaxrob.Classifier"),
        ({"key": 3}, TypeError, "key must be a random key"),
        ({"perturbation": 3}, TypeError, "perturbation must be a function"),
        (
            {"perturbation": lambda key, image: image[0]},
            ValueError,
            "must return an image of the shape",
        ),
        (
            {"level_distribution": distributions.Uniform(0, 1)},
            ValueError,
            "level_distribution needs an Alteration",
        ),
    ],
)
def test_refusals(classifier, changed, error, message):
    arguments = {
        "classifier": classifier,
        "images": np.full((1, *SHAPE), 0.5, np.float32),
        "labels": None,
        "key": KEY,
    }
    with pytest.raises(error, match=message):
        assess(**(arguments | changed))


@pytest.mark.slow
def test_refuses_scores_and_nan(images):
    scores = jaxrob.Classifier(network, make_variables(0), "scores")
    with pytest.raises(ValueError, match='outputs are "scores"'):
        assess(scores, images[:2], **SETTINGS)

    def sometimes_nan(variables, images):
        logits = network(variables, images)
        total = images.sum(axis=(1, 2, 3))
        # Neither unperturbed input is so bright.
        return jnp.where(total[:, None] > 10.5, jnp.nan, logits)

    two = np.full((2, *SHAPE), 0.5, np.float32)
    two[0] = 0.1
    classifier = jaxrob.Classifier(sometimes_nan, make_variables(0))
    for estimator in ("roma", "auto"):
        with pytest.raises(
            ValueError, match="1 of the inputs, first of input 1, .*NaN"
        ):
            assess(classifier, two, estimator=estimator, **SETTINGS)


def scaled(variables, images):
    scale, rest = variables
    return scale * network(rest, images)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("estimator", ["importance", "auto", "logit"])
@pytest.mark.parametrize("scale", [1e3, 1e30, 3e37])
def test_logits_of_any_size_give_an_answer_or_none(images, estimator, scale):
    classifier = jaxrob.Classifier(scaled, (np.float32(scale), make_variables(0)))
    few = {"epsilon": 0.15, "num_samples": 100, "key": KEY}
    found = assess(classifier, images[:3], estimator=estimator, **few)
    counted = found.hits / 100
    # No answer contradicts the plain draws, which see the order alone.
    low, high = np.exp(found.log_low), np.exp(found.log_high)
    assert not (found.answered & (counted - 0.2 > np.nan_to_num(high, nan=1))).any()
    assert not (found.answered & (counted + 0.2 < np.nan_to_num(low, nan=0))).any()
    unscaled = jaxrob.Classifier(network, make_variables(0))
    reference = assess(unscaled, images[:3], estimator="count", **few)
    np.testing.assert_array_equal(found.excluded, reference.excluded)


@pytest.mark.parametrize("estimator", ["importance", "auto"])
def test_infinite_logits_are_refused(images, estimator):
    classifier = jaxrob.Classifier(scaled, (np.float32(np.inf), make_variables(0)))
    with pytest.raises(ValueError, match="infinite logits"):
        assess(classifier, images[:3], estimator=estimator, **SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["importance", "auto"])
def test_equal_logits_of_two_classes_are_never_distinct(images, estimator):
    def apply(variables, images):
        return 0 * network(variables, images)[:, :2]

    classifier = jaxrob.Classifier(apply, make_variables(0))
    with pytest.warns(jaxrob.RobustnessWarning, match="same for every image"):
        found = assess(classifier, images[:3], estimator=estimator, **SETTINGS)
    assert not (found.plr < 1).any()


def of_its_batch(variables, images):
    """Its rows sum to 1 in small batches alone."""
    p = jax.nn.softmax(network(variables, images))
    return p if len(images) < 50 else 2 * p


@pytest.mark.parametrize("estimator", ["count", "splitting"])
def test_answers_that_depend_on_the_batch_are_not_called_nan(images, estimator):
    classifier = jaxrob.Classifier(of_its_batch, make_variables(0), "probabilities")
    with pytest.raises(ValueError, match="depend on the images beside") as caught:
        assess(classifier, images[:3], estimator=estimator, **SETTINGS)
    assert "for the unperturbed images it was" in str(caught.value)


def test_where_every_draw_fails_plr_is_0_and_not_minus_0():
    def only_here(variables, images):
        is_here = (images[:, :1, 0, 0] == 0.5).astype(np.float32)
        return 20 * jnp.concatenate([is_here, 1 - is_here], axis=1)

    image = np.full((1, *SHAPE), 0.5, np.float32)
    classifier = jaxrob.Classifier(only_here, ())
    result = assess(classifier, image, estimator="count", **SETTINGS)
    assert result.hits == 300 and f"{result.plr[0]}" == "0.0"
    assert f"{result.confidence_interval[0, 0]}" == "0.0"
