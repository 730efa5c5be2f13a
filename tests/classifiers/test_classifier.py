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
from jaxrob._identity.identity import host_array
from jaxrob._numbers import log_normalised
from jaxrob.networks import MLP

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((6, 5, 5, 1)))
VALUES = np.float32(RANDOM.normal(size=(6, 4)))


def returning(outputs, kind):
    return jaxrob.Classifier(lambda variables, images: variables, outputs, kind)


@pytest.mark.slow
def test_every_kind_of_outputs_becomes_logarithms_of_probabilities():
    s, p = special.expit(VALUES), special.softmax(VALUES, 1)
    stacked = np.stack([VALUES, 2 * VALUES])
    certain = np.float32([[1, 0], [0, 1]])
    given = [
        (VALUES, "logits", p[None]),
        (stacked, "logits", special.softmax(stacked, -1)),
        (p, "probabilities", p[None]),
        (certain, "probabilities", certain[None]),
        (s, "sigmoid", s[None] / s.sum(1, keepdims=True)),
        # A hard sigmoid may round beyond 1.
        (certain[:, :1] * (1 + 2.0**-23), "sigmoid", certain[None, ::-1]),
        # One column is of class 1.
        (VALUES[:, :1], "logits", special.softmax(VALUES[:, :1] * [0, 1], 1)[None]),
        (s[:, :1], "sigmoid", np.concatenate([1 - s[:, :1], s[:, :1]], 1)[None]),
    ]

    @jax.jit
    def found():
        few = [IMAGES[: values.shape[-2]] for values, *_ in given]
        return [
            returning(values, kind).log_probabilities(images)
            for (values, kind, _), images in zip(given, few)
        ]

    for log_p, (*_, expected) in zip(found(), given):
        assert np.isfinite(log_p).all()
        np.testing.assert_allclose(np.exp(log_p), expected, rtol=1e-5, atol=1e-30)


def test_scores_have_no_probabilities_but_a_largest_class():
    classifier = jaxrob.Classifier(
        lambda variables, images: jnp.tile(jnp.asarray(VALUES[2]), (len(images), 1)),
        outputs="scores",
    )
    with pytest.raises(ValueError, match="scores"):
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


def by_hand(images, first, norm, last):
    """Class probabilities of both modules in evaluation mode, from their layers."""
    x = images.reshape(len(images), -1) @ first[0] + first[1]
    mean, variance = norm
    x = (x - mean) / np.sqrt(variance + 1e-5)
    return special.softmax(x @ last[0] + last[1], 1)


def probabilities(classifier):
    return np.exp(jax.jit(lambda one: one.log_probabilities(IMAGES)[0])(classifier))


def test_linen_module_with_mutable_collections():
    first = RANDOM.normal(size=(25, 8)), np.ones(8)
    norm, last = (np.full(8, 0.3), np.ones(8)), (RANDOM.normal(size=(8, 3)), np.ones(3))
    variables = {
        "params": {
            **{
                f"Dense_{i}": {"kernel": kernel, "bias": bias}
                for i, (kernel, bias) in enumerate((first, last))
            },
            "BatchNorm_0": {"scale": np.ones(8), "bias": np.zeros(8)},
        },
        "batch_stats": {"BatchNorm_0": {"mean": norm[0], "var": norm[1]}},
    }
    variables = jax.tree.map(np.float32, variables)
    classifier = jaxrob.Classifier.from_linen(Normalised(), variables, train=False)
    expected = by_hand(IMAGES, first, norm, last)
    np.testing.assert_allclose(probabilities(classifier), expected, atol=1e-5)


