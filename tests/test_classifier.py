import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from scipy import special

import jaxrob
from jaxrob import alterations, bayes
from jaxrob._engine.answers import answer
from jaxrob._identity.digest import host_array
from jaxrob._log_probabilities import log_normalised
from jaxrob.networks import MLP

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((6, 5, 5, 1)))
VALUES = np.float32(RANDOM.normal(size=(6, 4)))


def returning(outputs, kind):
    return jaxrob.Classifier(lambda variables, images: variables, outputs, kind)


def test_logits_become_log_softmax():
    log_p = returning(VALUES, "logits").log_probabilities(IMAGES)
    assert log_p.shape == (1, 6, 4)
    np.testing.assert_allclose(log_p[0], special.log_softmax(VALUES, 1), atol=1e-6)


def test_probabilities_become_their_logarithm():
    p = special.softmax(VALUES, 1)
    log_p = returning(p, "probabilities").log_probabilities(IMAGES)
    np.testing.assert_allclose(log_p[0], np.log(p), atol=1e-6)


def test_a_probability_of_zero_gives_no_nan():
    p = np.float32([[1, 0], [0, 1]])
    log_p = returning(p, "probabilities").log_probabilities(IMAGES[:2])
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p[0]), p, atol=1e-30)


def test_sigmoid_heads_are_normalised():
    s = special.expit(VALUES)
    log_p = returning(s, "sigmoid").log_probabilities(IMAGES)
    np.testing.assert_allclose(np.exp(log_p[0]), s / s.sum(1, keepdims=True), rtol=1e-5)


def test_one_sigmoid_column_is_the_probability_of_class_1():
    s = special.expit(VALUES[:, :1])
    log_p = returning(s, "sigmoid").log_probabilities(IMAGES)
    np.testing.assert_allclose(
        np.exp(log_p[0]), np.concatenate([1 - s, s], 1), rtol=1e-5
    )


def test_samples_keep_their_axis():
    stacked = np.stack([VALUES, 2 * VALUES])
    log_p = returning(stacked, "logits").log_probabilities(IMAGES)
    np.testing.assert_allclose(log_p, special.log_softmax(stacked, -1), atol=1e-5)


def test_scores_have_no_probabilities_but_a_largest_class():
    classifier = jaxrob.Classifier(
        lambda variables, images: jnp.tile(jnp.asarray(VALUES[2]), (len(images), 1)),
        outputs="scores",
    )
    with pytest.raises(ValueError, match='outputs="scores" has no probabilities'):
        classifier.log_probabilities(IMAGES)
    data = jaxrob.Dataset(IMAGES, np.zeros(6, int))
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])
    np.testing.assert_array_equal(curve.predicted[0], np.full(6, VALUES[2].argmax()))
    assert curve.confidence is None and curve.uncertainty is None
    with pytest.raises(ValueError, match="alpha needs uncertainties"):
        curve.with_unknown(0.8)


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, images, train=False):
        x = linen.Dense(8)(images.reshape(len(images), -1))
        x = linen.BatchNorm(use_running_average=not train)(x)
        self.sow("intermediates", "hidden", x)
        return linen.Dense(3)(linen.Dropout(0.5, deterministic=not train)(x))


def test_linen_module_with_mutable_collections():
    module = Normalised()
    variables = jax.jit(module.init)(jax.random.key(0), IMAGES)
    variables["batch_stats"]["BatchNorm_0"]["mean"] += 0.3
    classifier = jaxrob.Classifier.from_linen(module, variables, train=False)
    expected = special.log_softmax(module.apply(variables, IMAGES), 1)
    log_p = classifier.log_probabilities(IMAGES)
    np.testing.assert_allclose(log_p[0], expected, atol=1e-6)