class NnxNormalised(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(25, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, images):
        x = self.norm(self.first(images.reshape(len(images), -1)))
        return self.last(self.dropout(x))


def nnx_by_hand(module):
    first, last = (
        [np.array(part[...]) for part in (layer.kernel, layer.bias)]
        for layer in (module.first, module.last)
    )
    norm = np.array(module.norm.mean[...]), np.array(module.norm.var[...])
    return by_hand(IMAGES, first, norm, last)


def train(module):
    """Trains a few steps of an NNX optimizer, in place, with statistics and dropout."""
    optimizer = nnx.Optimizer(module, optax.sgd(0.1), wrt=nnx.Param)

    @functools.partial(nnx.jit, donate_argnums=(0, 1))
    def step(module, optimizer, images):
        def loss(module):
            return jnp.square(module(images) - 3).mean()

        optimizer.update(module, nnx.grad(loss)(module))

    module.train()
    for _ in range(3):
        step(module, optimizer, jnp.asarray(IMAGES))


def draw(module):
    """Advances the state of the random streams."""
    module.train()
    nnx.jit(lambda module: module(IMAGES))(module)


def write_into(module):
    array = module.last.kernel[...]
    array *= 2


@pytest.mark.parametrize(
    "change", [train, pytest.param(draw, marks=pytest.mark.slow), write_into]
)
def test_a_kept_nnx_classifier_stays_as_it_was(change):
    module = NnxNormalised(nnx.Rngs(0))
    # NumPy arrays are allowed.
    module.last.kernel = nnx.Param(np.array(module.last.kernel[...]))
    module.norm.mean[...] = jnp.full(8, 0.3)
    module.train()
    kept, expected = jaxrob.Classifier.from_nnx(module), nnx_by_hand(module)
    # It is in evaluation mode, the module is not.
    assert not module.dropout.deterministic and not module.norm.use_running_average
    leaves = [np.array(leaf) for leaf in map(host_array, jax.tree.leaves(kept))]
    change(module)
    for leaf, before in zip(jax.tree.leaves(kept), leaves, strict=True):
        np.testing.assert_array_equal(host_array(leaf), before)
    np.testing.assert_allclose(probabilities(kept), expected, atol=1e-5)
    if change is not draw:
        later = probabilities(jaxrob.Classifier.from_nnx(module))
        assert np.abs(later - expected).max() > 1e-3


@pytest.mark.slow
def test_making_a_classifier_changes_nothing_of_a_module_in_training():
    module = NnxNormalised(nnx.Rngs(0))
    module.train()
    before = nnx.graphdef(module)
    values = [np.array(host_array(one)) for one in jax.tree.leaves(nnx.state(module))]
    variables = [variable for _, variable in nnx.iter_graph(module)]
    probabilities(jaxrob.Classifier.from_nnx(module))
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


def linear_layer(x, y):
    kernel = np.float32(RANDOM.normal(size=(x, y)))
    return {"kernel": kernel, "bias": np.zeros(y, np.float32)}


LAYERS = {"Dense_0": linear_layer(25, 100), "Dense_1": linear_layer(100, 10)}


def test_variables_are_the_leaves():
    first, second = (
        jaxrob.Classifier.from_linen(MLP(), {"params": LAYERS}) for _ in range(2)
    )
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert len(jax.tree.leaves(first)) == len(jax.tree.leaves(LAYERS))
    assert isinstance(jax.tree.map(lambda leaf: 2 * leaf, first), jaxrob.Classifier)


@pytest.mark.slow
def test_gradients_pass_to_images_and_variables():
    classifier = jaxrob.Classifier.from_linen(MLP(), {"params": LAYERS})

    def loss(classifier, images):
        return classifier.log_probabilities(images)[0, :, 0].sum()

    gradients = jax.jit(jax.grad(loss, (0, 1)))(classifier, IMAGES)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    assert np.abs(gradients[1]).max() > 0


@pytest.mark.slow
def test_host_function_runs_on_numpy_arrays_however_large():
    weights = RANDOM.normal(size=(784, 10)).astype(np.float32)

    def predict(images):
        assert isinstance(images, np.ndarray) and images.dtype == np.float32
        return images.reshape(len(images), -1) @ weights

    images = RANDOM.integers(0, 256, (3000, 28, 28, 1), dtype=np.uint8)
    data = jaxrob.Dataset(images, RANDOM.integers(0, 10, 3000))
    levels = [-0.5, 0.5]
    curve = jaxrob.evaluate(
        jaxrob.Classifier.from_host(predict, 10), data, alterations.brightness(), levels
    )
    for row, level in enumerate(levels):
        scores = np.clip(images / 255 * (1 + level), 0, 1).reshape(3000, -1) @ weights
        best = np.sort(scores, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-3
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(
            curve.predicted[row, clear], scores.argmax(1)[clear]
        )


@pytest.mark.parametrize("shape", [(6,), (5, 4), (2, 2, 6, 4), (6, 0)])
def test_outputs_of_a_wrong_shape(shape):
    """One number for each image lacks an axis; it is not told of masks."""
    classifier = returning(np.zeros(shape, np.float32), "logits")
    with pytest.raises(ValueError, match="classifier") as caught:
        jax.eval_shape(classifier.log_probabilities, IMAGES)
    assert ("[B, 1]" in str(caught.value)) is (shape == (6,))


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
        (lambda: jaxrob.Classifier.from_nnx(WithFeaturesNnx()), "tuple"),
        (lambda: on_host(lambda *both: both), "tuple"),
        (lambda: on_host(lambda x, y: {"a": x, "b": y}), "dict"),
        (lambda: bayes.ensemble(several(lambda *both: both), [{"w": VALUES}]), "tuple"),
    ],
)
def test_several_outputs_are_rejected(make, named):
    """Neither stacked nor averaged, but rejected before any computation."""
    classifier = make()
    words = f"one array.*got {named} of length"
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
        lambda: jaxrob.Classifier.from_nnx(WithLogitsNnx()),
        lambda: on_host(lambda x, y: (y.sum(), x)),
    ],
    ids=["dict", "nnx", "tuple on the host"],
)
def test_class_outputs_are_found(make):
    found = jax.jit(lambda: make().raw_outputs(jnp.asarray(IMAGES)))()
    np.testing.assert_array_equal(found[0, :, :5], IMAGES[:, 0, :, 0])


def test_a_list_of_rows_from_the_host_is_an_array():
    classifier = jaxrob.Classifier.from_host(lambda images: VALUES[:6].tolist(), 4)
    np.testing.assert_array_equal(classifier.raw_outputs(IMAGES)[0], VALUES)


def test_what_makes_no_classifier():
    with pytest.raises(ValueError, match="outputs.*got 'softmax'"):
        jaxrob.Classifier(lambda variables, images: images, None, "softmax")
    with pytest.raises(TypeError, match="apply_fn.*got dict"):
        jaxrob.Classifier({}, None)
    classifier = jaxrob.Classifier(lambda v, x, k: x, None, stochastic=True)
    with pytest.raises(ValueError, match="needs keys"):
        classifier.log_probabilities(IMAGES)


def test_number_of_classes():
    classifier = jaxrob.Classifier.from_linen(MLP(), {"params": LAYERS})
    assert classifier.num_classes((5, 5, 1)) == 10
    with pytest.raises(ValueError, match="images of the shape .B, 5, 5, 3"):
        classifier.num_classes((5, 5, 3))


# The order of eighths is exact at any scale, and so is the truth.
EIGHTHS = np.float32(RANDOM.permuted(np.tile(np.arange(-4, 4) / 8, (200, 1)), axis=1))
LABELS = np.arange(200, dtype=np.int32) % 8
RANKS = (EIGHTHS > EIGHTHS[np.arange(200), LABELS][:, None]).sum(1)


@pytest.mark.slow
def test_the_scale_of_the_logits_never_changes_the_class_predicted():
    # A final multiplication, which XLA may fuse with the next operation.
    @jax.jit
    def answers(scale):
        classifier = jaxrob.Classifier(lambda variables, _: scale * variables, EIGHTHS)
        return answer(classifier, jnp.zeros((200, 2, 2, 1)), LABELS)

    for power in range(0, 31, 3):
        found = answers(jnp.float32(10.0**power))
        np.testing.assert_array_equal(found.predicted, EIGHTHS.argmax(axis=1))
        np.testing.assert_array_equal(found.rank, RANKS)
        assert (np.asarray(found.confidence) >= 1 / 8 - 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probabilities", "sigmoid"])
def test_outputs_whose_logarithms_are_equal_keep_their_order(kind):
    rows = np.float32(1 / 8 + 8 * EIGHTHS * 2.0**-26)
    assert len(np.unique(np.log(rows))) < len(np.unique(rows)) == 8
    images = np.zeros((200, 2, 2, 1), np.float32)
    found = jax.jit(lambda: answer(returning(rows, kind), images, LABELS))()
    np.testing.assert_array_equal(found.predicted, EIGHTHS.argmax(axis=1))
    np.testing.assert_array_equal(found.rank, RANKS)


@pytest.mark.parametrize("scale", [1.0, 1e38])
def test_softmax_of_logits_of_any_size_equals_float64_s(scale):
    logits = np.float32(np.random.default_rng(1).normal(size=(64, 5)) * scale / 4)
    exact = logits.astype(np.float64)
    exact = np.exp(exact - exact.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    multiplied = jaxrob.Classifier(lambda v, x: v * jnp.float32(scale), logits / scale)
    found = jax.jit(lambda x: multiplied.log_probabilities(x))(jnp.zeros((64, 1, 1, 1)))
    np.testing.assert_allclose(np.exp(found[0]), exact, atol=1e-5)


def test_the_softmax_s_gradient_is_right_where_logits_tie():
    logits = np.float32([[0, 0, 0], [1, 1, 0], [3, -1, 0.5]])
    log_p = functools.partial(log_normalised, kind="logits")
    found = jax.jit(jax.vmap(jax.jacobian(log_p)))(logits)
    expected = np.eye(3) - special.softmax(logits, 1)[:, None]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.isnan(jax.jit(log_p)(np.float32([np.inf, 0, 1]))).all()