class NnxNormalised(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(25, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, images):
        x = self.norm(self.first(images.reshape(len(images), -1)))
        return self.last(self.dropout(x))


def test_nnx_module_is_applied_in_evaluation_mode_and_not_changed():
    module = NnxNormalised(nnx.Rngs(0))
    module.train()
    module.norm.mean[...] = jnp.full(8, 0.3)
    classifier = jaxrob.Classifier.from_nnx(module)
    log_p = classifier.log_probabilities(IMAGES)
    assert not module.dropout.deterministic and not module.norm.use_running_average
    module.eval()
    expected = special.log_softmax(module(jnp.asarray(IMAGES)), 1)
    np.testing.assert_allclose(log_p[0], expected, atol=1e-6)


def train(module):
    """Trains a few steps of an NNX optimizer, in place, with statistics and dropout."""
    optimizer = nnx.Optimizer(module, optax.adam(0.1), wrt=nnx.Param)

    @functools.partial(nnx.jit, donate_argnums=(0, 1))
    def step(module, optimizer, images):
        def loss(module):
            return jnp.square(module(images) - 3).mean()

        optimizer.update(module, nnx.grad(loss)(module))

    module.train()
    for _ in range(3):
        step(module, optimizer, jnp.asarray(IMAGES))


def assign(module):
    module.first.kernel[...] = module.first.kernel[...] * 2
    module.last.bias[...] = jnp.ones(3)
    module.norm.mean[...] = jnp.ones(8)
    module.last.kernel = nnx.Param(jnp.ones((8, 3)))


def draw(module):
    """Advances the state of the random streams."""
    module.train()
    module(jnp.asarray(IMAGES))


def write_into(module):
    array = module.last.kernel[...]
    array *= 2


@pytest.mark.parametrize("change", [train, assign, draw, write_into])
def test_a_kept_nnx_classifier_stays_as_it_was(change):
    module = NnxNormalised(nnx.Rngs(0))
    # NumPy arrays are allowed.
    module.last.kernel = nnx.Param(np.array(module.last.kernel[...]))
    module.eval()
    expected = np.asarray(special.log_softmax(module(jnp.asarray(IMAGES)), 1))
    module.train()
    kept = jaxrob.Classifier.from_nnx(module)
    leaves = [np.array(leaf) for leaf in map(host_array, jax.tree.leaves(kept))]
    change(module)
    for leaf, before in zip(jax.tree.leaves(kept), leaves, strict=True):
        np.testing.assert_array_equal(host_array(leaf), before)
    found = kept.log_probabilities(IMAGES)[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    if change is not draw:
        later = jaxrob.Classifier.from_nnx(module).log_probabilities(IMAGES)[0]
        assert np.abs(later - found).max() > 1e-3


def test_making_a_classifier_changes_nothing_of_a_module_in_training():
    module = NnxNormalised(nnx.Rngs(0))
    module.train()
    before = nnx.graphdef(module)
    values = [np.array(host_array(one)) for one in jax.tree.leaves(nnx.state(module))]
    variables = [variable for _, variable in nnx.iter_graph(module)]
    classifier = jaxrob.Classifier.from_nnx(module)
    classifier.log_probabilities(IMAGES)
    assert nnx.graphdef(module) == before
    for one, other in zip(variables, nnx.iter_graph(module), strict=True):
        assert one is other[1] or np.array_equal(one, other[1])
    for one, value in zip(jax.tree.leaves(nnx.state(module)), values, strict=True):
        np.testing.assert_array_equal(host_array(one), value)
    draw(module)  # training continues


def test_nnx_modules_of_one_kind_share_a_structure():
    first, second = (
        jaxrob.Classifier.from_nnx(NnxNormalised(nnx.Rngs(seed))) for seed in (0, 1)
    )
    assert jax.tree.structure(first) == jax.tree.structure(second)


def test_linen_classifiers_of_equal_modules_share_a_structure():
    variables = jax.jit(MLP().init)(jax.random.key(0), IMAGES)
    structures = [
        jax.tree.structure(jaxrob.Classifier.from_linen(MLP(), variables))
        for _ in range(2)
    ]
    assert structures[0] == structures[1]


def test_variables_are_the_leaves():
    variables = jax.jit(MLP().init)(jax.random.key(0), IMAGES)
    classifier = jaxrob.Classifier.from_linen(MLP(), variables)
    assert len(jax.tree.leaves(classifier)) == len(jax.tree.leaves(variables))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, classifier)
    assert isinstance(doubled, jaxrob.Classifier)


def test_gradients_pass_to_images_and_variables():
    variables = jax.jit(MLP().init)(jax.random.key(0), IMAGES)
    classifier = jaxrob.Classifier.from_linen(MLP(), variables)

    def loss(classifier, images):
        return classifier.log_probabilities(images)[0, :, 0].sum()

    gradients = jax.jit(jax.grad(loss, (0, 1)))(classifier, IMAGES)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    assert np.abs(gradients[1]).max() > 0


def test_host_function_runs_on_numpy_arrays_however_large():
    weights = RANDOM.normal(size=(784, 10)).astype(np.float32)

    def predict(images):
        assert isinstance(images, np.ndarray) and images.dtype == np.float32
        return images.reshape(len(images), -1) @ weights

    images = RANDOM.integers(0, 256, (3000, 28, 28, 1), dtype=np.uint8)
    data = jaxrob.Dataset(images, RANDOM.integers(0, 10, 3000))
    levels = np.linspace(-0.5, 0.5, 5)
    curve = jaxrob.evaluate(
        jaxrob.Classifier.from_host(predict, 10), data, alterations.brightness(), levels
    )
    for row, level in enumerate(levels):
        altered = np.clip(images / 255 * (1 + level), 0, 1)
        scores = altered.reshape(3000, -1) @ weights
        best = np.sort(scores, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-3
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(
            curve.predicted[row, clear], scores.argmax(1)[clear]
        )


def test_host_function_of_a_wrong_shape_is_named():
    classifier = jaxrob.Classifier.from_host(lambda images: np.zeros((3, 3)), 10)
    data = jaxrob.Dataset(IMAGES, np.zeros(6, int))
    with pytest.raises(
        Exception, match=r"host function must return the shape \(\d+, 10\); got \(3, 3"
    ):
        jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])


@pytest.mark.parametrize("shape", [(6,), (5, 4), (2, 2, 6, 4), (6, 1)])
def test_outputs_of_a_wrong_shape(shape):
    classifier = returning(np.zeros(shape, np.float32), "logits")
    with pytest.raises(ValueError, match="the classifier must return"):
        classifier.log_probabilities(IMAGES)


class WithFeatures(linen.Module):
    @linen.compact
    def __call__(self, images):
        x = linen.Dense(4)(images.reshape(len(images), -1))
        return x, -x


class WithFeaturesNnx(nnx.Module):
    def __call__(self, images):
        x = images.reshape(len(images), -1)
        return x, -x


def several(pack):
    return lambda variables, images: pack(images[:, 0, :, 0], images[:, 1, :, 0])


def on_host(pack):
    return jaxrob.Classifier.from_host(lambda images: several(pack)(None, images), 5)


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: jaxrob.Classifier(several(lambda *both: both)), "tuple"),
        (lambda: jaxrob.Classifier(several(lambda *both: list(both))), "list"),
        (lambda: jaxrob.Classifier(several(lambda x, y: {"a": x, "b": y})), "dict"),
        (
            lambda: jaxrob.Classifier.from_linen(
                WithFeatures(),
                {
                    "params": {
                        "Dense_0": {"kernel": np.zeros((25, 4)), "bias": VALUES[0]}
                    }
                },
            ),
            "tuple",
        ),
        (lambda: jaxrob.Classifier.from_nnx(WithFeaturesNnx()), "tuple"),
        (lambda: on_host(lambda *both: both), "tuple"),
        (lambda: on_host(lambda x, y: {"a": x, "b": y}), "dict"),
        (
            lambda: bayes.ensemble(several(lambda *both: both), [{"w": VALUES}]),
            "tuple",
        ),
    ],
)
def test_several_outputs_are_rejected(make, named):
    """Neither stacked nor averaged, but rejected before any computation."""
    classifier = make()
    words = rf"must return one array \[B, K\]; got {named} of length"
    with pytest.raises((ValueError, TypeError), match=words):
        jaxrob.evaluate(
            classifier,
            jaxrob.Dataset(IMAGES, np.zeros(6, int)),
            alterations.brightness(),
            [0.0],
        )


class WithLogitsNnx(nnx.Module):
    def __call__(self, images):
        x = images.reshape(len(images), -1)
        return {"logits": x, "features": -x}


@pytest.mark.parametrize(
    "make",
    [
        lambda: jaxrob.Classifier(several(lambda x, y: {"logits": x, "more": y})),
        lambda: jaxrob.Classifier(several(lambda x, y: (x, y.sum()))),
        lambda: jaxrob.Classifier.from_nnx(WithLogitsNnx()),
        lambda: on_host(lambda x, y: {"logits": x, "more": y}),
        lambda: on_host(lambda x, y: (y.sum(), x)),
    ],
    ids=["dict", "tuple", "nnx", "dict on the host", "tuple on the host"],
)
def test_class_outputs_are_found(make):
    found = make().raw_outputs(jnp.asarray(IMAGES))[0, :, :5]
    np.testing.assert_array_equal(found, IMAGES[:, 0, :, 0])


def test_a_list_of_rows_from_the_host_is_an_array():
    classifier = jaxrob.Classifier.from_host(lambda images: VALUES[:6].tolist(), 4)
    np.testing.assert_array_equal(classifier.raw_outputs(IMAGES)[0], VALUES)


def test_outputs_of_an_unknown_kind():
    with pytest.raises(ValueError, match="outputs must be one of .* got 'softmax'"):
        jaxrob.Classifier(lambda variables, images: images, None, "softmax")


def test_apply_fn_that_is_not_callable():
    with pytest.raises(
        TypeError, match="apply_fn must be a function of variables and images; got dict"
    ):
        jaxrob.Classifier({}, None)


def test_stochastic_classifier_without_keys():
    classifier = jaxrob.Classifier(lambda v, x, k: x, None, stochastic=True)
    with pytest.raises(ValueError, match="stochastic and needs keys"):
        classifier.log_probabilities(IMAGES)


def test_number_of_classes():
    variables = jax.jit(MLP().init)(jax.random.key(0), IMAGES)
    classifier = jaxrob.Classifier.from_linen(MLP(), variables)
    assert classifier.num_classes((5, 5, 1)) == 10
    with pytest.raises(ValueError, match=r"failed on images of the shape \[B, 5, 5, 3"):
        classifier.num_classes((5, 5, 3))


# The order of eighths is exact at any scale, and so is the truth.
EIGHTHS = np.float32(RANDOM.permuted(np.tile(np.arange(-4, 4) / 8, (200, 1)), axis=1))
LABELS = np.arange(200, dtype=np.int32) % 8
RANKS = (EIGHTHS > EIGHTHS[np.arange(200), LABELS][:, None]).sum(1)


def test_the_scale_of_the_logits_never_changes_the_class_predicted():
    # A final multiplication, which XLA may fuse with the next operation.
    @jax.jit
    def answers(scale):
        classifier = jaxrob.Classifier(lambda variables, _: scale * variables, EIGHTHS)
        return answer(classifier, jnp.zeros((200, 2, 2, 1)), LABELS)

    for power in range(31):
        found = answers(jnp.float32(10.0**power))
        np.testing.assert_array_equal(found.predicted, EIGHTHS.argmax(axis=1))
        np.testing.assert_array_equal(found.rank, RANKS)
        assert (np.asarray(found.confidence) >= 1 / 8 - 1e-6).all()


@pytest.mark.parametrize("kind", ["probabilities", "sigmoid"])
def test_outputs_whose_logarithms_are_equal_keep_their_order(kind):
    rows = np.float32(1 / 8 + 8 * EIGHTHS * 2.0**-26)
    assert len(np.unique(np.log(rows))) < len(np.unique(rows)) == 8
    found = answer(returning(rows, kind), jnp.zeros((200, 2, 2, 1)), LABELS)
    np.testing.assert_array_equal(found.predicted, EIGHTHS.argmax(axis=1))
    np.testing.assert_array_equal(found.rank, RANKS)


@pytest.mark.parametrize("scale", [1.0, 1e10, 1e30, 1e38])
def test_softmax_of_logits_of_any_size_equals_float64_s(scale):
    random = np.random.default_rng(1)
    logits = np.float32(random.normal(size=(64, 5)) * scale / 4)
    exact = logits.astype(np.float64)
    exact = np.exp(exact - exact.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    multiplied = jaxrob.Classifier(lambda v, x: v * jnp.float32(scale), logits / scale)
    found = jax.jit(lambda x: multiplied.log_probabilities(x))(jnp.zeros((64, 1, 1, 1)))
    np.testing.assert_allclose(np.exp(found[0]), exact, atol=1e-5)


def test_the_softmax_s_gradient_is_right_where_logits_tie():
    def log_p(logits, cls):
        return log_normalised(logits, "logits")[cls]

    for logits in ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [3.0, -1.0, 0.5]):
        p = np.exp(logits) / np.exp(logits).sum()
        for cls in range(3):
            slope = jax.grad(log_p)(jnp.float32(logits), cls)
            np.testing.assert_allclose(slope, np.eye(3)[cls] - p, atol=1e-6)
    assert np.isnan(log_normalised(jnp.float32([jnp.inf, 0, 1]), "logits")).all()
